// The figures of a run over time: which panels there are, and the layers, lines and points of each.

const KINDS = [
  { id: "goodput", button: "Goodput", title: "Goodput by path", unit: "Mbit/s", shape: "areas", height: 170 },
  { id: "delay", button: "Delay", title: "Delay of messages", unit: "ms", shape: "points", height: 150 },
  { id: "rtt", button: "RTT", title: "Smoothed RTT by path", unit: "ms", shape: "lines", height: 110 },
  { id: "cwnd", button: "cwnd", title: "Congestion window by path", unit: "bytes", shape: "lines", height: 110 },
  { id: "flight", button: "In flight", title: "Bytes in flight by path", unit: "bytes", shape: "lines", height: 110 },
  { id: "mss", button: "MSS", title: "MSS by path", unit: "bytes", shape: "lines", height: 90 },
  { id: "acked", button: "Acked", title: "Acknowledged by path, per sample", unit: "Mbit/s", shape: "lines", height: 110 },
  { id: "received", button: "Received", title: "Received by path, per sample", unit: "Mbit/s", shape: "lines", height: 110 },
  { id: "queue", button: "Link queue", title: "Queue of links", unit: "bytes", shape: "lines", height: 110 },
];

const GAUGES = { rtt: "srtt_ms", cwnd: "cwnd_bytes", flight: "in_flight_bytes", mss: "mss_bytes" };
const COUNTERS = { acked: "acked_bytes", received: "received_bytes" };

// More windows than this in view are summed.
const MOST_WINDOWS = 500;

function pathName(index, path) {
  return path < 0 ? "path not known" : (index.paths[path] ?? "path not known");
}

// Windows of goodput: `edges` in seconds, one more than values.
function coarseWindows(run) {
  const { window_ms: width, end_ms: end, layers } = run.goodput;
  const count = layers[0]?.mbps.length ?? 0;
  const edges = Array.from({ length: count + 1 }, (_, i) => Math.min(i * width, end) / 1000);
  return { width, edges, layers: layers.map(({ path, mbps }) => ({ path, values: mbps })) };
}

function fineWindows(tables) {
  const found = tables.filter((table) => table.kind === "goodput");
  if (!found.length) return null;
  const { window_ms: width, end_ms: end, rows } = found[0];
  const edges = Array.from({ length: rows + 1 }, (_, i) => Math.min(i * width, end) / 1000);
  return { width, edges, layers: found.map(({ path, columns }) => ({ path, values: columns.mbps })) };
}

// The windows to draw for a range: fine ones, summed until they are few enough; never finer than the eye needs.
function windowsFor(coarse, fine, { min, max }) {
  const visible = (windows) => ((max - min) * 1000) / windows.width;
  if (!fine || fine.width >= coarse.width || visible(coarse) >= 60) return coarse;
  const factor = Math.max(1, Math.ceil(visible(fine) / MOST_WINDOWS));
  if (factor * fine.width >= coarse.width) return coarse;
  return factor === 1 ? fine : summed(fine, factor);
}

function summed({ width, edges, layers }, factor) {
  const count = Math.ceil((edges.length - 1) / factor);
  const kept = Array.from({ length: count + 1 }, (_, i) => edges[Math.min(i * factor, edges.length - 1)]);
  const mean = (values) =>
    Array.from({ length: count }, (_, i) => {
      let bits = 0;
      const last = Math.min((i + 1) * factor, values.length);
      for (let j = i * factor; j < last; j++) bits += values[j] * (edges[j + 1] - edges[j]);
      return bits / (kept[i + 1] - kept[i]);
    });
  return { width: width * factor, edges: kept, layers: layers.map(({ path, values }) => ({ path, values: mean(values) })) };
}

// The ends that sent data: a receiver's congestion window says nothing.
function senders(tables) {
  const sums = {};
  for (const { kind, side, columns } of tables) {
    if (kind !== "path") continue;
    sums[side] = (sums[side] ?? 0) + columns.acked_bytes.reduce((sum, one) => sum + one, 0);
  }
  const most = Math.max(0, ...Object.values(sums));
  return Object.keys(sums).filter((side) => sums[side] >= 0.1 * most);
}

function lines(index, tables, kind) {
  if (kind === "queue") return queues(tables);
  const sending = senders(tables);
  const receiving = tables.some((table) => table.kind === "path" && !sending.includes(table.side));
  const counter = COUNTERS[kind];
  const found = tables.filter(
    (table) => table.kind === "path" && (kind === "received" && receiving ? !sending.includes(table.side) : sending.includes(table.side)),
  );
  const several = new Set(found.map((table) => table.side)).size > 1;
  return found.map(({ path, side, columns }) => ({
    path,
    name: pathName(index, path) + (several ? ` (${side})` : ""),
    dashed: several && side === "server",
    times: columns.t_ms,
    values: counter ? rates(columns.t_ms, columns[counter]) : columns[GAUGES[kind]],
  }));
}

function queues(tables) {
  const found = tables.filter((table) => table.kind === "link");
  return found.map(({ link, path, forward, columns }) => ({
    path,
    name: `${link} ${forward ? "forward" : "reverse"}`,
    dashed: !forward,
    times: columns.t_ms,
    values: columns.queue_bytes,
  }));
}

// The growth of a counter between rows, in Mbit/s.
function rates(times, counts) {
  return Float64Array.from(counts, (bytes, i) => (i === 0 ? NaN : (bytes * 8e-6) / Math.max(times[i] - times[i - 1], 1e-5)));
}

function delays(tables) {
  const found = tables.filter((table) => table.kind === "delay");
  return found.map(({ direction, unacknowledged, columns }) => ({
    name: `${direction}${unacknowledged ? ", never acknowledged" : ""}`,
    direction,
    unacknowledged,
    times: columns.t_ms,
    values: columns.delay_ms,
  }));
}
