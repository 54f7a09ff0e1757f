// The spread over repetitions: the lowest and the highest value of the valid runs of a group in each window of time.

// Runs of a group whose samples are decoded for it.
const MOST_REPETITIONS = 30;
const MOST_SPREAD_WINDOWS = 1000;

// The valid runs of a group by their positions; none if there is only one.
function repetitions(index, group) {
  const found = index.runs.map((run, i) => (run.group === group && run.valid ? i : -1)).filter((i) => i >= 0);
  return found.length > 1 ? found : [];
}

async function readRepetitions(section, index, group) {
  const read = [];
  const full = repetitions(index, group).filter((position) => index.runs[position].full);
  for (const position of full.slice(0, MOST_REPETITIONS)) read.push(await readSamples(section, position));
  return read.length > 1 ? read : [];
}

// The megabits that the shown paths delivered up to a time.
function curve({ edges, layers }, hidden) {
  const shown = layers.filter((one) => !hidden.has(one.path));
  const sums = new Float64Array(edges.length);
  for (let i = 1; i < edges.length; i++) {
    const mbps = shown.reduce((sum, one) => sum + one.values[i - 1], 0);
    sums[i] = sums[i - 1] + mbps * (edges[i] - edges[i - 1]);
  }
  const at = (t) => {
    const i = Math.min(Math.max(lastUpTo(edges, t), 0), edges.length - 2);
    return sums[i] + ((sums[i + 1] - sums[i]) * (t - edges[i])) / (edges[i + 1] - edges[i]);
  };
  return { at, end: edges.length > 1 ? edges.at(-1) : 0 };
}

// Goodput of the runs between these edges. A run that ended before the middle of a window has no value there.
function spreadOfGoodput(curves, edges) {
  const sums = curves.map(({ at, end }) => ({ end, delivered: edges.map((t) => at(Math.min(t, end))) }));
  const rows = edges.slice(1).map((until, i) => {
    const from = edges[i];
    const rate = ({ delivered, end }) => (delivered[i + 1] - delivered[i]) / (Math.min(until, end) - from);
    const found = Float64Array.from(sums.filter(({ end }) => end >= (from + until) / 2), rate).sort();
    const half = (found.length - 1) / 2;
    return found.length ? [found[0], (found[Math.floor(half)] + found[Math.ceil(half)]) / 2, found.at(-1)] : [0, 0, 0];
  });
  return { edges, low: rows.map((row) => row[0]), median: rows.map((row) => row[1]), high: rows.map((row) => row[2]), runs: curves.length };
}

// The range of each line, by its name, in windows of `width` seconds; a window without a value has an infinite range.
// A line holds its value up to the next sample, also in that sample's window; a point does not.
function bandsOf(runs, width, is_held) {
  const bands = new Map();
  const last = Math.max(0, ...runs.flat().map(({ times }) => times.at(-1) ?? 0));
  const step = Math.max(width, last / MOST_SPREAD_WINDOWS);
  const count = Math.floor(last / step) + 1;
  for (const { name, path, direction, times, values } of runs.flat()) {
    if (!bands.has(name)) bands.set(name, { path, direction, step, low: new Float64Array(count).fill(Infinity), high: new Float64Array(count).fill(-Infinity), runs: runs.length });
    const { low, high } = bands.get(name);
    const see = (window, value) => {
      low[window] = Math.min(low[window], value);
      high[window] = Math.max(high[window], value);
    };
    let free = 0;
    let before = NaN;
    for (let i = 0; i < times.length; i++) {
      const window = Math.floor(times[i] / step);
      if (is_held && Number.isFinite(before)) for (; free <= window; free++) see(free, before);
      before = values[i];
      if (Number.isFinite(before)) see(window, before);
      free = window;
    }
  }
  return bands;
}

// The windows of a band that are in a range of time.
function windowsOfBand({ step, low }, { min, max }) {
  return [Math.max(0, Math.floor(min / step)), Math.min(low.length - 1, Math.floor(max / step))];
}
