// The command line of E2B: a template from a Dockerfile, and a sandbox of it through its life.

import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { check, checkEqual, packages } from '../checks.mjs'

const require = packages()
const { Sandbox } = require('e2b')
const program = path.join(process.argv[2], '.bin', 'e2b')
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b-cli-'))
process.on('exit', () => fs.rmSync(home, { recursive: true }))

const DOCKERFILE = `FROM e2bdev/base
ENV COLOUR=blue
WORKDIR /app
COPY hello.txt /app/hello.txt
RUN echo "$COLOUR" > colour.txt && cat hello.txt >> colour.txt
CMD ["sleep", "infinity"]
`

// Not in one step: the connection of the SDK in this process has to answer the host meanwhile.
function e2b(...args) {
  const env = { ...process.env, HOME: home, NO_UPDATE_NOTIFIER: '1', NO_COLOR: '1' }
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [program, ...args], { env, cwd: home }, (error, stdout, stderr) => {
      resolve({ status: error ? error.code : 0, stdout, said: `${stdout}${stderr}` })
    })
    child.stdin.end()
  })
}

async function succeed(what, args, ...wanted) {
  const ran = await e2b(...args)
  check(what, ran.status === 0 && wanted.every((text) => ran.said.includes(text)), ran)
  return ran
}

fs.writeFileSync(path.join(home, 'e2b.Dockerfile'), DOCKERFILE)
fs.writeFileSync(path.join(home, 'hello.txt'), 'hello\n')
// Without a readiness command, the SDK waits for 20 seconds in every sandbox of the template.
const create = ['template', 'create', 'from-dockerfile', '--path', home, '--ready-cmd', 'pgrep -x sleep']
await succeed('a template is built from a Dockerfile', create, 'from-dockerfile')
await succeed('templates are listed', ['template', 'list'], 'from-dockerfile')

const sandbox = await Sandbox.create('from-dockerfile', { metadata: { by: 'cli' } })
const id = sandbox.sandboxId
await succeed('sandboxes are listed', ['sandbox', 'list'], id)
await succeed('a sandbox is described', ['sandbox', 'info', id], id, 'from-dockerfile')
const ran = await succeed('a command runs in it', ['sandbox', 'exec', id, 'cat /app/colour.txt; whoami'], 'user')
checkEqual('what the Dockerfile made is in it', ran.stdout.split('\n').slice(0, 2), ['blue', 'hello'])
await succeed('its program runs in it', ['sandbox', 'exec', id, 'pgrep -x sleep'])
checkEqual('the exit code of a command is that of the program', (await e2b('sandbox', 'exec', id, 'exit 3')).status, 3)
await succeed('it is paused', ['sandbox', 'pause', id])
checkEqual('a paused sandbox is listed as one', (await Sandbox.getInfo(id)).state, 'paused')
await succeed('it is resumed', ['sandbox', 'resume', id])
checkEqual('a resumed sandbox runs', (await Sandbox.getInfo(id)).state, 'running')
await succeed('its metrics are shown', ['sandbox', 'metrics', id], 'CPU')
await succeed('its logs are shown', ['sandbox', 'logs', id])
await succeed('a snapshot is taken', ['sandbox', 'snapshot', 'create', id])
await succeed('it is killed', ['sandbox', 'kill', id])
checkEqual('a killed sandbox is gone', (await Sandbox.list().nextItems()).length, 0)
await succeed('a template is deleted', ['template', 'delete', 'from-dockerfile', '--yes'])
check('a deleted template is gone', !(await e2b('template', 'list')).said.includes('from-dockerfile'))
