// Mastra: an agent with a workspace in an E2B sandbox, and the sandbox alone: processes, pause and
// resume, a custom template.

import { check, checkEqual, eventually, packages } from '../checks.mjs'

const require = packages()
const { Agent } = require('@mastra/core/agent')
const { Workspace } = require('@mastra/core/workspace')
const { E2BSandbox } = require('@mastra/e2b')
const { Template } = require('e2b')

// A model that runs the commands one after the other, and records their results.
function scriptedModel(commands) {
  const results = []
  const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
  const next = (prompt) => {
    const last = prompt.at(-1)
    if (last.role === 'tool') results.push(JSON.stringify(last.content))
    const command = commands[results.length]
    if (command === undefined) return { content: [{ type: 'text', text: 'done' }], finishReason: 'stop', usage, warnings: [] }
    const call = { toolCallId: `call-${results.length}`, toolName: 'mastra_workspace_execute_command', input: JSON.stringify({ command }) }
    return { content: [{ type: 'tool-call', ...call }], finishReason: 'tool-calls', usage, warnings: [] }
  }
  const stream = ({ content, finishReason }) =>
    new ReadableStream({
      start(controller) {
        controller.enqueue({ type: 'stream-start', warnings: [] })
        for (const part of content) {
          if (part.type === 'tool-call') controller.enqueue(part)
          else {
            controller.enqueue({ type: 'text-start', id: '0' })
            controller.enqueue({ type: 'text-delta', id: '0', delta: part.text })
            controller.enqueue({ type: 'text-end', id: '0' })
          }
        }
        controller.enqueue({ type: 'finish', finishReason, usage })
        controller.close()
      },
    })
  return {
    results,
    model: {
      specificationVersion: 'v2',
      provider: 'scripted',
      modelId: 'scripted',
      supportedUrls: {},
      doGenerate: async ({ prompt }) => next(prompt),
      doStream: async ({ prompt }) => ({ stream: stream(next(prompt)) }),
    },
  }
}

// Its default template installs packages with apt while it is built, from the Internet.
const sandbox = new E2BSandbox({ id: 'mastra-agent', template: 'base', env: { COLOUR: 'blue' }, metadata: { by: 'mastra' } })
const workspace = new Workspace({ sandbox })
await workspace.init()

const { model, results } = scriptedModel(['echo $COLOUR > a.txt; cat a.txt; whoami', 'ls missing; exit 4'])
const agent = new Agent({ id: 'agent', name: 'agent', instructions: 'Run commands.', model, workspace })
const result = await agent.generate('Go.', { maxSteps: 5 })
check('the agent runs commands in the sandbox', results[0].includes('blue') && results[0].includes('user'), results)
check('the agent receives the exit code of a failed command', results[1].includes('4') && results[1].includes('missing'), results)
checkEqual('the agent comes to its end', result.text, 'done')

let ran = await sandbox.executeCommand('cat', ['a.txt'])
checkEqual('the files of the agent are there', [ran.stdout, ran.exitCode, ran.success], ['blue\n', 0, true])
await sandbox.writeFiles([{ path: '/home/user/b.txt', content: 'beta\n' }])
checkEqual('files are written', await sandbox.e2b.files.read('/home/user/b.txt'), 'beta\n')

const counting = await sandbox.processes.spawn('n=0; while true; do n=$((n + 1)); echo $n > n.txt; sleep 0.1; done')
const count = async () => Number((await sandbox.executeCommand('cat', ['n.txt'])).stdout)
const before = await eventually(async () => (await count()) || Promise.reject(new Error('it has not begun')))
// As a workspace does it: `stop` and `destroy` alone leave the state of the object as it was.
await sandbox._stop()
await sandbox.start()
await eventually(async () => ((await count()) > before ? true : Promise.reject(new Error('it does not go on'))))
check('a process goes on after a pause', true)
check('a process is listed', (await sandbox.processes.list()).some((found) => found.pid === counting.pid))
checkEqual('a process is killed', await counting.kill(), true)

const other = new E2BSandbox({ id: 'mastra-agent', template: 'base' })
await other.start()
checkEqual('the sandbox is found again by its name', other.e2b.sandboxId, sandbox.e2b.sandboxId)
await workspace.destroy()

const template = Template().fromTemplate('base').runCmd('echo built > /home/user/built.txt')
const built = new E2BSandbox({ id: 'mastra-built', template })
await built.start()
ran = await built.executeCommand('cat', ['built.txt'])
checkEqual('a template of its own is built and used', ran.stdout, 'built\n')
await built._destroy()
checkEqual('it is destroyed', built.status, 'destroyed')
process.exit(0)
