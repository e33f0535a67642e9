// The kernel of JavaScript and TypeScript: runs cells one after another in one global scope. Given: require, load,
// importModule, requests and events (descriptors), and whether cells are TypeScript.

const fs = require('fs');
const net = require('net');
const { performance } = require('perf_hooks');
const path = require('path');
const url = require('url');
const util = require('util');
const vm = require('vm');
const { createRequire, builtinModules, stripTypeScriptTypes } = require('module');
const { prepare } = load('source');

let current = null;
let interrupt = null;

// Text that waits for more: the first of a burst goes out at once, the rest in larger pieces.
const held = { type: null, text: '', since: 0, scheduled: false };
const BURST_MS = 5;
const MUCH = 32 * 1024;

function flush() {
  const { type, text } = held;
  held.text = '';
  if (text) write({ type, text });
}

function say(type, text) {
  if (held.type !== type) flush();
  held.type = type;
  held.text += text;
  const now = performance.now();
  if (held.text.length >= MUCH || now - held.since >= BURST_MS) {
    held.since = now;
    flush();
  } else if (!held.scheduled) {
    held.scheduled = true;
    setImmediate(() => {
      held.scheduled = false;
      flush();
    });
  }
}

function tell(event) {
  flush();
  write(event);
}

// Written at once and in order, also when a cell never lets go of the event loop.
function write(event) {
  let data = Buffer.from(`${JSON.stringify({ id: current, ...event })}\n`);
  while (data.length) data = data.subarray(fs.writeSync(events, data));
}

function redirect(stream, type) {
  const decoder = new (require('string_decoder').StringDecoder)('utf8');
  stream.write = (chunk, encoding, callback) => {
    const text = typeof chunk === 'string' ? chunk : decoder.write(Buffer.from(chunk));
    if (text) say(type, text);
    const done = typeof encoding === 'function' ? encoding : callback;
    if (done) process.nextTick(done);
    return true;
  };
}

// Names resolve from where the context works, not from where the kernel's text came from.
function localRequire(name) {
  return createRequire(path.join(process.cwd(), 'cell.js'))(name);
}
localRequire.resolve = (name, options) => createRequire(path.join(process.cwd(), 'cell.js')).resolve(name, options);
localRequire.cache = require.cache;

async function localImport(name) {
  const bare = String(name).replace(/^npm:/, '');
  if (bare.startsWith('node:') || builtinModules.includes(bare) || /^(file|data):/.test(bare)) return importModule(bare);
  if (/^\.{0,2}\//.test(bare)) return importModule(url.pathToFileURL(path.resolve(bare)).href);
  try {
    return await importModule(bare);
  } catch (error) {
    try {
      return await importModule(url.pathToFileURL(localRequire.resolve(bare)).href);
    } catch {
      throw error;
    }
  }
}

function hidden(name, value) {
  Object.defineProperty(globalThis, name, { value, enumerable: false, configurable: true, writable: true });
}

// What is done when the cell that runs has ended.
let atEnd = [];

function bind(names) {
  for (const [name, [get, set]] of Object.entries(names)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    if (!before || before.configurable) {
      Object.defineProperty(globalThis, name, { get, set, enumerable: true, configurable: true });
    } else {
      // A function of an earlier cell cannot be replaced by a binding, but it can be overwritten.
      atEnd.push(() => {
        globalThis[name] = get();
      });
    }
  }
}

// A `var` makes a property that can never be bound; one that is there already is left as it is.
function declare(names) {
  for (const name of names) {
    if (!Object.getOwnPropertyDescriptor(globalThis, name)) {
      Object.defineProperty(globalThis, name, { value: undefined, writable: true, enumerable: true, configurable: true });
    }
  }
}

function compile(text) {
  return new vm.Script(text, { filename: `Cell In[${current}]` });
}

// TypeScript as JavaScript: by Node itself from 22.13 on, which can turn enums and namespaces into code as well.
function strip(code) {
  const { emitWarning } = process;
  // It warns that it is experimental, which would be among what the cell says.
  process.emitWarning = () => {};
  try {
    for (const mode of stripTypeScriptTypes ? ['strip', 'transform'] : []) {
      try {
        return stripTypeScriptTypes(code, { mode });
      } catch {
        // It has something that mode does not know, or a mistake, which compiling tells.
      }
    }
  } finally {
    process.emitWarning = emitWarning;
  }
  return load('typescript').strip(code);
}

// Types are taken out of TypeScript always, of JavaScript where it is none with them: so E2B has it.
function understand(code) {
  const [first, other] = isTyped ? [strip, String] : [String, strip];
  try {
    return prepare(first(code), compile);
  } catch (error) {
    try {
      return prepare(other(code), compile);
    } catch {
      throw error;
    }
  }
}

async function run(code) {
  const { script, names } = understand(code);
  declare(names);
  const interrupted = new Promise((_, reject) => {
    interrupt = () => reject(Object.assign(new Error('The execution was interrupted'), { name: 'Interrupted', stack: '' }));
  });
  // A promise as the last value is waited for, and its result is the value.
  return Promise.race([script.runInThisContext({ breakOnSigint: true }), interrupted]);
}

// What an object says itself that it looks like, as in notebooks of Deno.
function shownBy(value) {
  const own = value !== null && typeof value === 'object' && value[Symbol.for('Jupyter.display')];
  if (typeof own !== 'function') return undefined;
  const data = own.call(value);
  return data !== null && typeof data === 'object' && typeof data.then !== 'function' ? data : undefined;
}

function formats(value) {
  const shown = shownBy(value);
  if (shown) return shown;
  const data = { 'text/plain': withoutOurs(util.inspect(value, { depth: 4, maxArrayLength: 1000 })) };
  const isPlain = value !== null && typeof value === 'object' && [Object.prototype, Array.prototype, null].includes(Object.getPrototypeOf(value));
  if (isPlain) {
    try {
      data['application/json'] = JSON.parse(JSON.stringify(value));
    } catch {
      // It has cycles, or something else that JSON has no word for.
    }
  }
  return data;
}

// A trace of the stack without the lines of the kernel itself.
function withoutOurs(text) {
  const isOurs = (line) => /^\s+at (?:node:|.*(?:\(node:|\[eval\]|eval at run|new Promise \(<anonymous>\)))/.test(line);
  return text.includes('\n    at ') ? text.split('\n').filter((line) => !isOurs(line)).join('\n') : text;
}

function describe(error) {
  if (!(error instanceof Error) && !(error && typeof error.stack === 'string')) {
    return { name: 'Error', value: typeof error === 'string' ? error : util.inspect(error), traceback: `Uncaught ${util.inspect(error)}` };
  }
  const stack = String(error.stack || `${error.name}: ${error.message}`);
  return {
    name: String(error.name || 'Error'),
    value: String(error.message),
    traceback: withoutOurs(stack),
  };
}

async function execute({ id, code, env }) {
  const before = Object.keys(env).map((name) => [name, process.env[name]]);
  current = id;
  Object.assign(process.env, env);
  try {
    const value = await run(code);
    if (value !== undefined) tell({ type: 'result', main: true, data: formats(value) });
  } catch (error) {
    tell({ type: 'error', ...describe(error) });
  } finally {
    interrupt = null;
    for (const action of atEnd) action();
    atEnd = [];
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    // What the cell has promised to do next is part of what it printed.
    await new Promise(setImmediate);
    tell({ type: 'done' });
    current = null;
  }
}

redirect(process.stdout, 'stdout');
redirect(process.stderr, 'stderr');
process.on('SIGINT', () => interrupt && interrupt());
for (const trouble of ['uncaughtException', 'unhandledRejection']) {
  process.on(trouble, (error) => process.stderr.write(`Uncaught ${describe(error).traceback}\n`));
}
hidden('require', localRequire);
hidden('module', { exports: {} });
hidden('exports', globalThis.module.exports);
hidden('__sandbarImport', localImport);
hidden('__sandbarBind', bind);

let waiting = Promise.resolve();
let rest = [];
const socket = new net.Socket({ fd: requests, readable: true, writable: false });
socket.on('data', (data) => {
  const parts = data.toString('latin1').split('\n');
  for (const part of parts.slice(0, -1)) {
    const line = Buffer.from(rest.concat(part).join(''), 'latin1').toString();
    rest = [];
    waiting = waiting.then(() => execute(JSON.parse(line)));
  }
  rest.push(parts[parts.length - 1]);
});
// The server is gone.
socket.on('close', () => process.exit(0));
