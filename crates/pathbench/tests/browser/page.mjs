// The agent's page as its owner uses it. Arguments: URL SERVER FINGERPRINT.

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
const [url, server, fingerprint] = process.argv.slice(2);
const origin = new URL(url).origin;

const page = await browser.newPage();
page.on("console", (message) => ensure(!["error", "warn"].includes(message.type()), `console: ${message.text()}`));
page.on("pageerror", (error) => ensure(false, `exception: ${error.stack ?? error}`));
page.on("request", (request) =>
  ensure(request.url().startsWith(origin) || request.url().startsWith("data:"), `request: ${request.url()}`));
const ready = () => page.waitForSelector("body[data-ready]");

// Nothing sticks out at any width, and everything to touch is large enough.
async function look(name) {
  for (const width of [390, 1400]) {
    await page.setViewport({ width, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    ensure(!wide, `${name}: the page is wider than ${width} pixels`);
    const small = await page.$$eval("button, label:has(input), summary, a", (found) => found
      .filter((one) => one.offsetParent && one.getBoundingClientRect().height < 44).map((one) => one.textContent));
    ensure(small.length === 0, `${name}: too small to touch at ${width}: ${small}`);
  }
  await page.setViewport({ width: 390, height: 900 });
  await page.evaluate(fs.readFileSync(entry("axe-core"), "utf8"));
  const violations = await page.evaluate(async () => (await axe.run(document)).violations
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ").slice(0, 300)}`));
  ensure(violations.length === 0, `${name}: ${violations.join("\n")}`);
}

await page.setViewport({ width: 390, height: 900 });
await page.setBypassCSP(false);
await page.goto(url);
await ready();
await look("idle");

// Consent is nobody's decision before the owner's.
ensure((await page.$$("input[name=consent]:checked")).length === 0, "consent is chosen already");
await page.click("input[name=consent][value=private]");
await page.waitForFunction(async () => (await (await fetch("/api/state")).json()).consent === "private");

// A measurement, its chart, and its end.
await page.type("#address", server);
await page.type("#fingerprint", fingerprint);
await page.click("#start");
await page.waitForFunction(() => document.querySelector("#lines polyline")?.getAttribute("points").includes(" "), { timeout: 90_000 });
ensure(await page.$eval("#stop", (one) => !one.hidden), "it can be stopped");
ensure((await page.$eval("#legend", (one) => one.textContent)).includes("lo"), "the legend names the path");
await look("running");
await page.waitForFunction(() => document.getElementById("progress").value >= 2, { timeout: 90_000 });
await page.click("#stop");
await page.waitForFunction(() => document.getElementById("start").offsetParent !== null, { timeout: 90_000 });
await page.waitForSelector("#results details table tbody tr", { timeout: 30_000 });
await look("finished");

// A mistake is named.
await page.$eval("#address", (one) => { one.value = "no server"; });
await page.click("#start");
await page.waitForFunction(() => document.getElementById("last").textContent.includes("names no server"), { timeout: 30_000 });

// The report cannot reach the agent.
const report = await page.$eval("#results a", (one) => one.href);
const answer = await page.evaluate(async (href) => {
  const answer = await fetch(href);
  return [answer.status, answer.headers.get("content-security-policy")];
}, report);
ensure(answer[0] === 200 && answer[1].startsWith("sandbox"), `report: ${answer}`);

// Another page in the same browser cannot start anything.
const status = await page.evaluate(async () => (await fetch("/api/stop", { method: "POST", body: "{}" })).status);
ensure(status === 403, `a request without the token is answered with ${status}`);

await browser.close();
// The browser logs the refused request, which is its purpose here.
const left = failures.filter((one) => !one.includes("403"));
if (left.length > 0) {
  console.log(left.join("\n"));
  process.exitCode = 1;
}
