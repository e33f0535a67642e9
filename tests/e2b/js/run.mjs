// Drives a host with the unmodified `e2b` SDK for JavaScript.
//
// Usage: node run.mjs MODULES [WORD]: the directory that the SDK is installed in, and a word to
// select cases by name. The SDK finds the host by its own variables, as in any program. Prints one
// line a case, `PASS NAME`, `FAIL NAME` or `SKIP NAME (REASON)`, then a line with the counts. Fails
// when a case fails, or when none ran. `SANDBAR_SDK_REPORT` names a file to append a line with the
// counts to, for scripts/sdk-table.py.

import { appendFile, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [modules, word = ''] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'package.json'))
const load = async (name) => import(pathToFileURL(require.resolve(name)).href)
const e2b = await load('e2b')
const interpreter = await load('@e2b/code-interpreter')
const { version } = JSON.parse(await readFile(path.join(modules, 'e2b', 'package.json'), 'utf8'))
const [major, minor] = version.split('.').map(Number)

const { CASES } = await import('./cases.mjs')
const TIMEOUT = 120_000

async function attempt(one) {
  const made = []
  const world = {
    e2b,
    interpreter,
    mark: crypto.randomUUID().replaceAll('-', ''),
    keep: (sandbox) => (made.push(sandbox), sandbox),
    create: async (...options) => world.keep(await e2b.Sandbox.create(...options)),
  }
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${TIMEOUT / 1000} s`)), TIMEOUT)
  })
  try {
    const sandbox = one.body.length > 1 ? await world.create({ timeoutMs: 120_000 }) : undefined
    await Promise.race([one.body(world, sandbox), late])
  } finally {
    clearTimeout(timer)
    for (const sandbox of made) await sandbox.kill().catch(() => undefined)
  }
}

let [passed, failed, skipped] = [0, 0, 0]
for (const one of CASES.filter((one) => one.name.includes(word))) {
  if (major < 2 || (major === 2 && minor < one.since)) {
    skipped += 1
    console.log(`SKIP ${one.name} (since 2.${one.since}: the SDK does not have it before)`)
    continue
  }
  try {
    await attempt(one)
    passed += 1
    console.log(`PASS ${one.name}`)
  } catch (error) {
    failed += 1
    console.log(`FAIL ${one.name}`)
    console.log(error)
  }
}
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`)
const report = process.env.SANDBAR_SDK_REPORT
if (report && !word) {
  const mode = process.env.E2B_DOMAIN ? 'domain' : 'plain'
  await appendFile(report, ['javascript', version, mode, 'async', passed, failed, skipped].join('\t') + '\n')
}
process.exit(failed || !passed ? 1 : 0)
