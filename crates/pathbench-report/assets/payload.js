// Data blocks of the page. html/columns.rs writes the compressed ones.

const SECONDS_PER_STEP = 1e-5;

function readIndex(section) {
  return JSON.parse(section.querySelector("script.explorer-index").textContent);
}

// All samples of a run, as tables of columns; an empty list if the page has windows of the run only.
async function readSamples(section, run) {
  const block = section.querySelector(`script.explorer-run[data-run="${run}"]`);
  if (!block) return [];
  const { tables, zlib } = JSON.parse(block.textContent);
  const text = atob(zlib);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  return tables.map((table) => {
    const read = { ...table, columns: {} };
    for (const [name, encoding] of table.columns) {
      read.columns[name] = column(bytes, at, table.rows, encoding);
      at += 4 * table.rows;
    }
    return read;
  });
}

function column(bytes, at, rows, encoding) {
  const words = new Uint32Array(rows);
  for (let i = 0; i < rows; i++) {
    words[i] =
      bytes[at + i] |
      (bytes[at + rows + i] << 8) |
      (bytes[at + 2 * rows + i] << 16) |
      (bytes[at + 3 * rows + i] << 24);
  }
  if (encoding === "gauge") return new Float32Array(words.buffer);
  if (encoding === "count") return words;
  const times = new Float64Array(rows);
  let steps = 0;
  for (let i = 0; i < rows; i++) {
    steps += words[i];
    times[i] = steps * SECONDS_PER_STEP;
  }
  return times;
}
