// Drives the explorer of a report: cursor, zoom, runs, legend, keyboard. Arguments: FILE [DIRECTORY for screenshots].

import { axeSource, drawn, ensure, finish, open, settled } from "./session.mjs";
import path from "node:path";

const [file, pictures] = process.argv.slice(2);

const texts = (page, selector) => page.$$eval(selector, (found) => found.map((one) => one.textContent));
const times = async (page) => (await texts(page, ".explorer-readout")).map((text) => text.split(":")[0]);

// The range of the time axis of each panel, as its labels show it.
const ranges = (page) => page.$$eval(".explorer-panel", (panels) => panels.map((panel) => panel.dataset.range));
const tops = (page) => page.$$eval('.explorer-panel[data-kind="goodput"]', (panels) => panels.map((panel) => Number(panel.dataset.top)));
const press = async (page, label) => {
  await page.$$eval(
    ".explorer button",
    (buttons, label) => buttons.find((one) => one.textContent === label || one.getAttribute("aria-label") === label).click(),
    label,
  );
  await settled(page);
};
const same = (values) => values.length > 1 && values.every((one) => one && one === values[0]);

async function box(page, at = 0) {
  const over = (await page.$$(".explorer-panel .u-over"))[at];
  await over.evaluate((one) => one.scrollIntoView({ block: "center" }));
  await settled(page);
  return over.boundingBox();
}

async function cursor(page) {
  const { x, y, width } = await box(page);
  const places = () => page.$$eval(".explorer-plot", (plots) => plots.map((one) => one.offsetTop).join());
  const before = await places();
  await page.mouse.move(x + width * 0.4, y + 40);
  await settled(page);
  ensure((await places()) === before, "values at the cursor do not move the plots");
  const shown = await times(page);
  ensure(same(shown), `the cursor is at one time in all panels: ${JSON.stringify(shown)}`);
  ensure((await texts(page, ".explorer-readout")).some((text) => /bit\/s/.test(text)), "the values are shown");
  await page.mouse.move(2, 2);
}

async function zoom(page) {
  const before = await ranges(page);
  ensure(same(before), `one range: ${JSON.stringify(before)}`);
  const { x, y, width } = await box(page);
  await page.mouse.move(x + width * 0.25, y + 60);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.4, y + 60, { steps: 4 });
  await page.mouse.move(x + width * 0.5, y + 60, { steps: 4 });
  await page.mouse.up();
  await settled(page);
  const dragged = await ranges(page);
  ensure(same(dragged) && dragged[0] !== before[0], `a drag zooms all panels: ${JSON.stringify([before, dragged])}`);
  await press(page, "Zoom in");
  const nearer = await ranges(page);
  ensure(same(nearer) && nearer[0] !== dragged[0], `the button zooms: ${JSON.stringify(nearer)}`);
  await press(page, "Later");
  const later = await ranges(page);
  ensure(same(later) && later[0] !== nearer[0], `the button pans: ${JSON.stringify(later)}`);
  await press(page, "Whole run");
  ensure((await ranges(page))[0] === before[0], "the whole run comes back");
}

// Colours of the first goodput panel, a few CSS pixels above the axis, at places over its whole width: in a single
// place a path may carry too little to be seen.
async function colours(page) {
  return page.$eval('.explorer-panel[data-kind="goodput"]', (panel) => {
    const canvas = panel.querySelector("canvas");
    const over = panel.querySelector(".u-over");
    const ratio = canvas.width / canvas.clientWidth;
    const y = over.offsetTop + over.clientHeight - 6;
    // A copy: Chromium warns about pages that read their canvases often.
    const copy = new OffscreenCanvas(canvas.width, 1).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, -Math.round(y * ratio));
    return Array.from({ length: 60 }, (_, place) => {
      const x = over.offsetLeft + (over.clientWidth * (place + 0.5)) / 60;
      return copy.getImageData(Math.round(x * ratio), 0, 1, 1).data.join();
    });
  });
}

const isBlank = (colour) => colour.endsWith(",0");

// Every path is hidden, one after the other, and shown again.
async function legend(page) {
  const before = [await tops(page), await colours(page)];
  ensure(!before[1].every(isBlank), "an area is drawn");
  const buttons = await page.$$(".explorer button[data-path]");
  ensure(buttons.length > 0, "there are paths");
  let last = before[0][0];
  for (const one of buttons) {
    await one.click();
    await settled(page);
    ensure((await one.evaluate((it) => it.ariaPressed)) === "false", "it is not pressed");
    const [top] = await tops(page);
    ensure(top <= last, `a hidden path leaves the stack: ${last} → ${top}`);
    last = top;
  }
  ensure(last === 0, `nothing remains: ${last}`);
  const hidden = await colours(page);
  ensure(before[1].some((colour, place) => !isBlank(colour) && hidden[place] !== colour), "the area is gone");
  for (const one of buttons) await one.click();
  await settled(page);
  ensure((await tops(page))[0] === before[0][0] && (await colours(page)).join() === before[1].join(), "the paths come back");
}

// The lower path is hidden: the upper one moves down to the axis.
async function restacked(page) {
  const first = await page.$eval(".explorer-run-name", (one) => one.textContent);
  if (!first.startsWith("mptcp")) return;
  const before = await colours(page);
  await page.click(".explorer button[data-path='0']");
  await settled(page);
  const after = await colours(page);
  const moved = (colour, place) => !isBlank(colour) && !isBlank(after[place]) && after[place] !== colour;
  ensure(before.some(moved), `another path is at the axis: ${before.join(" ")} → ${after.join(" ")}`);
  await page.click(".explorer button[data-path='0']");
  await settled(page);
}

// Every panel has the spread over repetitions, also while a path is hidden, and names it at the cursor.
async function spread(page) {
  const kinds = await page.$$("[aria-label=Panels] button[aria-pressed=false]");
  for (const kind of kinds) await kind.click();
  const counts = () => page.$$eval(".explorer-panel", (panels) => panels.map((one) => [one.dataset.kind, Number(one.dataset.spread)]));
  await page.waitForFunction(() => [...document.querySelectorAll(".explorer-panel")].every((one) => Number(one.dataset.spread) > 0), { timeout: 20_000 }).catch(() => {});
  const drawn = await counts();
  ensure(new Set(drawn.map(([kind]) => kind)).size >= 7 && drawn.every(([, count]) => count > 0), `every panel has a spread: ${JSON.stringify(drawn)}`);
  const { x, y, width } = await box(page);
  await page.mouse.move(x + width * 0.2, y + 40);
  await settled(page);
  const values = await texts(page, ".explorer-readout");
  ensure(values.every((one) => /(median of|in) \d+ runs/.test(one)), `the spread has values: ${JSON.stringify(values)}`);
  await page.mouse.move(2, 2);
  // Paths of the first row: its goodput keeps a spread as long as one of them is shown.
  const paths = await page.$$(".explorer button[data-path]");
  if (paths.length > 1) {
    await paths.at(-1).click();
    await settled(page);
    ensure((await counts()).filter(([kind]) => kind === "goodput").some(([, count]) => count > 0), "goodput of the other paths has a spread");
    await paths.at(-1).click();
  }
  await press(page, "Spread over repetitions");
  ensure((await counts()).every(([, count]) => count === 0), "the spread can be hidden");
  await press(page, "Spread over repetitions");
  for (const kind of kinds) await kind.click();
  await settled(page);
}

async function runs(page) {
  const select = await page.$(".explorer-row select");
  const before = await page.$eval(".explorer-facts", (one) => one.textContent);
  const values = await select.$$eval("option", (options) => options.filter((one) => !one.selected).map((one) => one.value));
  for (const value of values) {
    await page.select(".explorer-row select", value);
    await settled(page);
    const now = await page.$eval(".explorer-facts", (one) => one.textContent);
    ensure(now !== before, `another run has other figures: ${value}`);
  }
  const count = (await page.$$(".explorer-row")).length;
  await press(page, "Add a run");
  ensure((await page.$$(".explorer-row")).length === count + 1, "a run is added");
  const shown = await ranges(page);
  ensure(same(shown), `and has the same axis: ${JSON.stringify(shown)}`);
  await page.$$eval(".explorer-choices button", (buttons) => buttons.at(-1).click());
  await settled(page);
  ensure((await page.$$(".explorer-row")).length === count, "and removed");
}

async function keyboard(page) {
  await page.focus(".explorer-panel");
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowRight");
  await settled(page);
  const shown = await times(page);
  ensure(same(shown), `keys move the cursor of all panels: ${JSON.stringify(shown)}`);
  await page.waitForFunction(() => /bit\/s/.test(document.querySelector(".explorer-live").textContent), { timeout: 20_000 });
  const before = await ranges(page);
  await page.keyboard.press("+");
  await settled(page);
  ensure((await ranges(page))[0] !== before[0], "+ zooms");
  await page.keyboard.press("0");
  await settled(page);
  ensure((await ranges(page))[0] === before[0], "0 resets");
  await page.focus(".explorer button[data-path='0']");
  await page.keyboard.press("Space");
  await settled(page);
  ensure((await page.$eval(".explorer button[data-path='0']", (one) => one.ariaPressed)) === "false", "the space bar toggles a path");
  await page.keyboard.press("Space");
}

async function tables(page) {
  await page.click(".explorer-table summary");
  await page.waitForSelector(".explorer-table td", { timeout: 20_000 });
  await page.click(".explorer-table summary");
}

// Elements whose text is wider than they are, and the page's width.
async function clipped(page, width) {
  const found = await page.evaluate(() => {
    const shown = (one) => one.clientWidth > 1 && one.checkVisibility();
    const texts = [...document.querySelectorAll("body *")].filter((one) => shown(one) && one.textContent.trim() && !one.closest(".scroll, svg, .u-wrap"));
    const wide = texts.filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline");
    return wide.map((one) => `${one.tagName}.${one.className}: ${one.textContent.slice(0, 60)}`);
  });
  const outside = await page.$$eval(".explorer-figure text", (all) => {
    const sticks = (text) => {
      const [own, svg] = [text, text.ownerSVGElement].map((one) => one.getBoundingClientRect());
      return own.left < svg.left - 1 || own.right > svg.right + 1;
    };
    return all.filter(sticks).map((text) => text.textContent);
  });
  ensure(outside.length === 0, `outside of its picture at ${width}: ${outside.slice(0, 5).join(" | ")}`);
  ensure(found.length === 0, `clipped at ${width}: ${found.slice(0, 5).join(" | ")}`);
  if (width >= 1400) {
    const wide = await page.$$eval(".scroll", (all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 60)));
    ensure(wide.length === 0, `tables scroll at ${width}: ${wide.join(" | ")}`);
  }
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  ensure(sideways <= 0, `the page scrolls sideways by ${sideways} pixels at ${width}`);
}

async function accessible(page, name) {
  await page.evaluate(axeSource);
  const violations = await page.evaluate(async () => {
    const found = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
    return found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
  });
  ensure(violations.length === 0, `axe, ${name}: ${violations.join("\n  ")}`);
}

for (const width of [1400, 390]) {
  for (const scheme of ["light", "dark"]) {
    const page = await open(file, { width, scheme });
    await drawn(page);
    await clipped(page, width);
    await accessible(page, `${scheme}, ${width} pixels`);
    if (pictures) await page.screenshot({ path: path.join(pictures, `${width}-${scheme}.png`), fullPage: true });
    await cursor(page);
    await zoom(page);
    await legend(page);
    await restacked(page);
    await tables(page);
    if (scheme === "light") {
      await spread(page);
      await runs(page);
      await keyboard(page);
    }
    await page.close();
  }
}

// On paper: light, with the static figures and without the panels.
for (const width of [1400, 390]) {
  const page = await open(file, { width, scheme: "dark" });
  await drawn(page);
  await page.emulateMediaType("print");
  await settled(page);
  const shown = (selector) => page.$$eval(selector, (found) => found.filter((one) => one.checkVisibility()).length);
  ensure((await shown(".explorer")) === 0, "panels are not printed");
  const figures = (await page.$$(".static figure")).length;
  ensure(figures > 0 && (await shown(".static figure")) === figures, "all static figures are printed");
  await clipped(page, `${width}, print`);
  await accessible(page, `print, ${width} pixels`);
  if (pictures) await page.screenshot({ path: path.join(pictures, `${width}-print.png`), fullPage: true });
  await page.close();
}

const plain = await open(file, { scripts: false });
const visible = await plain.$$eval(".explorer", (found) => found.filter((one) => one.checkVisibility()).length);
ensure(visible === 0, "without scripts there is no empty explorer");
ensure((await plain.$$eval("figure svg", (found) => found.filter((one) => one.checkVisibility()).length)) > 0, "but there are the static figures");
await finish();
