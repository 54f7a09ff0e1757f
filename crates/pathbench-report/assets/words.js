// Numbers as text, elements, colours.

const MINUS = "\u2212";

function digits(value) {
  if (value == null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2).replace("-", MINUS);
  // 9.996 has the digits of 10, as in the tables.
  const decimals = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(size / 0.9995))));
  return String(Number(value.toFixed(decimals))).replace("-", MINUS);
}

function scaled(value, steps) {
  if (value == null || !Number.isFinite(value)) return "–";
  const [factor, unit] = steps.find(([least]) => Math.abs(value) >= 0.9995 * least) ?? steps.at(-1);
  return `${digits(value / factor)} ${unit}`;
}

const UNITS = {
  "Mbit/s": (value) => (value === 0 ? "0 Mbit/s" : scaled(value, [[1e3, "Gbit/s"], [1, "Mbit/s"], [1e-3, "kbit/s"]])),
  ms: (value) => (value === 0 ? "0 ms" : scaled(value, [[1e3, "s"], [1, "ms"], [1e-3, "µs"]])),
  bytes: (value) => (value < 1e3 ? `${digits(value)} B` : scaled(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])),
  part: (value) => `${digits(value * 100)} %`,
};

function quantity(value, unit) {
  const words = UNITS[unit];
  if (value == null || !Number.isFinite(value)) return "–";
  return words ? words(value) : digits(value);
}

// `47.6–82 Mbit/s`; with both units where they differ.
function rangeText(low, high, unit) {
  const [from, to] = [low, high].map((value) => quantity(value, unit));
  const [number, name] = from.split(" ");
  return to.endsWith(` ${name}`) ? `${number}–${to}` : `${from}–${to}`;
}

function clockTime(seconds) {
  return `${seconds.toFixed(seconds < 100 ? 3 : 2)} s`;
}

// An element with attributes, listeners (`onclick`) and children. Text never becomes markup.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function button(label, attributes) {
  return element("button", { type: "button", ...attributes }, label);
}

const PATH_COLOURS = 8;
let colours = {};

function readColours() {
  const style = getComputedStyle(document.querySelector(".explorer"));
  const of = (name) => style.getPropertyValue(`--explorer-${name}`).trim();
  colours = { paths: [] };
  for (const name of ["ink", "muted", "line", "paper", "bad", "unknown", "upload", "download"]) colours[name] = of(name);
  for (let i = 0; i < PATH_COLOURS; i++) colours.paths.push(of(`path-${i}`));
}

function pathColour(path) {
  return path < 0 ? colours.unknown : colours.paths[path % PATH_COLOURS];
}

// Of the direction of messages, else of the path.
function seriesColour({ direction, path }) {
  return direction ? colours[direction] : pathColour(path);
}

// The position of the last value that is not above `wanted`; −1 if all are.
function lastUpTo(values, wanted) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
