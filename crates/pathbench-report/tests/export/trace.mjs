// Runs SQL on a trace in Perfetto's trace processor: node trace.mjs TOOLS TRACE SQL…; prints a JSON array of rows per query.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { pathToFileURL } from 'node:url';

const [tools, trace, ...queries] = process.argv.slice(2);
const directory = path.join(tools, 'trace-processor');
const { EngineBase } = await import(pathToFileURL(path.join(directory, 'engine.mjs')));

// The trace processor is built for a worker of a browser, and the package has its 32-bit module only.
class Module extends WebAssembly.Module {
  constructor(bytes) {
    if (bytes.length === 23) throw new Error('the detection of 64-bit memory');
    super(bytes);
  }
}
class XMLHttpRequest {
  open(_method, file) { this.response = fs.readFileSync(path.join(directory, path.basename(file))); }
  send() {}
}
const worker = {
  console, performance, crypto, URL, TextDecoder, TextEncoder, Uint8Array, ArrayBuffer, TypeError, setTimeout, clearTimeout, XMLHttpRequest,
  WebAssembly: { ...Object.fromEntries(Object.getOwnPropertyNames(WebAssembly).map((name) => [name, WebAssembly[name]])), Module },
  WorkerGlobalScope: class {},
  importScripts() {},
  location: { href: 'file:///worker' },
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(path.join(directory, 'engine_bundle.node.js'), 'utf8'), worker);

class Engine extends EngineBase {
  id = 'test';
  mode = 'WASM';
  port = { postMessage: (data) => this.onRpcResponseBytes(data) };
  constructor() {
    super();
    worker.onmessage({ data: this.port });
  }
  rpcSendRequestBytes(data) { this.port.onmessage({ data }); }
}
// The module is ready after the pending callbacks.
await new Promise((resolve) => setTimeout(resolve));
const engine = new Engine();
await engine.parse(new Uint8Array(fs.readFileSync(trace)));
await engine.notifyEof();
const printed = [];
for (const query of queries) {
  const result = await engine.query(query);
  const columns = result.columns();
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(Object.fromEntries(columns.map((name) => [name, row.get(name)])));
  }
  printed.push(rows);
}
console.log(JSON.stringify(printed, (_key, value) => (typeof value === 'bigint' ? Number(value) : value)));
process.exit(0);
