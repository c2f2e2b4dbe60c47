// Notes where a matcher of `expect` is done; jest counts them in a state of its own, under a symbol.
const { note, tell } = require('./assertion_notes.cjs')

const state = globalThis[Symbol.for('$$jest-matchers-object')]?.state
const path = state?.testPath

if (path && typeof state.assertionCalls === 'number') {
  let count = state.assertionCalls
  Object.defineProperty(state, 'assertionCalls', {
    configurable: true,
    enumerable: true,
    get: () => count,
    set: (value) => {
      const isCalled = value > count
      count = value
      if (isCalled) note(path)
    },
  })
  tell({ kind: 'watched', id: path })
}
