// Several results in one page: each section is drawn when it comes into view, and not before. Arguments: FILE.

import { drawn, ensure, finish, open, settled } from "./session.mjs";

const page = await open(process.argv[2]);
const sections = await page.$$(".explorer");
ensure(sections.length > 1, `${sections.length} sections`);
const panels = (section) => section.$$eval(".explorer-panel", (found) => found.length);
ensure((await panels(sections.at(-1))) === 0, "a section far below is not drawn yet");
for (const section of sections) {
  await section.evaluate((one) => one.scrollIntoView());
  await page.waitForFunction((one) => one.querySelector(".explorer-panel canvas"), { timeout: 60_000 }, section);
  await settled(page);
  // Every panel, and every run that the first row can show.
  await section.$$eval("[aria-label=Panels] button[aria-pressed=false]", (buttons) => buttons.forEach((one) => one.click()));
  await settled(page);
  for (const facet of ["pattern", "variant", "label", "repetition"]) {
    const select = () => section.$(`.explorer-row select[data-facet=${facet}]`);
    const values = (await select())?.$$eval("option", (options) => options.map((one) => one.value).slice(0, 6)) ?? [];
    for (const value of await values) {
      await (await select())?.select(value);
      await settled(page);
      const missing = await section.evaluate((one) => {
        const drawn = [...one.querySelectorAll("[data-paths]")].flatMap((panel) => panel.dataset.paths.split(" ").filter(Boolean));
        return drawn.filter((path) => !one.querySelector(`button[data-path="${path}"]`));
      });
      ensure(missing.length === 0, `paths without a button: ${missing}`);
    }
  }
}
await drawn(page);
const markup = await page.evaluate(() => document.querySelectorAll(".explorer script:not([type]), .explorer img").length);
ensure(markup === 0, "names are text");
await finish();
