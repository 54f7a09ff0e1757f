// One panel: axes, cursor and selection are uPlot's; layers, lines, points and events are drawn here.

const AXIS_WIDTH = 74;
const LONGEST_EVENT = 28;
const DOTS = [2, 3];
const UP = "▲";
// Pixels within which the cursor is at an event.
const NEAR = 7;

class Panel {
  constructor(explorer, row, kind) {
    Object.assign(this, { explorer, row, kind, items: [], spread: null, bands: new Map() });
    this.readout = element("span", { class: "explorer-readout" });
    this.title = element("span", { class: "explorer-title" }, kind.title);
    this.tip = element("div", { class: "explorer-tip", hidden: true });
    this.place = element("div", { class: "explorer-plot", "aria-hidden": "true" });
    this.root = element(
      "div",
      { class: "explorer-panel", role: "group", tabindex: "0", "data-kind": kind.id, onkeydown: (event) => this.explorer.key(event, this) },
      element("div", { class: "explorer-head" }, this.title, this.readout),
      this.place,
    );
  }

  // Makes the chart, once its place has a width.
  build() {
    const log = this.kind.id === "delay";
    const { explorer } = this;
    const size = { width: Math.max(this.place.clientWidth, 200), height: this.kind.height };
    const plain = (_, min, max) => [min, max];
    this.plot = new uPlot(
      {
        ...size,
        legend: { show: false },
        // The values of windows beyond the axis are above the plot.
        padding: [this.kind.shape === "areas" ? 20 : 10, 18, 0, 0],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => explorer.reset() },
          sync: { key: explorer.key_of_cursors, scales: ["x", null], filters: { pub: (type) => !["mousedown", "mouseup"].includes(type) } },
        },
        scales: { x: { time: false, auto: false, range: plain }, y: { auto: false, distr: log ? 3 : 1, range: plain } },
        axes: [
          { ...this.axis(), size: 26, space: 60, values: (_, splits) => splits.map((one) => `${Number(one.toFixed(6))} s`) },
          { ...this.axis(log), size: AXIS_WIDTH, space: 30, values: (_, splits) => splits.map((one) => (one == null ? "" : quantity(one, this.kind.unit))) },
        ],
        series: [{}, { paths: () => null, points: { show: false } }],
        hooks: {
          draw: [() => this.draw()],
          setCursor: [() => this.moved()],
          setSelect: [({ select }) => this.selected(select)],
        },
      },
      [[0, 1], [1, 1]],
      this.place,
    );
    this.plot.over.append(this.tip);
    new ResizeObserver(() => {
      const width = this.place.clientWidth;
      if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.kind.height });
    }).observe(this.place);
  }

  // A logarithmic axis has lines at powers of ten only.
  axis(log = false) {
    const filter = (_, splits) => splits.map((one) => (log && !Number.isInteger(Number(Math.log10(one).toFixed(6))) ? null : one));
    const grid = { stroke: () => colours.line, width: 1, filter };
    return { stroke: () => colours.muted, filter, grid, ticks: { ...grid, size: 4 }, font: "12px system-ui, sans-serif" };
  }

  // Takes what is to be drawn from the run's index entry and its decoded samples.
  fill(range) {
    const { index, hidden } = this.explorer;
    const { run, samples } = this.row;
    const shown = (item) => !hidden.has(item.path);
    this.bands = this.explorer.with_spread && this.kind.shape !== "areas" ? this.row.bands(this.kind) : new Map();
    if (this.kind.shape === "areas") {
      this.windows = windowsFor(this.row.coarse, this.row.fine, range);
      this.items = this.windows.layers.filter(shown);
      this.spread = this.explorer.with_spread ? this.row.spreadOf(this.windows, range) : null;
      this.title.textContent = `${this.kind.title}, per ${quantity(this.windows.width, "ms")}`;
    } else if (this.kind.shape === "points") {
      this.items = delays(samples ?? []);
    } else {
      this.lines ??= samples && lines(index, samples, this.kind.id);
      this.items = (this.lines ?? []).filter(shown);
      this.bands = new Map([...this.bands].filter(([, band]) => shown(band)));
      const dotted = this.items.some((one) => one.dashed) ? (this.kind.id === "queue" ? ", dotted: reverse" : ", dotted: server") : "";
      this.title.textContent = `${this.kind.title}${dotted}`;
    }
    const name = `${this.kind.title}, ${index.groups[run.group].name}, repetition ${run.repetition}`;
    this.root.setAttribute("aria-label", `${name}. Arrow keys move the cursor, + and − zoom, 0 shows all.`);
    this.nothing = this.items.length ? "" : this.emptiness();
  }

  emptiness() {
    if (this.kind.shape === "areas") return this.windows.layers.length ? "all paths are hidden" : "no byte was delivered";
    if (this.row.samples == null) return "reading …";
    return this.row.run.full ? "nothing was recorded" : "this page has only windows of goodput of this run";
  }

  // The largest and the smallest positive value in a range.
  bounds({ min, max }) {
    let high = 0;
    let low = Infinity;
    const see = (value) => {
      if (value > high && Number.isFinite(value)) high = value;
      if (value > 0 && value < low) low = value;
    };
    if (this.kind.shape === "areas") {
      const { edges } = this.windows;
      const last = Math.min(edges.length - 2, lastUpTo(edges, max));
      for (let i = Math.max(0, lastUpTo(edges, min)); i <= last; i++) see(this.items.reduce((sum, one) => sum + one.values[i], 0));
      if (this.spread) this.spread.high.forEach(see);
      // One burst does not set the scale.
      high = Math.min(high, this.row.run.goodput.limit_mbps ?? Infinity);
    } else {
      for (const { times, values } of this.items) {
        const last = lastUpTo(times, max);
        for (let i = Math.max(0, lastUpTo(times, min)); i <= last; i++) see(values[i]);
      }
    }
    for (const band of this.bands.values()) {
      const [first, last] = windowsOfBand(band, { min, max });
      for (let i = first; i <= last; i++) {
        see(band.low[i]);
        see(band.high[i]);
      }
    }
    return { low, high };
  }

  show(range, { low, high }) {
    const log = this.kind.id === "delay";
    this.top = high;
    const top = log ? 10 ** Math.ceil(Math.log10(Math.max(high, 1e-2) * 1.05)) : high > 0 ? high * 1.08 : 1;
    const bottom = log ? Math.min(10 ** Math.floor(Math.log10(Math.max(Math.min(low, high || 1), 1e-3))), top / 10) : 0;
    this.plot.batch(() => {
      this.plot.setScale("x", range);
      this.plot.setScale("y", { min: bottom, max: top });
    });
    this.root.dataset.range = `${range.min.toFixed(3)}-${range.max.toFixed(3)}`;
    this.over = this.beyond(range, top);
    this.root.dataset.top = high.toFixed(3);
    this.root.dataset.over = this.over.length;
    this.root.dataset.paths = this.kind.shape === "points" ? "" : this.items.map((one) => one.path).join(" ");
    this.root.dataset.spread = this.spread ? 1 : this.bands.size;
    // Where both scales stay, uPlot does not draw: hidden paths and colours change all the same.
    this.plot.redraw(false, true);
  }

  // Windows above the end of the axis; of neighbours the highest.
  beyond({ min, max }, top) {
    const found = [];
    if (this.kind.shape !== "areas") return found;
    const { edges } = this.windows;
    const last = Math.min(edges.length - 2, lastUpTo(edges, max));
    let before = false;
    for (let i = Math.max(0, lastUpTo(edges, min)); i <= last; i++) {
      const value = this.items.reduce((sum, one) => sum + one.values[i], 0);
      const is_over = value > top;
      if (is_over && before && value > found.at(-1).value) found.pop();
      else if (before && is_over) continue;
      if (is_over) found.push({ at: (edges[i] + edges[i + 1]) / 2, value });
      before = is_over;
    }
    return found;
  }

  draw() {
    const { ctx, bbox } = this.plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    this.ratio = devicePixelRatio || 1;
    if (this.kind.shape === "areas") this.drawAreas(ctx);
    this.bands.forEach((band) => this.drawBand(ctx, band));
    if (this.kind.shape === "lines") this.items.forEach((one) => this.drawLine(ctx, one));
    if (this.kind.shape === "points") this.items.forEach((one) => this.drawPoints(ctx, one));
    this.drawEvents(ctx);
    if (this.nothing) {
      ctx.fillStyle = colours.muted;
      ctx.font = `${13 * this.ratio}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      ctx.fillText(this.nothing, bbox.left + bbox.width / 2, bbox.top + bbox.height / 2);
    }
    ctx.restore();
    this.drawBeyond(ctx);
  }

  x(seconds) {
    return this.plot.valToPos(seconds, "x", true);
  }

  y(value) {
    return this.plot.valToPos(value, "y", true);
  }

  drawAreas(ctx) {
    const { edges } = this.windows;
    const { min, max } = this.plot.scales.x;
    const first = Math.max(0, lastUpTo(edges, min));
    const last = Math.min(edges.length - 2, lastUpTo(edges, max));
    for (const [from, to] of this.row.run.silences) this.drawSilence(ctx, from / 1000, to / 1000);
    const below = new Float64Array(edges.length);
    for (const { path, values } of this.items) {
      const outline = new Path2D();
      for (let i = first; i <= last; i++) {
        const y = this.y(below[i] + values[i]);
        if (i === first) outline.moveTo(this.x(edges[i]), y);
        else outline.lineTo(this.x(edges[i]), y);
        outline.lineTo(this.x(edges[i + 1]), y);
      }
      const area = new Path2D(outline);
      for (let i = last; i >= first; i--) {
        const y = this.y(below[i]);
        area.lineTo(this.x(edges[i + 1]), y);
        area.lineTo(this.x(edges[i]), y);
        below[i] += values[i];
      }
      ctx.fillStyle = pathColour(path);
      ctx.fill(area);
      if (path % 2 === 1) {
        ctx.fillStyle = hatch(ctx, this.ratio);
        ctx.fill(area);
      }
      ctx.strokeStyle = colours.ink;
      ctx.lineWidth = 0.75 * this.ratio;
      ctx.stroke(outline);
    }
    if (this.spread) this.drawSpread(ctx);
  }

  // An arrow at the top of the plot, and the value where no higher one takes the space.
  drawBeyond(ctx) {
    const { left, top, width } = this.plot.bbox;
    const size = 4 * this.ratio;
    const taken = [];
    for (const { at, value } of [...(this.over ?? [])].sort((a, b) => b.value - a.value)) {
      const x = this.x(at);
      ctx.beginPath();
      ctx.moveTo(x - size, top + 2 * size);
      ctx.lineTo(x, top + size / 2);
      ctx.lineTo(x + size, top + 2 * size);
      for (const [colour, line] of [[colours.paper, 4], [colours.ink, 1.75]]) {
        ctx.strokeStyle = colour;
        ctx.lineWidth = line * this.ratio;
        ctx.stroke();
      }
      const text = quantity(value, this.kind.unit);
      ctx.font = `${11 * this.ratio}px system-ui, sans-serif`;
      const wide = ctx.measureText(text).width;
      const from = Math.max(left, Math.min(x - wide / 2, left + width - wide));
      if (taken.some((one) => from < one + wide + 2 * size && one < from + wide + 2 * size)) continue;
      taken.push(from);
      ctx.textAlign = "left";
      ctx.fillStyle = colours.ink;
      ctx.fillText(text, from, top - size);
    }
  }

  drawSilence(ctx, from, to) {
    const { top, height } = this.plot.bbox;
    ctx.fillStyle = colours.line;
    ctx.fillRect(this.x(from), top, this.x(to) - this.x(from), height);
  }

  drawSpread(ctx) {
    const { edges, low, median, high } = this.spread;
    const step = (values) => {
      const path = new Path2D();
      values.forEach((value, i) => {
        path.lineTo(this.x(edges[i]), this.y(value));
        path.lineTo(this.x(edges[i + 1]), this.y(value));
      });
      return path;
    };
    ctx.strokeStyle = colours.ink;
    ctx.lineWidth = 1 * this.ratio;
    ctx.setLineDash(DOTS.map((one) => one * this.ratio));
    ctx.stroke(step(low));
    ctx.stroke(step(high));
    ctx.setLineDash([]);
    ctx.lineWidth = 4 * this.ratio;
    ctx.strokeStyle = colours.paper;
    ctx.stroke(step(median));
    ctx.lineWidth = 2 * this.ratio;
    ctx.strokeStyle = colours.ink;
    ctx.stroke(step(median));
  }

  // Pale between the lowest and the highest value of the runs, with dotted outlines.
  drawBand(ctx, band) {
    const { step, low, high } = band;
    const [first, last] = windowsOfBand(band, this.plot.scales.x);
    const [area, outline] = [new Path2D(), new Path2D()];
    const at = (value) => Math.round(this.y(this.kind.id === "delay" ? Math.max(value, 1e-3) : value));
    let open = null;
    for (let i = first; i <= last + 1; i++) {
      // A band as thin as a line is behind the line.
      const [top, bottom] = i <= last && low[i] <= high[i] ? [at(high[i]), at(low[i])] : [0, 0];
      const is_wide = bottom - top > 2 * this.ratio;
      if (open && open.top === top && open.bottom === bottom) continue;
      const x = this.x(i * step);
      if (open) {
        area.rect(open.x, open.top, x - open.x, open.bottom - open.top);
        for (const side of ["top", "bottom"]) {
          outline.moveTo(open.x, open[side]);
          outline.lineTo(x, open[side]);
        }
      }
      open = is_wide ? { x, top, bottom } : null;
    }
    ctx.globalAlpha = 0.18;
    ctx.fillStyle = ctx.strokeStyle = seriesColour(band);
    ctx.fill(area);
    ctx.globalAlpha = 1;
    ctx.lineWidth = this.ratio;
    ctx.setLineDash(DOTS.map((one) => one * this.ratio));
    ctx.stroke(outline);
    ctx.setLineDash([]);
  }

  // Of many values within a pixel, the lowest and the highest are drawn.
  drawLine(ctx, { path, dashed, times, values }) {
    const { min, max } = this.plot.scales.x;
    const first = Math.max(0, lastUpTo(times, min));
    const last = Math.min(times.length - 1, lastUpTo(times, max) + 1);
    const line = new Path2D();
    let open = false;
    let column = null;
    const flush = () => {
      if (!column) return;
      const { x, first, low, high, last } = column;
      for (const y of first === last ? [first] : [first, low, high, last]) {
        if (open) line.lineTo(x, y);
        else line.moveTo(x, y);
        open = true;
      }
      column = null;
    };
    for (let i = first; i <= last; i++) {
      if (!Number.isFinite(values[i])) {
        flush();
        open = false;
        continue;
      }
      const [x, y] = [Math.round(this.x(times[i]) * 2) / 2, this.y(values[i])];
      if (column && column.x === x) {
        column = { x, first: column.first, low: Math.min(column.low, y), high: Math.max(column.high, y), last: y };
      } else {
        flush();
        column = { x, first: y, low: y, high: y, last: y };
      }
    }
    flush();
    ctx.strokeStyle = pathColour(path);
    ctx.lineWidth = 2 * this.ratio;
    ctx.lineJoin = "round";
    ctx.setLineDash(dashed ? [2, 3].map((one) => one * this.ratio) : path % 2 === 1 ? [8, 3].map((one) => one * this.ratio) : []);
    ctx.stroke(line);
    ctx.setLineDash([]);
  }

  drawPoints(ctx, { direction, unacknowledged, times, values }) {
    const { min, max } = this.plot.scales.x;
    const last = lastUpTo(times, max);
    const size = (unacknowledged ? 4 : 2) * this.ratio;
    ctx.fillStyle = unacknowledged ? colours.bad : seriesColour({ direction });
    ctx.beginPath();
    for (let i = Math.max(0, lastUpTo(times, min)); i <= last; i++) {
      const [x, y] = [this.x(times[i]), this.y(Math.max(values[i], 1e-3))];
      if (unacknowledged || direction === "download") {
        ctx.moveTo(x - size, y + size);
        ctx.lineTo(x, y - size);
        ctx.lineTo(x + size, y + size);
        ctx.closePath();
      } else ctx.rect(x - size, y - size, 2 * size, 2 * size);
    }
    ctx.fill();
  }

  drawEvents(ctx) {
    const { left, top, height } = this.plot.bbox;
    const half = 6 * this.ratio;
    for (const [at, kind, path, text] of this.row.run.events) {
      const x = this.x(at / 1000);
      ctx.strokeStyle = kind === "event" ? colours.ink : pathColour(path);
      ctx.lineWidth = 1.25 * this.ratio;
      ctx.setLineDash([4 * this.ratio, 3 * this.ratio]);
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
      ctx.setLineDash([]);
      // A mark at the left edge is whole.
      this.drawMark(ctx, x >= left ? Math.max(x, left + half) : x, top + half, kind, text.startsWith(UP) ? -1 : 1);
    }
    if (this !== this.row.panels[0]) return;
    let free = 0;
    for (const [at, kind, , text] of this.row.run.events) {
      if (kind === "event") free = this.drawEventName(ctx, text, this.x(at / 1000), free);
    }
  }

  // The name of an event at the right of its mark, if nothing is there; returns where the next name can begin.
  drawEventName(ctx, text, x, free) {
    const { left, top, width } = this.plot.bbox;
    ctx.font = `${11 * this.ratio}px system-ui, sans-serif`;
    const words = text.replace(/^[▲▼] /, "");
    const name = words.length > LONGEST_EVENT ? `${words.slice(0, LONGEST_EVENT)}…` : words;
    const [from, size] = [x + 8 * this.ratio, ctx.measureText(name).width];
    if (from < free || x < left || from + size > left + width) return free;
    ctx.textAlign = "left";
    ctx.lineWidth = 3 * this.ratio;
    ctx.strokeStyle = colours.paper;
    // Below the marks, which can follow at once.
    const line = top + 22 * this.ratio;
    ctx.strokeText(name, from, line);
    ctx.fillStyle = colours.ink;
    ctx.fillText(name, from, line);
    return from + size + 12 * this.ratio;
  }

  // A triangle for an event, upwards for a link that is up; a ring for a path opened, a cross for a path closed.
  drawMark(ctx, x, y, kind, down) {
    const size = 4 * this.ratio;
    ctx.beginPath();
    if (kind === "opened") ctx.arc(x, y, size, 0, 2 * Math.PI);
    else if (kind === "closed") {
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x + size, y - size);
      ctx.lineTo(x - size, y + size);
    } else {
      ctx.moveTo(x - size, y - size * down);
      ctx.lineTo(x + size, y - size * down);
      ctx.lineTo(x, y + size * down);
      ctx.closePath();
    }
    ctx.lineWidth = 2 * this.ratio;
    ctx.fillStyle = kind === "event" ? colours.ink : colours.paper;
    if (kind !== "closed") ctx.fill();
    ctx.stroke();
  }

  // uPlot calls this on every panel, also where the pointer is on another one.
  moved() {
    if (!this.plot) return;
    const { left } = this.plot.cursor;
    const { min, max } = this.plot.scales.x;
    if (left == null || left < 0 || min == null) {
      this.time = null;
      this.readout.textContent = "";
      this.tip.hidden = true;
      return;
    }
    this.time = Math.max(0, Math.min(max, this.plot.posToVal(left, "x")));
    this.readout.textContent = `${clockTime(this.time)}: ${this.values(this.time)}`;
    const events = this === this.row.panels[0] ? this.eventsNear(left) : [];
    this.tip.hidden = events.length === 0;
    this.tip.textContent = events.map(([at, , , text]) => `${text} at ${clockTime(at / 1000)}`).join("\n");
    this.tip.classList.toggle("at-right", left > this.plot.bbox.width / devicePixelRatio / 2);
    this.tip.style.setProperty("--x", `${left}px`);
  }

  eventsNear(left) {
    return this.row.run.events.filter(([at]) => Math.abs(this.plot.valToPos(at / 1000, "x") - left) < NEAR);
  }

  values(t) {
    if (this.kind.shape === "areas") {
      const at = lastUpTo(this.windows.edges, t);
      const found = this.items.map(({ path, values }) => [pathName(this.explorer.index, path), values[at]]);
      const total = found.reduce((sum, [, value]) => sum + (value ?? 0), 0);
      const parts = found.map(([name, value]) => `${name} ${quantity(value, "Mbit/s")}`);
      if (found.length > 1) parts.push(`together ${quantity(total, "Mbit/s")}`);
      if (this.spread && at >= 0) {
        const i = lastUpTo(this.spread.edges, t);
        const { runs, low, median, high } = this.spread;
        if (median[i] != null) parts.push(`median of ${runs} runs ${quantity(median[i], "Mbit/s")} (${rangeText(low[i], high[i], "Mbit/s")})`);
      }
      return parts.join(" · ") || this.nothing;
    }
    const found = this.items.map(({ name, times, values }) => [name, values[lastUpTo(times, t)]]);
    const known = found.filter(([, value]) => value != null).map(([name, value]) => `${name} ${quantity(value, this.kind.unit)}${this.rangeAt(name, t)}`);
    return known.join(" · ") || this.nothing;
  }

  rangeAt(name, t) {
    const band = this.bands.get(name);
    const [low, high] = [band?.low, band?.high].map((values) => values?.[Math.floor(t / band.step)]);
    return low <= high ? ` (${rangeText(low, high, this.kind.unit)} in ${band.runs} runs)` : "";
  }

  selected({ left, width }) {
    if (width < 4) return;
    const [min, max] = [left, left + width].map((at) => this.plot.posToVal(at, "x"));
    this.plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.explorer.zoom(min, max);
  }

  putCursor(t) {
    this.plot.setCursor({ left: this.plot.valToPos(t, "x"), top: this.kind.height / 3 }, true, true);
  }
}

let hatching = null;

function hatch(ctx, ratio) {
  if (hatching?.ratio === ratio && hatching.paper === colours.paper) return hatching.pattern;
  const size = 7 * ratio;
  const tile = new OffscreenCanvas(size, size);
  const brush = tile.getContext("2d");
  brush.strokeStyle = colours.paper;
  brush.globalAlpha = 0.45;
  brush.lineWidth = 1.4 * ratio;
  for (const shift of [-size, 0, size]) {
    brush.moveTo(shift, size);
    brush.lineTo(shift + size, 0);
  }
  brush.stroke();
  hatching = { ratio, paper: colours.paper, pattern: ctx.createPattern(tile, "repeat") };
  return hatching.pattern;
}
