// Notes where `expect` is called; vitest keeps what it counts of that in a map, under a symbol.
import { createRequire } from 'node:module'

const { note, tell } = createRequire(import.meta.url)('./assertion_notes.cjs')
const states = globalThis[Symbol.for('matchers-object')]
const path = globalThis.__vitest_worker__?.filepath

if (path && states instanceof WeakMap && !Object.hasOwn(states, 'set')) {
  const { set } = WeakMap.prototype
  const counts = new WeakMap()
  states.set = (expect, state) => {
    set.call(states, expect, state)
    const count = state?.assertionCalls ?? 0
    const isCalled = count > (counts.get(expect) ?? 0)
    counts.set(expect, count)
    if (isCalled) note(globalThis.__vitest_worker__?.filepath ?? path)
    return states
  }
}
if (path && states instanceof WeakMap) tell({ kind: 'watched', id: path })
