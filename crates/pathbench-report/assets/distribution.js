// Distribution of a figure over runs: box plots and an ECDF, one per group, from the figures of `run.json`.

const MOST_GROUPS = 40;
const MOST_STEPS = 8;
const MOST_LETTERS = 54;
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];

class Distribution {
  constructor(explorer) {
    this.explorer = explorer;
    const { groups } = explorer.index;
    const known = new Map();
    for (const { pattern, figures } of groups) {
      for (const [name, { title }] of Object.entries(figures)) known.set(`${pattern}\n${name}`, { pattern, name, title });
    }
    this.figures = [...known.values()];
    const several = new Set(this.figures.map((one) => one.pattern)).size > 1;
    const options = this.figures.map(({ pattern, title }, i) => element("option", { value: i }, several ? `${pattern}: ${title}` : title));
    this.choice = element("select", { onchange: () => this.draw() }, ...options);
    this.place = element("div", { class: "explorer-pair" });
    this.root = element(
      "div",
      { class: "explorer-distribution" },
      element("h3", {}, "Distribution over runs"),
      element("label", {}, "Figure ", this.choice),
      this.place,
    );
  }

  // Whether there is a group with more than one run to show.
  get has_spread() {
    const counts = new Map();
    for (const { group, valid } of this.explorer.index.runs) if (valid) counts.set(group, (counts.get(group) ?? 0) + 1);
    return this.figures.length > 0 && [...counts.values()].some((count) => count > 1);
  }

  draw() {
    const { pattern, name } = this.figures[this.choice.value];
    const { groups, runs } = this.explorer.index;
    const members = groups
      .map((group, i) => ({ group, figure: group.figures[name], values: runs.filter((run) => run.group === i && run.valid && run.figures[name] != null) }))
      .filter(({ group, figure, values }) => group.pattern === pattern && figure && values.length);
    const shown = members.slice(0, MOST_GROUPS).map(({ group, figure, values }, i) => ({
      name: group.name.length > MOST_LETTERS ? `${group.name.slice(0, MOST_LETTERS)}…` : group.name,
      figure,
      colour: `explorer-of-${group.transport}`,
      // Groups of one transport differ by their dashes.
      dash: DASHES[members.slice(0, i).filter((one) => one.group.transport === group.transport).length % DASHES.length],
      values: values.map((run) => ({ value: run.figures[name], run })).sort((a, b) => a.value - b.value),
    }));
    this.unit = shown[0]?.figure.unit ?? "";
    const all = shown.flatMap(({ values }) => values.map(({ value }) => value));
    // From zero, unless the values are all far from it.
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const room = (high - low) * 0.15 || high * 0.1 || 1;
    [this.low, this.high] = [low > high / 2 && low > room ? low - room : Math.min(low, 0), high + room];
    const more = members.length - shown.length;
    this.place.replaceChildren(this.boxes(shown), this.steps(shown));
    if (more > 0) this.place.append(element("p", { class: "muted" }, `${more} more groups are not shown; the tables have them.`));
  }

  picture(title, width, height, label) {
    const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    return [element("figure", { class: "explorer-figure" }, element("figcaption", {}, title), svg), svg];
  }

  ticks(svg, x, top, bottom) {
    const range = this.high - this.low;
    const step = 10 ** Math.floor(Math.log10(range / 3));
    const width = [1, 2, 5, 10].map((one) => one * step).find((one) => range / one <= 4) ?? range;
    for (let i = Math.ceil(this.low / width); i * width <= this.high; i++) {
      const value = i * width;
      svg.append(
        drawing("line", { class: "explorer-grid", x1: x(value), x2: x(value), y1: top, y2: bottom }),
        drawing("text", { x: x(value), y: bottom + 14, "text-anchor": "middle" }, quantity(value, this.unit)),
      );
    }
  }

  // Box: quartiles; line: median; whiskers: range; a dot for each run.
  boxes(shown) {
    const [row, width] = [40, 440];
    const height = shown.length * row + 26;
    const label = shown.map(({ name, figure, values }) => `${name}: median ${quantity(figure.quartiles[1], this.unit)} of ${values.length}`);
    const [figure, svg] = this.picture("Box: quartiles, line: median, whiskers: range, dots: runs", width, height, label.join("; "));
    const x = (value) => 34 + ((value - this.low) / (this.high - this.low)) * (width - 68);
    this.ticks(svg, x, 0, height - 20);
    shown.forEach(({ name, figure: { quartiles }, values, colour }, i) => {
      const y = i * row + 27;
      const [low, high] = [values[0].value, values.at(-1).value];
      svg.append(
        drawing("text", { x: 34, y: y - 13, class: "explorer-name" }, name),
        drawing("line", { class: "explorer-ink", x1: x(low), x2: x(high), y1: y, y2: y }),
        drawing("rect", { class: `explorer-box ${colour}`, x: x(quartiles[0]), y: y - 8, width: Math.max(x(quartiles[2]) - x(quartiles[0]), 1), height: 16 }),
        drawing("line", { class: "explorer-ink strong", x1: x(quartiles[1]), x2: x(quartiles[1]), y1: y - 8, y2: y + 8 }),
      );
      for (const { value, run } of values) {
        const text = `${run.id}: ${quantity(value, this.unit)}`;
        svg.append(drawing("circle", { class: "explorer-dot", cx: x(value), cy: y, r: 2.6 }, drawing("title", {}, text)));
      }
    });
    return figure;
  }

  steps(all) {
    const shown = all.slice(0, MOST_STEPS);
    const [width, plot, row] = [440, 190, 18];
    const height = plot + 34 + shown.length * row;
    const [figure, svg] = this.picture(`ECDF: part of the runs up to the value${all.length > MOST_STEPS ? `, first ${MOST_STEPS} of ${all.length} groups` : ""}`, width, height, "The same values as steps; the box plots list them.");
    const x = (value) => 44 + ((value - this.low) / (this.high - this.low)) * (width - 78);
    const y = (part) => plot - part * (plot - 10);
    this.ticks(svg, x, 10, plot);
    for (const part of [0, 0.5, 1]) {
      svg.append(
        drawing("line", { class: "explorer-grid", x1: 44, x2: width - 34, y1: y(part), y2: y(part) }),
        drawing("text", { x: 38, y: y(part) + 4, "text-anchor": "end" }, `${part * 100} %`),
      );
    }
    shown.forEach(({ name, values, colour, dash }, i) => {
      const path = values.map(({ value }, j) => `H${x(value)}V${y((j + 1) / values.length)}`).join("");
      const look = { class: `explorer-step ${colour}`, "stroke-dasharray": dash };
      const at = plot + 34 + i * row;
      svg.append(
        drawing("path", { ...look, d: `M44 ${y(0)}${path}H${width - 34}` }, drawing("title", {}, name)),
        drawing("path", { ...look, d: `M36 ${at}h30` }),
        drawing("text", { x: 74, y: at + 4 }, name),
      );
    });
    return figure;
  }
}
