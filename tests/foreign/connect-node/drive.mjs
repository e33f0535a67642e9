// Drives a host with the Connect client from npm and the types `protoc-gen-es` made of our .proto files.
// Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... node drive.mjs connect-json|connect|grpc|grpc-web

import assert from 'node:assert/strict';

import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';

import { ErrorDetailSchema } from './gen/sandbar/v1/errors_pb.js';
import { SandboxService } from './gen/sandbar/v1/service_pb.js';
import { SessionState } from './gen/sandbar/v1/sessions_pb.js';
import { ChangeKind } from './gen/sandbar/v1/snapshots_pb.js';

const PATIENCE = 60_000; // Milliseconds until a call that hangs fails.
const { URL: baseUrl, TOKEN: token, SESSION: sessionId } = process.env;
const protocol = process.argv[2];

const TRANSPORTS = {
  'connect-json': (common) => createConnectTransport({
    ...common,
    httpVersion: '1.1',
    useBinaryFormat: false,
    // Calls without effects are GET requests then.
    useHttpGet: true,
  }),
  connect: (common) => createConnectTransport({ ...common, httpVersion: '2', useBinaryFormat: true }),
  grpc: (common) => createGrpcTransport(common),
  'grpc-web': (common) => createGrpcWebTransport({ ...common, httpVersion: '2' }),
};
// Over HTTP/1.1 a request is sent before its answer is read.
const bothWays = protocol !== 'connect-json';

function clientWith(bearer) {
  const authorize = (next) => (request) => {
    request.header.set('authorization', `Bearer ${bearer}`);
    return next(request);
  };
  const transport = TRANSPORTS[protocol]({ baseUrl, interceptors: [authorize], defaultTimeoutMs: PATIENCE });
  return createClient(SandboxService, transport);
}

const did = (step, saw) => console.log(`${step}: ${saw}`);

async function all(answers) {
  const collected = [];
  for await (const answer of answers) collected.push(answer);
  return collected;
}

async function refusal(promise) {
  const error = await promise.then(() => assert.fail('the call was not refused'), (error) => error);
  assert(error instanceof ConnectError, error);
  return error;
}

const host = clientWith(token);

async function tool(toolName, toolCallId, params) {
  const { result } = await host.executeTool({ sessionId, toolName, toolCallId, params });
  assert.equal(result.isError, false, result.content);
  return result;
}

const { session } = await host.createSession({ baseSnapshot: 'host', sessionId, labels: { client: 'connect-node' } });
assert.equal(session.state, SessionState.ACTIVE);
assert.deepEqual({ ...session.labels }, { client: 'connect-node' });
did('create', SessionState[session.state]);

await tool('write_file', 'write', { path: 'note.txt', content: 'first\n' });
let read = await tool('read_file', 'read', { path: 'note.txt' });
assert.match(read.content, /first/);
assert.equal(read.tier, 1);
did('tool', read.content.trim());

const { snapshot } = await host.createSnapshot({ sessionId, name: 'clean' });
did('snapshot', snapshot.name);

const changed = await tool('bash', 'change', { cmd: 'echo second > note.txt; echo more > extra.txt' });
assert.equal(changed.exitCode, 0);
const batches = await all(host.diff({ sessionId, from: 'clean' }));
const kinds = Object.fromEntries(batches.flatMap(({ changes }) => changes).map(({ path, kind }) => [path, kind]));
assert.equal(kinds['/workspace/note.txt'], ChangeKind.MODIFIED);
assert.equal(kinds['/workspace/extra.txt'], ChangeKind.ADDED);
const call = { sessionId, toolName: 'bash', toolCallId: 'stream', params: { cmd: 'echo one; echo two; exit 3' } };
const events = await all(host.executeToolStream(call));
const last = events.pop();
assert.equal(events.map(({ event }) => event.value.content).join(''), 'one\ntwo\n');
assert.equal(last.event.case, 'result');
assert.equal(last.event.value.exitCode, 3);
did('stream', `${Object.keys(kinds).length} changes, ${events.length} progress`);

await host.rollbackSession({ sessionId, snapshot: 'clean' });
read = await tool('read_file', 'read again', { path: 'note.txt' });
assert.match(read.content, /first/);
did('rollback', read.content.trim());

const error = await refusal(host.rollbackSession({ sessionId, snapshot: 'never-taken' }));
assert.equal(error.code, Code.NotFound);
const [detail] = error.findDetails(ErrorDetailSchema);
assert.equal(detail.code, 'SnapshotNotFound');
assert.equal(detail.sessionId, sessionId);
const inStream = await refusal(all(host.diff({ sessionId, from: 'never-taken' })));
assert.equal(inStream.findDetails(ErrorDetailSchema)[0].code, 'SnapshotNotFound');
assert.equal((await refusal(clientWith('wrong').listSessions({}))).code, Code.Unauthenticated);
did('error', `${detail.code}: ${error.rawMessage}`);

const start = { request: { case: 'start', value: { sessionId, argv: ['cat'], stdin: true } } };
const ping = { request: { case: 'stdin', value: new TextEncoder().encode('ping\n') } };
const close = { request: { case: 'closeStdin', value: {} } };
let heard;
const echoed = new Promise((resolve) => { heard = resolve; });
async function* requests() {
  yield start;
  yield ping;
  // Our side stays open until the echo is there.
  if (bothWays) await echoed;
  yield close;
}
let output = '';
let exited;
for await (const { event } of host.exec(requests())) {
  assert.equal(exited, undefined, 'something came after the end');
  if (event.case === 'stdout') {
    output += new TextDecoder().decode(event.value);
    heard();
  } else if (event.case === 'exited') {
    exited = event.value;
  }
}
assert.equal(output, 'ping\n');
assert.equal(exited.code, 0);
did('exec', bothWays ? 'both ways at once' : 'one way, then the other');

await host.destroySession({ sessionId });
assert.equal((await refusal(host.getSession({ sessionId }))).code, Code.NotFound);
did('destroy', 'gone');
// Connections are kept for the next call, and would keep the program.
process.exit(0);
