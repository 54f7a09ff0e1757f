// A page in headless Chromium, with everything that it logs or asks for.

import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import fs from "node:fs";

export const tools = process.env.PATHBENCH_TEST_TOOLS;
const modules = path.join(tools, "node_modules");
const puppeteer = (await import(pathToFileURL(entry("puppeteer-core")).href)).default;

function entry(name) {
  return createRequire(path.join(modules, "x.js")).resolve(name);
}

export const axeSource = fs.readFileSync(entry("axe-core"), "utf8");

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  protocolTimeout: 120_000,
});
const failures = [];

export function ensure(condition, text) {
  if (!condition) failures.push(text);
}

export async function open(file, { width = 1400, scheme = "light", scripts = true } = {}) {
  const page = await browser.newPage();
  const url = pathToFileURL(file).href;
  page.on("console", (message) => ensure(!["error", "warn"].includes(message.type()), `console: ${message.text().slice(0, 300)}`));
  page.on("pageerror", (error) => ensure(false, `exception: ${error.stack ?? error}`));
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const own = request.url() === url || request.url().startsWith("data:") || request.url().startsWith("blob:");
    ensure(own, `request: ${request.url().slice(0, 200)}`);
    if (own) request.continue();
    else request.abort();
  });
  await page.setJavaScriptEnabled(scripts);
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url, { waitUntil: "load", timeout: 120_000 });
  return page;
}

// Waits until the first panels are drawn with all samples.
export async function drawn(page) {
  await page.waitForSelector(".explorer-panel canvas", { timeout: 60_000 });
  await settled(page);
}

export async function settled(page) {
  await page.evaluate(async () => {
    for (let i = 0; i < 5; i++) await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
  });
}

export async function finish() {
  await browser.close();
  for (const failure of new Set(failures)) console.error(failure);
  process.exit(failures.length ? 1 : 0);
}
