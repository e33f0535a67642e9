// Cases of E2B SDK use in JavaScript. A case with two parameters gets a new sandbox.

import assert from 'node:assert/strict'

export const CASES = []

function does(name, body, since = 7) {
  CASES.push({ name, body, since })
}

async function until(condition, what, seconds = 15) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    const value = await condition()
    if (value) return value
    assert.ok(Date.now() < end, `never: ${what}`)
    await new Promise((done) => setTimeout(done, 50))
  }
}

const pause = (sandbox) => (sandbox.pause ?? sandbox.betaPause).call(sandbox)

does('a new sandbox runs, and a killed one does not', async ({ e2b }, sandbox) => {
  assert.equal(await sandbox.isRunning(), true)
  // SDKs up to 2.10 return undefined.
  assert.notEqual(await sandbox.kill(), false)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await e2b.Sandbox.kill(sandbox.sandboxId), false)
})

does('metadata is returned, and finds the sandbox', async (world) => {
  const metadata = { mark: world.mark, odd: 'a b&c=é' }
  const sandbox = await world.create({ metadata })
  assert.deepEqual((await sandbox.getInfo()).metadata, metadata)
  const found = await world.e2b.Sandbox.list({ query: { metadata } }).nextItems()
  assert.deepEqual(found.map((one) => one.sandboxId), [sandbox.sandboxId])
})

does('a list is paged', async (world) => {
  for (let made = 0; made < 3; made++) await world.create({ metadata: { mark: world.mark } })
  const paginator = world.e2b.Sandbox.list({ query: { metadata: { mark: world.mark } }, limit: 2 })
  const sizes = []
  while (paginator.hasNext) sizes.push((await paginator.nextItems()).length)
  assert.deepEqual(sizes, [2, 1])
})

does('another client connects by id', async ({ e2b }, sandbox) => {
  await sandbox.files.write('a.txt', 'from one')
  const other = await e2b.Sandbox.connect(sandbox.sandboxId)
  assert.equal(await other.files.read('a.txt'), 'from one')
})

does('connecting to an unknown sandbox is an error', async ({ e2b }) => {
  await assert.rejects(e2b.Sandbox.connect('nosuchsandbox'), /not found/i)
})

does('a wrong key is an authentication error', async ({ e2b }) => {
  await assert.rejects(e2b.Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), e2b.AuthenticationError)
})

does('a timeout is changed', async (_, sandbox) => {
  await sandbox.setTimeout(3_000_000)
  const left = new Date((await sandbox.getInfo()).endAt) - Date.now()
  assert.ok(left > 2_900_000 && left < 3_010_000, `${left}`)
})

does('a sandbox ends when its timeout expires', async (world) => {
  const sandbox = await world.create({ timeoutMs: 2_000 })
  await until(async () => !(await sandbox.isRunning()), 'it ends', 20)
})

does('files survive a pause', async ({ e2b }, sandbox) => {
  await sandbox.files.write('kept.txt', 'kept')
  await pause(sandbox)
  assert.equal(await sandbox.isRunning(), false)
  const again = await e2b.Sandbox.connect(sandbox.sandboxId)
  assert.equal(await again.files.read('kept.txt'), 'kept')
})

does('a command says hello', async (_, sandbox) => {
  const result = await sandbox.commands.run('echo hello; echo there >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['hello\n', 'there\n', 0])
})

does('a command that fails raises its code', async ({ e2b }, sandbox) => {
  await assert.rejects(sandbox.commands.run('echo bad >&2; exit 3'), (error) => {
    assert.ok(error instanceof e2b.CommandExitError)
    assert.deepEqual([error.exitCode, error.stderr], [3, 'bad\n'])
    return true
  })
})

does('output arrives while the command runs', async (_, sandbox) => {
  const received = []
  await sandbox.commands.run('echo one; sleep 0.3; echo two', { onStdout: (text) => void received.push(text.trim()) })
  assert.deepEqual(received, ['one', 'two'])
})

does('a million bytes of output arrive complete', async (_, sandbox) => {
  const { stdout } = await sandbox.commands.run("head -c 1000000 /dev/zero | tr '\\0' x")
  assert.equal(stdout, 'x'.repeat(1_000_000))
})

does('a command that takes too long times out', async ({ e2b }, sandbox) => {
  await assert.rejects(sandbox.commands.run('sleep 30', { timeoutMs: 1_000 }), e2b.TimeoutError)
})

does('a missing directory is an argument error', async ({ e2b }, sandbox) => {
  await assert.rejects(sandbox.commands.run('pwd', { cwd: '/nowhere' }), e2b.InvalidArgumentError)
})

does('commands run as user, or as root', async (_, sandbox) => {
  assert.equal((await sandbox.commands.run('whoami')).stdout, 'user\n')
  assert.equal((await sandbox.commands.run('whoami', { user: 'root' })).stdout, 'root\n')
})

does('commands have variables of the sandbox and of the call', async (world) => {
  const sandbox = await world.create({ envs: { A: 'sandbox', B: 'kept' } })
  assert.equal((await sandbox.commands.run('echo $A $B', { envs: { A: 'call' } })).stdout, 'call kept\n')
})

does('output arrives after reconnecting to a background command', async (_, sandbox) => {
  const handle = await sandbox.commands.run('sleep 1; echo late', { background: true })
  await handle.disconnect()
  const again = await sandbox.commands.connect(handle.pid)
  assert.equal((await again.wait()).stdout, 'late\n')
})

does('running commands are listed and killed', async (_, sandbox) => {
  const handle = await sandbox.commands.run('sleep 60', { background: true })
  assert.ok((await sandbox.commands.list()).some((one) => one.pid === handle.pid))
  assert.equal(await sandbox.commands.kill(handle.pid), true)
  assert.equal(await sandbox.commands.kill(999_999), false)
})

does('input is read', async (_, sandbox) => {
  const handle = await sandbox.commands.run('read line; echo got $line', { background: true, stdin: true })
  await sandbox.commands.sendStdin(handle.pid, 'hello\n')
  assert.equal((await handle.wait()).stdout, 'got hello\n')
})

does('a terminal reads input, and is resized', async (_, sandbox) => {
  let received = ''
  const decoder = new TextDecoder()
  const handle = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => void (received += decoder.decode(data)) })
  await sandbox.pty.resize(handle.pid, { cols: 100, rows: 40 })
  await sandbox.pty.sendInput(handle.pid, new TextEncoder().encode('stty size\nexit\n'))
  await handle.wait()
  assert.match(received, /40 100/)
})

does('a file is written, described, renamed and removed', async ({ e2b }, sandbox) => {
  const info = await sandbox.files.write('dir/note.txt', 'hello')
  assert.equal(info.path, '/home/user/dir/note.txt')
  assert.equal((await sandbox.files.getInfo('dir/note.txt')).size, 5)
  await sandbox.files.rename('dir/note.txt', 'moved.txt')
  assert.equal(await sandbox.files.exists('dir/note.txt'), false)
  assert.deepEqual((await sandbox.files.list('.')).filter((one) => one.name === 'moved.txt').length, 1)
  await sandbox.files.remove('moved.txt')
  await assert.rejects(sandbox.files.read('moved.txt'), e2b.NotFoundError)
})

does('bytes are read as written', async (_, sandbox) => {
  const data = new Uint8Array(100_000).map((_, index) => index % 256)
  await sandbox.files.write('bytes', data.buffer)
  assert.deepEqual(new Uint8Array(await sandbox.files.read('bytes', { format: 'bytes' })), data)
})

does('several files are written at once', async (_, sandbox) => {
  const write = (sandbox.files.writeFiles ?? sandbox.files.write).bind(sandbox.files)
  const infos = await write([{ path: 'many/1', data: 'one' }, { path: 'many/2', data: 'two' }])
  assert.deepEqual(infos.map((info) => info.name), ['1', '2'])
  assert.equal(await sandbox.files.read('many/2'), 'two')
})

does('a new file is reported', async ({ e2b }, sandbox) => {
  await sandbox.files.makeDir('watched')
  const events = []
  const watcher = await sandbox.files.watchDir('watched', (event) => void events.push(event))
  await sandbox.files.write('watched/new.txt', 'x')
  await until(
    () => events.some((event) => event.name === 'new.txt' && event.type === e2b.FilesystemEventType.CREATE),
    'the file is reported',
  )
  await watcher.stop()
})

does('watching a missing directory is not found', async ({ e2b }, sandbox) => {
  await assert.rejects(sandbox.files.watchDir('nowhere', () => undefined), e2b.NotFoundError)
})

does('a file is downloaded by signed URL', async (_, sandbox) => {
  await sandbox.files.write('shared.txt', 'shared')
  assert.equal(await (await fetch(await sandbox.downloadUrl('shared.txt'))).text(), 'shared')
})

does('a snapshot is a template', async (world, sandbox) => {
  await sandbox.files.write('state.txt', 'then')
  const { snapshotId } = await sandbox.createSnapshot()
  await sandbox.files.write('state.txt', 'now')
  const copy = await world.create(snapshotId)
  assert.equal(await copy.files.read('state.txt'), 'then')
}, 14)

does('a sandbox killed during a command is an error', async ({ e2b }, sandbox) => {
  setTimeout(() => void e2b.Sandbox.kill(sandbox.sandboxId), 1_000)
  await assert.rejects(sandbox.commands.run('sleep 60', { timeoutMs: 0 }), e2b.SandboxError)
})

does('a hundred commands run at once', async (_, sandbox) => {
  const results = await Promise.all(Array.from({ length: 100 }, (_, number) => sandbox.commands.run(`echo ${number}`)))
  assert.deepEqual(results.map((result) => result.stdout), Array.from({ length: 100 }, (_, number) => `${number}\n`))
})

does('code keeps its variables, and returns results and errors', async (world) => {
  const sandbox = world.keep(await world.interpreter.Sandbox.create())
  await sandbox.runCode('x = 40')
  assert.equal((await sandbox.runCode('x + 2')).text, '42')
  const { error } = await sandbox.runCode('1 / 0')
  assert.equal(error.name, 'ZeroDivisionError')
  await sandbox.runCode('const a = 40', { language: 'javascript' })
  assert.equal((await sandbox.runCode('a + 2', { language: 'javascript' })).text, '42')
})

does('R and Java are run where the sandbox has them', async (world) => {
  const sandbox = world.keep(await world.interpreter.Sandbox.create())
  const languages = [
    ['r', 'R', 'x <- 20', '[1] 42'],
    ['java', 'javac', 'int x = 20;', '42'],
  ]
  for (const [language, program, first, text] of languages) {
    if (!(await sandbox.commands.run(`command -v ${program} || true`)).stdout) continue
    await sandbox.runCode(first, { language })
    assert.equal((await sandbox.runCode('x + 22', { language })).text, text)
  }
})
