// The dashboard of a running collector, as people read it on a desk and on a phone. Arguments: URL RESULT.

import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = path.join(process.env.PATHBENCH_TEST_TOOLS, "node_modules");
const entry = (name) => createRequire(path.join(modules, "x.js")).resolve(name);
const puppeteer = (await import(pathToFileURL(entry("puppeteer-core")).href)).default;
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  protocolTimeout: 120_000,
});
const failures = [];
const ensure = (condition, text) => condition || failures.push(text);
const [url, result] = process.argv.slice(2);
const axe = fs.readFileSync(entry("axe-core"), "utf8");

async function visit(place, width, scheme) {
  const page = await browser.newPage();
  const name = `${place} at ${width}`;
  // A violation of the content security policy is an error of the console.
  page.on("console", (message) => ensure(!["error", "warn"].includes(message.type()), `${name}: ${message.text()}`));
  page.on("pageerror", (error) => ensure(false, `${name}: ${error.stack ?? error}`));
  page.on("request", (request) => {
    const own = request.url().startsWith(url) || /^(data|blob):/.test(request.url());
    ensure(own, `${name} asks for ${request.url()}`);
  });
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  const answer = await page.goto(url + place, { waitUntil: "load", timeout: 60_000 });
  ensure(answer.status() === 200, `${name}: status ${answer.status()}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  ensure(wide <= 0, `${name}: ${wide} pixels wider than the window`);
  ensure((await page.$$("h1")).length > 0, `${name}: no heading`);
  return page;
}

const places = ["/", "/charts", "/charts/gain", "/results", `/results/${result}`, `/results/${result}/report`, "/live", "/servers", "/about"];
for (const [width, scheme] of [[1400, "light"], [390, "dark"]]) {
  for (const place of places) {
    const page = await visit(place, width, scheme);
    if (!place.endsWith("/report")) {
      await page.evaluate(axe);
      const violations = await page.evaluate(async () => (await axe.run(document)).violations
        .filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => one.id));
      ensure(violations.length === 0, `${place} at ${width}: ${violations}`);
    }
    await page.close();
  }
}

// The page of charts has all of them, drawn as they come into view; each has a page with its table.
const charts = (await (await fetch(`${url}/v1/charts`)).json()).charts;
const page = await visit("/charts", 1400, "light");
for (const image of await page.$$("figure img")) await image.evaluate((one) => one.scrollIntoView());
await page.waitForFunction(() => [...document.querySelectorAll("figure img")].every((one) => one.naturalWidth > 100), { timeout: 30_000 });
ensure((await page.$$("figure img")).length === charts.length, "a chart without a picture");
for (const { name } of charts) {
  const one = await visit(`/charts/${name}`, 390, "light");
  const { n } = await (await fetch(`${url}/v1/charts/${name}.json`)).json();
  ensure(n === 0 || (await one.$$("figure svg")).length === 1, `${name}: no figure`);
  ensure(n === 0 || (await one.$$("figure table")).length === 1, `${name}: no table`);
  await one.close();
}

// The page of running measurements is filled by its script.
const live = await visit("/live", 390, "light");
await live.waitForFunction(() => document.querySelectorAll("tbody tr").length > 0 && /Updated/.test(document.body.innerText), { timeout: 20_000 });
await browser.close();
for (const failure of new Set(failures)) console.error(failure);
process.exit(failures.length ? 1 : 0);
