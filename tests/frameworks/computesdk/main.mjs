// ComputeSDK: its E2B provider through `compute`: commands, files, ports, snapshots.

import { check, checkEqual, eventually, packages } from '../checks.mjs'

const require = packages()
const { e2b } = require('@computesdk/e2b')
const { compute } = require('computesdk')

compute.setConfig({ provider: e2b({ apiKey: process.env.E2B_API_KEY }) })
const sandbox = await compute.sandbox.create({ metadata: { by: 'computesdk' }, envs: { COLOUR: 'blue' } })
const info = await sandbox.getInfo()
checkEqual('a sandbox is made', [info.provider, info.status], ['e2b', 'running'])

let ran = await sandbox.runCommand("python3 - <<'PY'\nimport os\nprint(6 * 7, os.environ['COLOUR'])\nPY")
checkEqual('a program from standard input runs', [ran.stdout, ran.exitCode], ['42 blue\n', 0])
ran = await sandbox.runCommand('echo out; echo err >&2; exit 3')
checkEqual('a failure has its output and code', [ran.stdout, ran.stderr, ran.exitCode], ['out\n', 'err\n', 3])
ran = await sandbox.runCommand('echo "$GREETING from $(pwd)"', { cwd: '/tmp', env: { GREETING: 'hello' } })
checkEqual('a command has a directory', ran.stdout.trim().endsWith('from /tmp'), true)

const files = sandbox.filesystem
await files.mkdir('/home/user/data')
await files.writeFile('/home/user/data/a.txt', 'alpha\n')
checkEqual('a file is read', await files.readFile('/home/user/data/a.txt'), 'alpha\n')
checkEqual('a directory is listed', (await files.readdir('/home/user/data')).map((file) => [file.name, file.size]), [['a.txt', 6]])
checkEqual('commands see the file', (await sandbox.runCommand('cat data/a.txt')).stdout, 'alpha\n')

await sandbox.runCommand('python3 -m http.server 8000 --directory /home/user/data', { background: true })
const url = await sandbox.getUrl({ port: 8000 })
const answer = await eventually(async () => {
  const answer = await fetch(`${url}/a.txt`)
  if (!answer.ok) throw new Error(`${answer.status}`)
  return answer.text()
})
checkEqual('a server in the sandbox is reached', answer, 'alpha\n')

const snapshot = await compute.snapshot.create(sandbox.sandboxId)
await files.remove('/home/user/data/a.txt')
checkEqual('a file is removed', await files.exists('/home/user/data/a.txt'), false)
const again = await compute.sandbox.create({ snapshotId: snapshot.id })
checkEqual('a sandbox is made from a snapshot', await again.filesystem.readFile('/home/user/data/a.txt'), 'alpha\n')

const found = await compute.sandbox.getById(sandbox.sandboxId)
checkEqual('a sandbox is found by its id', (await found.runCommand('ls data')).stdout, '')
const listed = (await compute.sandbox.list()).map((sandbox) => sandbox.sandboxId)
check('sandboxes are listed', [sandbox, again].every((made) => listed.includes(made.sandboxId)), listed)

await again.destroy()
await sandbox.destroy()
checkEqual('no sandbox is left', (await compute.sandbox.list()).length, 0)
