// The agent's page. Everything from the agent is text, never markup.
"use strict";

const $ = (id) => document.getElementById(id);
const token = document.querySelector("meta[name=pathbench-token]").content;
const OWN = "";
let shown = {};
let isBusy = false;
let wasRunning = null;

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "line", "polyline", "text"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function problem(text) {
  $("problem").textContent = text ?? "";
  $("problem").hidden = !text;
}

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer.json();
}

async function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-Pathbench-Token": token };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.json()).error);
}

async function act(path, body) {
  try {
    await post(path, body);
    problem();
  } catch (error) {
    problem(error.message);
  }
  await refresh();
}

// Draws `make()` into a place only when its data have changed, so that a finger's choice stays.
function draw(id, data, make) {
  const text = JSON.stringify(data);
  if (shown[id] === text) return;
  shown[id] = text;
  $(id).replaceChildren(...make());
}

function choice(name, value, title, words, isChecked) {
  const input = element("input", { type: "radio", name, value });
  input.checked = isChecked;
  return element("label", {}, input, element("span", {}, element("b", {}, title), words));
}

const chosen = (name) => document.querySelector(`input[name=${name}]:checked`)?.value;

function drawServers(servers) {
  draw("servers", servers.map(({ name, address }) => [name, address]), () => {
    const before = chosen("server") ?? servers[0]?.name ?? OWN;
    const offered = servers.map(({ name, address }) => choice("server", name, name, address, name === before));
    const isOwn = !servers.some(({ name }) => name === before);
    return offered.concat(choice("server", OWN, "Another server", "by its address", isOwn));
  });
  for (const one of document.querySelectorAll("input[name=server]")) one.onchange = showOwn;
  showOwn();
}

function showOwn() {
  $("own-server").hidden = chosen("server") !== OWN;
}

function drawMeasurement(state) {
  const now = state.measurement;
  const isRunning = Boolean(now) || state.is_ordered;
  $("start").hidden = isRunning;
  $("stop").hidden = !isRunning;
  $("progress").hidden = !now?.runs_planned;
  if (now?.runs_planned) {
    $("progress").max = now.runs_planned;
    $("progress").value = now.runs_done;
  }
  const parts = now ? [now.experiment ?? now.title, now.server, now.label, now.pattern] : [];
  const done = now?.runs_planned ? `run ${Math.min(now.runs_done + 1, now.runs_planned)} of ${now.runs_planned}` : "";
  const delay = now?.delay_ms != null ? `delay ${now.delay_ms.toFixed(1)} ms` : "";
  $("running").textContent = now
    ? [...parts, done, delay].filter(Boolean).join(" · ")
    : state.is_ordered ? "Starting…" : "No measurement is running.";
  $("last").textContent = !isRunning && state.last ? `Last measurement: ${state.last}` : "";
  const paths = Object.entries(now?.paths ?? {});
  $("chart").hidden = paths.length === 0;
  if (paths.length > 0) drawChart(paths);
  if (wasRunning !== isRunning) refreshResults();
  wasRunning = isRunning;
}

function drawChart(paths) {
  const [width, height, left, bottom, top] = [Math.max(240, $("lines").clientWidth), 220, 48, 24, 10];
  $("lines").setAttribute("viewBox", `0 0 ${width} ${height}`);
  const seconds = Math.max(30, ...paths.map(([, rates]) => rates.length));
  const highest = Math.max(...paths.flatMap(([, rates]) => rates));
  const [scale, unit] = highest >= 1000 ? [1000, "Gbit/s"] : [1, "Mbit/s"];
  $("unit").textContent = unit;
  const steps = [0.01, 0.1, 1, 10, 100].flatMap((ten) => [1, 2, 5].map((one) => one * ten));
  const step = scale * (steps.find((one) => one * 4 * scale >= highest) ?? highest / 4 / scale);
  const x = (index, count) => left + ((width - left - 4) * (seconds - count + index)) / Math.max(1, seconds - 1);
  const y = (rate) => height - bottom - ((height - bottom - top) * rate) / (4 * step);
  const grid = [0, 1, 2, 3, 4].flatMap((line) => [
    element("line", { class: "grid", x1: left, x2: width, y1: y(line * step), y2: y(line * step) }),
    element("text", { x: left - 6, y: y(line * step) + 4, "text-anchor": "end" }, String(+((line * step) / scale).toPrecision(3))),
  ]);
  const times = [
    element("text", { x: left, y: height - 6 }, `${seconds} s ago`),
    element("text", { x: width - 2, y: height - 6, "text-anchor": "end" }, "now"),
  ];
  const lines = paths.map(([, rates], number) => element("polyline", {
    class: `path-${number % 6}`,
    points: rates.map((rate, index) => `${x(index, rates.length).toFixed(1)},${y(rate).toFixed(1)}`).join(" "),
  }));
  $("lines").replaceChildren(...grid, ...times, ...lines);
  $("legend").replaceChildren(...paths.map(([name, rates], number) => element("li", { class: `path-${number % 6}` },
    element("span", {}, `${name} ${rate(rates.at(-1))}`))));
}

function drawConsent(state) {
  draw("levels", [state.levels, state.consent], () =>
    state.levels.map(({ level, words }) => choice("consent", level, level, words, level === state.consent)));
  const age = Math.max(0, Math.round(Date.now() / 1000 - state.checked_in_s));
  const parts = [
    state.error,
    state.checked_in_s ? `Checked in ${age} s ago, ${state.experiments} experiments.` : "",
    state.outbox ? `${state.outbox} results wait for the collector.` : "",
  ];
  $("collector").textContent = parts.filter(Boolean).join(" ");
  const budgets = Object.entries(state.budget).map(([name, [used, limit]]) =>
    `${name}: ${(used / 1e6).toFixed(0)} of ${(limit / 1e6).toFixed(0)} MB used this month.`);
  $("budget").textContent = budgets.join(" ");
}

const rate = (mbps) => (mbps >= 1000 ? `${(mbps / 1000).toFixed(2)}\u00a0Gbit/s` : `${mbps.toFixed(1)}\u00a0Mbit/s`);
const time = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(2)}\u00a0s` : `${ms.toFixed(1)}\u00a0ms`);
const FIGURES = {
  goodput_mbps: rate, fct_ms: (ms) => `in ${time(ms)}`, ping_ms: time, delay_p50_ms: (ms) => `delay ${time(ms)}`,
  delay_max_ms: (ms) => `at most ${time(ms)}`,
};

function resultTable(groups) {
  const sorted = [...groups].sort((a, b) => a.pattern.localeCompare(b.pattern) || a.label.localeCompare(b.label));
  const figures = ({ figures, completed, runs }) => {
    const words = Object.keys(FIGURES).filter((name) => name in figures).map((name) => FIGURES[name](figures[name]));
    return [...words, completed < runs ? `${completed} of ${runs} runs completed` : ""].filter(Boolean).join(", ") || "–";
  };
  const cells = (kind, texts) => element("tr", {}, ...texts.map((text) => element(kind, {}, text)));
  const rows = sorted.map((group) => cells("td", [group.pattern, group.label, figures(group)]));
  const head = cells("th", ["pattern", "transport", "median"]);
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

async function refreshResults() {
  const results = await get("/api/results");
  draw("results", results, () => results.length === 0 ? [element("p", {}, "None yet.")] : results.map((one, number) => {
    const summary = element("summary", {}, element("b", {}, one.name),
      element("span", {}, [one.started.replace("T", " ").replace("Z", " UTC"), one.server].filter(Boolean).join(" · ")));
    const details = element("details", {}, summary, resultTable(one.groups));
    details.open = number === 0;
    if (one.has_report) {
      details.append(element("a", { href: `/results/${encodeURIComponent(one.name)}/report.html` }, "Report"));
    }
    return details;
  }));
}

async function refresh() {
  if (isBusy) return;
  isBusy = true;
  try {
    const state = await get("/api/state");
    $("agent").textContent = state.agent ?? "";
    drawServers(state.servers);
    drawMeasurement(state);
    drawConsent(state);
    document.body.dataset.ready = "yes";
    if (shown.isLost) problem();
    shown.isLost = false;
  } catch (error) {
    shown.isLost = true;
    problem(`The agent does not answer: ${error.message}`);
  } finally {
    isBusy = false;
  }
}

$("order").onsubmit = (event) => {
  event.preventDefault();
  const isOwn = chosen("server") === OWN;
  const server = isOwn
    ? { address: $("address").value, fingerprint: $("fingerprint").value, token: $("token").value }
    : { offered: chosen("server") };
  act("/api/start", { mobile: chosen("mode") === "mobile", ...server });
};
$("stop").onclick = () => act("/api/stop", {});
$("consent").onchange = () => act("/api/consent", { consent: chosen("consent") });

refresh();
setInterval(refresh, 1000);
