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

// Every chart with data is drawn and has a table, and the page of charts has all of them.
const charts = await (await fetch(`${url}/v1/charts`)).json();
const page = await visit("/charts", 1400, "light");
const drawn = await page.$$eval("svg", (found) => found.filter((one) => one.getBoundingClientRect().width > 100).length);
ensure(drawn >= charts.charts.length / 2, `${drawn} of ${charts.charts.length} charts are drawn`);
ensure((await page.$$("table")).length >= drawn, "a chart without a table");

// The page of running measurements is filled by its script.
const live = await visit("/live", 390, "light");
await live.waitForFunction(() => document.querySelectorAll("tbody tr").length > 0 && /Updated/.test(document.body.innerText), { timeout: 20_000 });
await browser.close();
for (const failure of new Set(failures)) console.error(failure);
process.exit(failures.length ? 1 : 0);
