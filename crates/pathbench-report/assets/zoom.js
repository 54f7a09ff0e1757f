(function () {
"use strict";
// Zooms the time axis of time-sequence graphs. The graphs of a figure share it; each vertical axis fits what is in view.

const SVG = "http://www.w3.org/2000/svg";
// Coordinates have two decimals.
const MOST_ZOOM = 400;
const LEAST_DRAG = 4;

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Round values from `low` to `high`, about `wanted`, and their decimals.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? 10 * power;
  const decimals = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const values = [];
  for (let at = Math.ceil(low / step); at * step <= high && values.length < 50; at++) values.push(at * step);
  return { values, decimals };
}

// All corners of a path in relative coordinates.
function corners(path) {
  let x = 0;
  let y = 0;
  return [...path.getAttribute("d").matchAll(/([mhvl])(-?[\d.]+)(?: (-?[\d.]+))?/g)].map(([, command, first, second]) => {
    if (command === "h") x += Number(first);
    else if (command === "v") y += Number(first);
    else {
      x += Number(first);
      y += Number(second);
    }
    return [x, y];
  });
}

class Area {
  constructor(element) {
    this.element = element;
    const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(element.getAttribute(name)));
    Object.assign(this, { x, y, width, height });
    [this.time, this.bytes] = [element.dataset.x, element.dataset.y].map((text) => {
      const [low, high, unit] = text.split(" ");
      return { low: Number(low), high: Number(high), unit };
    });
    this.points = [...element.querySelectorAll("path")].flatMap(corners);
    this.axes = shape("g", { class: "zoom-axes" });
    element.before(this.axes);
    this.cover = shape("rect", { x, y, width, height, class: "zoom-area" });
    element.after(this.cover);
  }

  // Shows the part of the width from `from` to `to`.
  show(from, to, has_numbers) {
    const [left, right] = [from * this.width, to * this.width];
    const inside = this.points.filter(([x]) => x >= left && x <= right).map((point) => point[1]);
    const [top, bottom] = to - from >= 1 || !inside.length ? [0, this.height] : this.fitted(inside);
    this.element.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    this.axes.replaceChildren();
    if (to - from >= 1) return;
    const { time, bytes } = this;
    const scale = (axis, part) => axis.low + (axis.high - axis.low) * part;
    const factor = { MB: 1e6, GB: 1e9, kB: 1e3, s: 1e3, min: 6e4, h: 3.6e6 };
    const along = ([low, high], unit, wanted) => ticks(low / (factor[unit] ?? 1), high / (factor[unit] ?? 1), wanted);
    const add = (name, attributes, text) => this.axes.append(shape(name, attributes, text));
    const times = [scale(time, from), scale(time, to)];
    const found = along(times, time.unit, 9);
    for (const value of found.values) {
      const at = this.x + ((value * (factor[time.unit] ?? 1) - times[0]) / (times[1] - times[0])) * this.width;
      add("line", { x1: at, x2: at, y1: this.y, y2: this.y + this.height });
      if (has_numbers) add("text", { x: at, y: this.y + this.height + 16, "text-anchor": "middle" }, value.toFixed(found.decimals));
    }
    const range = [scale(bytes, 1 - bottom / this.height), scale(bytes, 1 - top / this.height)];
    const rows = along(range, bytes.unit, 4);
    for (const value of rows.values) {
      const at = this.y + this.height - ((value * (factor[bytes.unit] ?? 1) - range[0]) / (range[1] - range[0])) * this.height;
      add("line", { x1: this.x, x2: this.x + this.width, y1: at, y2: at });
      add("text", { x: this.x - 6, y: at + 3.6, "text-anchor": "end" }, value.toFixed(rows.decimals));
    }
    add("text", { x: this.x - 6, y: this.y - 9, "text-anchor": "end" }, bytes.unit);
  }

  fitted(inside) {
    const top = inside.reduce((least, y) => Math.min(least, y), Infinity);
    const bottom = inside.reduce((most, y) => Math.max(most, y), -Infinity);
    const space = Math.max((bottom - top) * 0.05, this.height / MOST_ZOOM / 4);
    return [top - space, bottom + space];
  }
}

class Graphs {
  constructor(figure) {
    this.svg = figure.querySelector("svg");
    this.areas = [...this.svg.querySelectorAll("svg.zoom")].map((element) => new Area(element));
    this.range = [0, 1];
    this.areas.forEach((area) => this.listen(area));
    figure.prepend(this.toolbar());
  }

  toolbar() {
    const bar = document.createElement("div");
    bar.className = "zoom-bar";
    bar.setAttribute("role", "toolbar");
    bar.setAttribute("aria-label", "Time axis");
    const actions = [
      ["+", "Zoom in", () => this.scale(0.5, 0.5)],
      ["\u2212", "Zoom out", () => this.scale(2, 0.5)],
      ["◀", "Earlier", () => this.pan(-0.25)],
      ["▶", "Later", () => this.pan(0.25)],
      ["Whole connection", "Show the whole connection", () => this.zoom(0, 1)],
    ];
    for (const [text, name, act] of actions) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: text, title: name, onclick: act });
      button.setAttribute("aria-label", name);
      bar.append(button);
    }
    const help = document.createElement("span");
    help.textContent = "Drag, or Ctrl and the wheel, to zoom; double-click for the whole connection.";
    bar.append(help);
    return bar;
  }

  listen(area) {
    const part = (event) => {
      const box = area.cover.getBoundingClientRect();
      return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    };
    let from = null;
    let chosen = null;
    const end = () => {
      chosen?.remove();
      from = chosen = null;
    };
    area.cover.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      area.cover.setPointerCapture(event.pointerId);
      from = { part: part(event), x: event.clientX };
      chosen = shape("rect", { y: area.y, height: area.height, width: 0, class: "zoom-chosen" });
      area.cover.after(chosen);
    });
    area.cover.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [low, high] = [from.part, part(event)].sort((a, b) => a - b);
      chosen.setAttribute("x", area.x + low * area.width);
      chosen.setAttribute("width", (high - low) * area.width);
    });
    area.cover.addEventListener("pointerup", (event) => {
      if (from && Math.abs(event.clientX - from.x) > LEAST_DRAG) {
        const [low, high] = [from.part, part(event)].sort((a, b) => a - b).map((one) => this.at(one));
        this.zoom(low, high);
      }
      end();
    });
    area.cover.addEventListener("pointercancel", end);
    area.cover.addEventListener("dblclick", () => this.zoom(0, 1));
    area.cover.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.scale(event.deltaY > 0 ? 1.25 : 0.8, part(event));
      },
      { passive: false },
    );
  }

  // From a part of the view to a part of the whole.
  at(part) {
    return this.range[0] + part * (this.range[1] - this.range[0]);
  }

  scale(factor, part) {
    const fixed = this.at(part);
    this.zoom(fixed - (fixed - this.range[0]) * factor, fixed + (this.range[1] - fixed) * factor);
  }

  pan(part) {
    const [low, high] = this.range;
    const shift = Math.max(-low, Math.min(1 - high, (high - low) * part));
    this.zoom(low + shift, high + shift);
  }

  zoom(low, high) {
    const width = Math.max(1 / MOST_ZOOM, Math.min(1, high - low));
    const from = Math.max(0, Math.min(1 - width, low));
    this.range = [from, from + width];
    this.svg.classList.toggle("zoomed", width < 1);
    this.areas.forEach((area, index) => area.show(from, from + width, index === this.areas.length - 1));
  }
}

for (const figure of document.querySelectorAll("figure")) {
  if (figure.querySelector("svg.zoom")) new Graphs(figure);
}
})();
