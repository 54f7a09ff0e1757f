// The explorer of one result: rows of panels, one row a run, on one time axis with one cursor.

const MOST_FIRST_ROWS = 6;
const MOST_TABLE_ROWS = 400;
const SAID_AFTER_MS = 250;
const MARKS = "▼ ▲ event · ○ path opened · ✕ path closed · grey: no byte for 100 ms or more · ⌃ window beyond the axis, with its value";
const SPREAD = "thin dots: lowest and highest of the valid repetitions; with goodput, black line: their median";
const DELAYS = "Delay: ■ request of the client, ▲ request of the server; large ▲: never acknowledged, at least so long.";
const MEANING =
  "Goodput: bytes delivered to the receiving application, by the path on which they arrived. Data behind a gap is delivered at once when the gap is filled, so that a window can exceed the rate of the links, at which the axis ends (where that rate is unknown, at 99 % of the windows).";
const FACETS = ["pattern", "variant", "label"];

class Row {
  constructor(explorer, position) {
    this.explorer = explorer;
    this.heading = element("h3", { class: "explorer-run-name" });
    this.facts = element("p", { class: "muted explorer-facts" });
    this.choices = element("div", { class: "explorer-choices" });
    this.place = element("div");
    this.table = element("details", { class: "explorer-table", ontoggle: () => this.tabulate() }, element("summary", {}, "Values and events as tables"));
    this.root = element("div", { class: "explorer-row" }, this.heading, this.choices, this.facts, this.place, this.table);
    this.panels = [];
    this.take(position);
  }

  // Shows the run at this position of the index.
  take(position) {
    const { index } = this.explorer;
    this.position = position;
    this.run = index.runs[position];
    this.group = index.groups[this.run.group];
    this.coarse = coarseWindows(this.run);
    [this.samples, this.fine, this.repeated] = [null, null, []];
    [this.known_bands, this.curves] = [new Map(), new Map()];
    this.describe();
    const then = (use) => (found) => {
      if (this.position !== position) return;
      use(found);
      this.explorer.refresh();
    };
    const samples = readSamples(this.explorer.section, position).then(
      then((tables) => {
        this.samples = tables;
        this.fine = fineWindows(tables);
        this.panels.forEach((panel) => (panel.lines = null));
        this.explorer.listPaths();
      }),
    );
    // The run itself is drawn first.
    samples.then(() => this.explorer.repeated(this.run.group)).then(
      then((read) => {
        this.repeated = read;
        this.curves.clear();
      }),
    );
  }

  // The spread of a panel of lines or points; empty until the other runs are read.
  bands({ id, shape }) {
    if (!this.known_bands.has(id) && this.repeated.length) {
      const items = this.repeated.map((tables) =>
        shape === "points" ? delays(tables).map((one) => ({ ...one, name: one.direction })) : lines(this.explorer.index, tables, id),
      );
      this.known_bands.set(id, bandsOf(items, this.coarse.width / 1000, shape === "lines"));
    }
    return this.known_bands.get(id) ?? new Map();
  }

  // The spread of the goodput of the shown paths, in the windows of a range.
  spreadOf({ edges, width }, { min, max }) {
    const { index, hidden } = this.explorer;
    const is_fine = width < this.coarse.width && this.repeated.length > 0;
    const key = `${is_fine} ${[...hidden]}`;
    if (!this.curves.has(key)) {
      const all = is_fine ? this.repeated.map(fineWindows) : repetitions(index, this.run.group).map((one) => coarseWindows(index.runs[one]));
      this.curves.set(key, all.filter((one) => one?.layers.length).map((one) => curve(one, hidden)));
    }
    const curves = this.curves.get(key);
    const shown = edges.slice(Math.max(0, lastUpTo(edges, min)), lastUpTo(edges, max) + 2);
    return curves.length > 1 && shown.length > 1 ? spreadOfGoodput(curves, shown) : null;
  }

  describe() {
    const { run, group } = this;
    this.heading.textContent = `${group.name}, repetition ${run.repetition}`;
    const figures = Object.entries(run.texts).map(([name, text]) => `${group.figures[name]?.title ?? name} ${text}`);
    const state = run.valid ? [] : [`not valid: ${run.because}`];
    if (!run.completed) state.push(`did not complete${run.error ? `: ${run.error}` : ""}`);
    this.facts.textContent = [run.id, ...figures, ...state].join(" · ");
    this.choices.replaceChildren(...this.selects());
  }

  selects() {
    const { index } = this.explorer;
    const of = (run) => ({ ...index.groups[run.group], repetition: String(run.repetition) });
    const all = index.runs.map(of);
    const own = of(this.run);
    const choose = (facet, value) => {
      // The run that differs in this facet, and in as few others as possible.
      const alike = (one) => [...FACETS, "repetition"].filter((name) => one[name] === own[name]).length;
      const found = all.map((one, i) => [one[facet] === value ? alike(one) : -1, i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
      this.explorer.choose(this, found[0][1], facet);
    };
    const titles = { pattern: "Pattern", variant: "Variant", label: "Transport", repetition: "Repetition" };
    const made = [...FACETS, "repetition"].map((facet) => {
      const rivals = facet === "repetition" ? all.filter((one) => FACETS.every((name) => one[name] === own[name])) : all;
      const values = [...new Set(rivals.map((one) => one[facet]))];
      if (facet === "repetition") values.sort((a, b) => a - b);
      if (values.length < 2) return null;
      const options = values.map((value) => element("option", { value, selected: value === own[facet] }, value || "(none)"));
      return element("label", {}, `${titles[facet]} `, element("select", { "data-facet": facet, onchange: (event) => choose(facet, event.target.value) }, ...options));
    });
    const remove = this.explorer.rows.length > 1 && button("Remove", { "aria-label": `Remove ${this.heading.textContent}`, onclick: () => this.explorer.remove(this) });
    return [...made, remove || null].filter(Boolean);
  }

  // Makes the panels of these kinds; keeps those that there are.
  arrange(kinds) {
    const known = new Map(this.panels.map((panel) => [panel.kind.id, panel]));
    for (const panel of this.panels) if (!kinds.includes(panel.kind)) panel.plot?.destroy();
    this.panels = kinds.map((kind) => known.get(kind.id) ?? new Panel(this.explorer, this, kind));
    this.place.replaceChildren(...this.panels.map((panel) => panel.root));
    this.panels.filter((panel) => !panel.plot).forEach((panel) => panel.build());
  }

  tabulate() {
    while (this.table.children.length > 1) this.table.lastChild.remove();
    if (!this.table.open) return;
    const { index, range } = this.explorer;
    const { edges, layers } = windowsFor(this.coarse, this.fine, range);
    const first = Math.max(0, lastUpTo(edges, range.min));
    const last = Math.min(edges.length - 2, lastUpTo(edges, range.max), first + MOST_TABLE_ROWS);
    const cells = (name, texts) => element("tr", {}, ...texts.map((text, i) => element(i ? name : "th", { scope: name === "th" ? "col" : i ? null : "row" }, text)));
    const rows = [];
    for (let i = first; i <= last; i++) rows.push(cells("td", [clockTime(edges[i]), ...layers.map((one) => digits(one.values[i]))]));
    const events = this.run.events.map(([at, , , text]) => cells("td", [clockTime(at / 1000), text]));
    const table = (caption, head, body) =>
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, element("table", {}, element("caption", {}, caption), element("thead", {}, cells("th", head)), element("tbody", {}, ...body)));
    const inside = element("div", { class: "inside" }, table("Goodput, Mbit/s", ["from", ...layers.map((one) => pathName(index, one.path))], rows));
    if (events.length) inside.append(table("Events", ["time", "event"], events));
    if (this.run.more_events) inside.append(element("p", { class: "muted" }, `${this.run.more_events} more events are in events.jsonl.`));
    this.table.append(inside);
  }
}

let explorers = 0;

class Explorer {
  constructor(section) {
    this.section = section;
    this.index = readIndex(section);
    this.hidden = new Set();
    this.with_spread = true;
    this.repetitions = new Map();
    this.rows = [];
    this.key_of_cursors = `explorer-${explorers++}`;
    const meaning = element("p", { class: "muted explorer-help" }, this.index.groups.some((group) => group.messages) ? `${MEANING} ${DELAYS}` : MEANING);
    this.live = element("div", { class: "explorer-live", "aria-live": "polite", role: "status" });
    this.legend = element("div", { class: "explorer-bar", role: "group", "aria-label": "Paths" });
    this.choice = element("div", { class: "explorer-bar", role: "group", "aria-label": "Panels" });
    this.list = element("div");
    section.append(this.toolbar(), this.choice, this.legend, meaning, this.list, this.live);
    const first = this.firstRuns();
    this.kinds = this.available().filter(({ id }) => id === this.main(first[0]) || id === "rtt" || (first.length === 1 && ["cwnd", "mss"].includes(id)));
    this.rows = first.map((position) => new Row(this, position));
    this.rows.forEach((row) => row.describe());
    this.list.append(...this.rows.map((row) => row.root));
    this.arrange();
    this.reset();
    const distribution = new Distribution(this);
    if (distribution.has_spread) {
      section.append(distribution.root);
      distribution.draw();
    }
  }

  // The representative runs of the pattern that ran longest, in its first variant.
  firstRuns() {
    const { groups, runs } = this.index;
    const first = groups[runs.reduce((longest, run) => (run.representative && run.end_ms > 2 * longest.end_ms ? run : longest), runs[0]).group];
    const same = ({ pattern, variant }) => pattern === first.pattern && variant === groups.find((one) => one.pattern === pattern).variant;
    const found = runs.map((run, i) => (run.representative && same(groups[run.group]) ? i : -1)).filter((i) => i >= 0);
    return (found.length ? found : [0]).slice(0, MOST_FIRST_ROWS);
  }

  // The samples of the valid runs of a group, read once.
  repeated(group) {
    if (!this.repetitions.has(group)) this.repetitions.set(group, readRepetitions(this.section, this.index, group));
    return this.repetitions.get(group);
  }

  main(position) {
    const { index } = this;
    return index.groups[index.runs[position].group].messages ? "delay" : "goodput";
  }

  available() {
    const messages = this.index.groups.some((group) => group.messages);
    return KINDS.filter(({ id }) => (id !== "delay" || messages) && (id !== "queue" || this.index.has_queues));
  }

  toolbar() {
    const act = (label, name, action) => button(label, { "aria-label": name, title: name, onclick: action });
    this.spread_button = button("Spread over repetitions", {
      "aria-pressed": "true",
      onclick: () => {
        this.with_spread = !this.with_spread;
        this.spread_button.setAttribute("aria-pressed", String(this.with_spread));
        this.refresh();
      },
    });
    const counts = this.index.runs.map((run) => run.group);
    const repeated = new Set(counts).size < counts.length;
    return element(
      "div",
      { class: "explorer-bar", role: "toolbar", "aria-label": "Time axis and runs" },
      act("+", "Zoom in", () => this.scale(0.5)),
      act(MINUS, "Zoom out", () => this.scale(2)),
      act("◀", "Earlier", () => this.pan(-0.25)),
      act("▶", "Later", () => this.pan(0.25)),
      act("Whole run", "Show the whole run", () => this.reset()),
      this.index.runs.length > 1 ? act("Add a run", "Add a run below for comparison", () => this.add()) : null,
      repeated ? this.spread_button : null,
      element("span", { class: "muted explorer-help" }, "Drag to zoom. In a panel: ← → cursor, + − zoom, shift + ← → pan, 0 whole run."),
    );
  }

  arrange() {
    for (const row of this.rows) row.arrange(this.kinds);
    this.choice.replaceChildren(...this.available().map((kind) => this.kindButton(kind)));
    this.listPaths();
  }

  // The paths that delivered bytes or were sampled, each with a button; what is listed already stays.
  listPaths() {
    const found = this.rows.flatMap((row) => [...row.coarse.layers, ...(row.samples ?? [])].map((one) => one.path));
    const paths = [...new Set(found.filter((one) => one != null))].sort((a, b) => a - b);
    const marks = this.rows.some((row) => row.run.events.length || row.panels.some((panel) => panel.over?.length)) && MARKS;
    const repeated = this.rows.some((row) => repetitions(this.index, row.run.group).length) && SPREAD;
    const key = [paths, marks, repeated].join();
    if (key === this.listed) return;
    this.listed = key;
    const words = [marks, repeated].filter(Boolean).map((one) => element("span", { class: "muted explorer-help" }, one));
    this.legend.replaceChildren(...paths.map((path) => this.pathButton(path)), ...words);
  }

  kindButton(kind) {
    return button(kind.button, {
      "aria-pressed": String(this.kinds.includes(kind)),
      title: kind.title,
      onclick: (event) => {
        const shown = this.kinds.includes(kind) ? this.kinds.filter((one) => one !== kind) : [...this.kinds, kind];
        this.kinds = KINDS.filter((one) => shown.includes(one));
        event.target.setAttribute("aria-pressed", String(this.kinds.includes(kind)));
        for (const row of this.rows) row.arrange(this.kinds);
        this.refresh();
      },
    });
  }

  pathButton(path) {
    const swatch = element("span", { class: `explorer-swatch ${path < 0 ? "unknown" : `path-${path % PATH_COLOURS}`}` });
    return element(
      "button",
      {
        type: "button",
        "aria-pressed": String(!this.hidden.has(path)),
        "data-path": path,
        onclick: (event) => {
          if (!this.hidden.delete(path)) this.hidden.add(path);
          event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(path)));
          this.refresh();
        },
      },
      swatch,
      pathName(this.index, path),
    );
  }

  get end() {
    return Math.max(...this.rows.map((row) => Math.max(row.run.end_ms, ...row.run.silences.map((one) => one[1])) / 1000), 0.01);
  }

  reset() {
    this.zoom(0, this.end);
  }

  scale(factor) {
    const { min, max } = this.range;
    const middle = this.time != null && this.time > min && this.time < max ? this.time : (min + max) / 2;
    this.zoom(middle - (middle - min) * factor, middle + (max - middle) * factor);
  }

  pan(part) {
    const shift = (this.range.max - this.range.min) * part;
    const room = Math.max(-this.range.min, Math.min(this.end - this.range.max, shift));
    this.zoom(this.range.min + room, this.range.max + room);
  }

  zoom(min, max) {
    const end = this.end;
    const width = Math.max(max - min, Math.min(0.02, end));
    const from = Math.max(0, Math.min(min, end - width));
    this.range = { min: from, max: Math.min(from + width, end) };
    this.refresh();
  }

  // Draws every panel for the range. Panels of one kind share their vertical axis.
  refresh() {
    const kinds = new Map();
    for (const panel of this.rows.flatMap((row) => row.panels)) {
      panel.fill(this.range);
      const { low, high } = panel.bounds(this.range);
      const known = kinds.get(panel.kind.id) ?? { low: Infinity, high: 0 };
      kinds.set(panel.kind.id, { low: Math.min(low, known.low), high: Math.max(high, known.high) });
    }
    for (const row of this.rows) {
      for (const panel of row.panels) {
        panel.show(this.range, kinds.get(panel.kind.id));
        panel.moved();
      }
      if (row.table.open) row.tabulate();
    }
  }

  // Changes the rows; a range that was zoomed to stays.
  change(rows) {
    const whole = this.range.min === 0 && this.range.max === this.end;
    rows();
    this.rows.forEach((row) => row.describe());
    this.arrange();
    if (whole) this.reset();
    else this.zoom(this.range.min, this.range.max);
  }

  choose(row, position, facet) {
    this.change(() => {
      row.take(position);
      row.panels.forEach((panel) => (panel.lines = null));
    });
    row.choices.querySelector(`[data-facet="${facet}"]`)?.focus();
    this.say(`${row.heading.textContent}: ${row.facts.textContent}`);
  }

  add() {
    const shown = new Set(this.rows.map((row) => row.position));
    const next = this.index.runs.findIndex((_, i) => !shown.has(i));
    const row = new Row(this, next < 0 ? 0 : next);
    this.change(() => {
      this.rows.push(row);
      this.list.append(row.root);
    });
    row.choices.querySelector("select")?.focus();
  }

  remove(row) {
    this.change(() => {
      row.panels.forEach((panel) => panel.plot?.destroy());
      this.rows = this.rows.filter((one) => one !== row);
      row.root.remove();
    });
    this.rows[0].panels[0]?.root.focus();
  }

  key(event, panel) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const { min, max } = this.range;
    const step = (max - min) / 100;
    const at = panel.time ?? min;
    const cursor = (t) => panel.putCursor(Math.max(min, Math.min(max, t)));
    const actions = {
      ArrowLeft: () => (event.shiftKey ? this.pan(-0.25) : cursor(at - step)),
      ArrowRight: () => (event.shiftKey ? this.pan(0.25) : cursor(at + step)),
      Home: () => cursor(min),
      End: () => cursor(max),
      "+": () => this.scale(0.5),
      "=": () => this.scale(0.5),
      "-": () => this.scale(2),
      0: () => this.reset(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
    this.time = panel.time;
    const events = panel.time == null ? [] : panel.eventsNear(panel.plot.cursor.left).map(([, , , text]) => text);
    this.say([panel.readout.textContent, ...events].join(". "));
  }

  // Screen readers hear the last of several quick messages.
  say(text) {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (this.live.textContent = text), SAID_AFTER_MS);
  }
}

// The static figures that the panels replace: goodput and delay over time. The other ones show what no panel does.
function markReplaced() {
  const several = document.querySelectorAll("article[id^='result-']").length > 0;
  // With several results, names begin with those of the results, which can contain these words themselves.
  const name = several ? /-(timeline|delay)(-(upload|download))?-title$/ : /^figure-(timeline|delay)-/;
  for (const svg of document.querySelectorAll(".static svg[aria-labelledby]")) {
    if (!svg.closest("article")?.querySelector(".explorer")) continue;
    if (name.test(svg.getAttribute("aria-labelledby").split(" ")[0])) svg.closest("figure")?.classList.add("replaced");
  }
}

function start() {
  const sections = [...document.querySelectorAll(".explorer")];
  if (!sections.length || !window.DecompressionStream) return;
  readColours();
  const made = new Map();
  const build = (section) => {
    if (made.has(section)) return;
    try {
      made.set(section, new Explorer(section));
    } catch (error) {
      // The static figures take its place.
      document.documentElement.classList.remove("explored");
      throw error;
    }
    performance.mark("explorer-figure");
  };
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        build(target);
      }
    },
    { rootMargin: "600px" },
  );
  // On the screen; print has the static figures.
  markReplaced();
  document.documentElement.classList.add("explored");
  sections.forEach((section) => observer.observe(section));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    for (const explorer of made.values()) explorer.refresh();
  });
}

start();
