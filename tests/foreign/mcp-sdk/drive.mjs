// Drives a host with the official MCP client for TypeScript.
// Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... SANDBAR=... node drive.mjs stdio|http

import assert from 'node:assert/strict';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const TIMEOUT = 60_000; // Milliseconds until a call that hangs fails.
const { URL: url, TOKEN: token, SESSION: sandbox, SANDBAR: program = 'sandbar' } = process.env;

const TRANSPORTS = {
  stdio: () => new StdioClientTransport({
    command: program,
    args: ['mcp'],
    env: { ...process.env, SANDBAR_URL: url, SANDBAR_TOKEN: token },
  }),
  http: () => new StreamableHTTPClientTransport(new URL(`${url}/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  }),
};

const client = new Client({ name: 'sandbar-test', version: '1' });
// Whatever the client takes for a fault of the server, such as an answer nothing has asked for.
const faults = [];
client.onerror = (error) => faults.push(error);
const transport = TRANSPORTS[process.argv[2]]();
let negotiated;
const { setProtocolVersion } = transport;
transport.setProtocolVersion = function remember(version) {
  negotiated = version;
  setProtocolVersion?.call(transport, version);
};
await client.connect(transport);
assert.equal(client.getServerVersion().name, 'sandbar');
if (process.argv[2] === 'http') assert.equal(negotiated, '2025-11-25');

const ask = (name, args, options) =>
  client.callTool({ name, arguments: args }, undefined, { timeout: TIMEOUT, ...options });
const text = (result) => result.content.filter((block) => block.type === 'text').map((block) => block.text).join('');

async function call(name, args, options) {
  const result = await ask(name, args, options);
  assert.equal(result.isError, false, text(result));
  return result;
}

const { tools } = await client.listTools();
const names = new Set(tools.map((tool) => tool.name));
for (const name of ['bash', 'sandbox_create', 'snapshot', 'rollback', 'fork', 'diff']) assert(names.has(name), name);
assert.equal(tools.find((tool) => tool.name === 'read_file').annotations.readOnlyHint, true);
await client.ping();

const made = await call('sandbox_create', { id: sandbox, labels: { by: 'mcp-sdk' } });
assert.equal(made.structuredContent.sandbox, sandbox);
console.log(`create: ${made.structuredContent.sandbox}`);

await call('write_file', { sandbox, path: 'a.txt', content: 'one\n' });
assert.equal(text(await call('bash', { sandbox, cmd: 'cat a.txt' })), 'one\n');
console.log('tool: one');

const taken = await call('snapshot', { sandbox, name: 'before' });
console.log(`snapshot: ${taken.structuredContent.snapshot}`);

const received = [];
const script = 'echo two >> a.txt; for n in 1 2 3; do echo $n; sleep 0.1; done';
const streamed = await call('bash', { sandbox, cmd: script }, { onprogress: ({ message }) => received.push(message) });
assert.equal(text(streamed), '1\n2\n3\n');
assert.equal(received.join(''), '1\n2\n3\n');
console.log(`stream: ${received.length} notifications`);

await call('rollback', { sandbox, snapshot: 'before' });
assert.equal(text(await call('bash', { sandbox, cmd: 'cat a.txt' })), 'one\n');
console.log('rollback: one');

const refused = await ask('rollback', { sandbox, snapshot: 'gone' });
assert(refused.isError && text(refused).includes('gone'), text(refused));
console.log(`error: ${text(refused).split('\n')[0]}`);

const failed = await ask('run_code', { sandbox, language: 'sh', code: 'echo out; exit 7' });
assert(failed.isError, text(failed));
assert.equal(text(failed), 'out\n[exit code 7]');
console.log('exec: exit code 7');

// A call that its caller gives up ends its command and has no answer, with and without progress.
for (const options of [{}, { onprogress: () => {} }]) {
  const abort = new AbortController();
  const sleeping = ask('bash', { sandbox, cmd: 'echo $$ > pid; exec sleep 1000' }, { signal: abort.signal, ...options });
  await call('bash', { sandbox, cmd: 'until test -s pid; do sleep 0.05; done' });
  abort.abort('enough');
  await assert.rejects(sleeping);
  await call('bash', { sandbox, cmd: 'while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done; rm pid' });
}

const gone = await call('sandbox_destroy', { sandbox });
console.log(`destroy: ${gone.structuredContent.destroyed}`);
await client.close();
assert.deepEqual(faults, []);
