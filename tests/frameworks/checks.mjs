// Checks of the drivers in JavaScript: a line for each, and an exception for the first failure.

import { createRequire } from 'node:module'
import path from 'node:path'

export function check(what, holds, seen) {
  if (!holds) throw new Error(`${what}: saw ${JSON.stringify(seen)}`)
  console.log(`ok: ${what}`)
}

export function checkEqual(what, seen, wanted) {
  check(what, JSON.stringify(seen) === JSON.stringify(wanted), seen)
}

// The packages that setup installed are outside of the tree: their directory is the first argument.
export function packages() {
  return createRequire(path.join(path.resolve(process.argv[2]), 'driver.js'))
}

// Waits until a server in a sandbox answers.
export async function eventually(ask, times = 100) {
  for (let time = 1; ; time++) {
    try {
      return await ask()
    } catch (error) {
      if (time === times) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
