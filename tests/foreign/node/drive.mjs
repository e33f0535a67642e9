// Drives a host with the standard library of Node.
// Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... node drive.mjs TRANSPORT
//        TRANSPORT: connect-fetch, grpc-web-fetch, connect-http2 or grpc-http2

import assert from 'node:assert/strict';

import { ConnectFetch, GrpcWebFetch } from './fetch.mjs';
import { Refused } from './frames.mjs';
import { ConnectHttp2, GrpcHttp2 } from './http2.mjs';

const TRANSPORTS = {
  'connect-fetch': ConnectFetch,
  'grpc-web-fetch': GrpcWebFetch,
  'connect-http2': ConnectHttp2,
  'grpc-http2': GrpcHttp2,
};
const { URL: origin, TOKEN: token, SESSION: sessionId } = process.env;
const base = `${origin}/sandbar.v1.SandboxService`;
const Transport = TRANSPORTS[process.argv[2]];
const host = new Transport(base, token);

const did = (step, saw) => console.log(`${step}: ${saw}`);

async function all(answers) {
  const collected = [];
  for await (const answer of answers) collected.push(answer);
  return collected;
}

async function refusal(promise) {
  const error = await promise.then(() => assert.fail('the call was not refused'), (error) => error);
  assert(error instanceof Refused, error);
  return error;
}

async function tool(toolName, toolCallId, params) {
  const { result } = await host.call('ExecuteTool', { sessionId, toolName, toolCallId, params });
  assert(!result.isError, JSON.stringify(result));
  return result;
}

const { session } = await host.call('CreateSession', { baseSnapshot: 'host', sessionId, labels: { client: 'node' } });
assert.equal(session.state, 'SESSION_STATE_ACTIVE');
did('create', session.state);

await tool('write_file', 'write', { path: 'note.txt', content: 'first\n' });
let read = await tool('read_file', 'read', { path: 'note.txt' });
assert.match(read.content, /first/);
did('tool', read.content.trim());

const { snapshot } = await host.call('CreateSnapshot', { sessionId, name: 'clean' });
did('snapshot', snapshot.name);

const changed = await tool('bash', 'change', { cmd: 'echo second > note.txt; echo more > extra.txt' });
assert.equal(changed.exitCode, 0);
const batches = await all(host.stream('Diff', { sessionId, from: 'clean' }));
const kinds = Object.fromEntries(batches.flatMap(({ changes }) => changes).map(({ path, kind }) => [path, kind]));
assert.equal(kinds['/workspace/note.txt'], 'CHANGE_KIND_MODIFIED');
assert.equal(kinds['/workspace/extra.txt'], 'CHANGE_KIND_ADDED');
did('stream', `${Object.keys(kinds).length} changes`);

await host.call('RollbackSession', { sessionId, snapshot: 'clean' });
read = await tool('read_file', 'read again', { path: 'note.txt' });
assert.match(read.content, /first/);
did('rollback', read.content.trim());

const error = await refusal(host.call('RollbackSession', { sessionId, snapshot: 'never-taken' }));
assert.equal(error.code, host.notFound);
assert.equal(error.detail, 'SnapshotNotFound');
const inStream = await refusal(all(host.stream('Diff', { sessionId, from: 'never-taken' })));
assert.equal(inStream.detail, 'SnapshotNotFound');
const unauthenticated = host.withToken?.('wrong') ?? new Transport(base, 'wrong');
assert.equal((await refusal(unauthenticated.call('ListSessions', {}))).code, host.unauthenticated);
did('error', `${error.detail}: ${error.message}`);

const start = { start: { sessionId, argv: ['cat'], stdin: true } };
const ping = Buffer.from('ping\n').toString('base64');
if (host.talk) {
  const { send, end, answers } = host.talk('Exec');
  send(start);
  assert((await answers.next()).value.started.pid > 0);
  send({ stdin: ping });
  // The echo comes while our side is still open.
  let event;
  do event = (await answers.next()).value; while (!event.stdout);
  assert.equal(event.stdout, ping);
  end();
  const rest = await all(answers);
  assert.equal(rest.at(-1).exited.code, 0);
  did('exec', 'both ways at once');
} else {
  const events = await all(host.stream('Exec', start, { stdin: ping }, { closeStdin: {} }));
  assert.equal(events.map((event) => event.stdout ?? '').join(''), ping);
  assert.equal(events.at(-1).exited.code, 0);
  did('exec', 'one way, then the other');
}

await host.call('DestroySession', { sessionId });
assert.equal((await refusal(host.call('GetSession', { sessionId }))).code, host.notFound);
did('destroy', 'gone');
host.close?.();
