// A reporter that Remand gives to jest beside the project's own: it tells results as they happen, through a pipe.
// It changes no setting; to the files that jest loads before each file of tests it adds one, which notes assertions.
const { appendFileSync } = require('fs')
const { join } = require('path')

const PIPE = join(__dirname, 'pipe')
const ASSERTIONS = join(__dirname, 'jest_assertions.cjs')
const MAX_TEXT = 500
const COLOURS = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g')
const OUTCOMES = { passed: 'passed', failed: 'failed', pending: 'skipped', todo: 'skipped', skipped: 'skipped', disabled: 'skipped' }

function tell(record) {
  try {
    appendFileSync(PIPE, JSON.stringify({ pid: process.pid, ...record }) + '\n')
  } catch {} // nobody who listens is no reason for a run to fail
}

// What a failed assertion says, without the places that it was called from.
function textOf(messages) {
  const text = String(messages?.[0] ?? '').replace(COLOURS, '')
  return text.split(/\n\s+at /)[0].slice(0, MAX_TEXT)
}

module.exports = class {
  told = new Map()

  onRunStart() {
    tell({ kind: 'start' })
  }

  onTestStart(test) {
    const { config } = test.context
    if (Array.isArray(config.setupFilesAfterEnv) && !config.setupFilesAfterEnv.includes(ASSERTIONS)) {
      test.context.config = { ...config, setupFilesAfterEnv: [...config.setupFilesAfterEnv, ASSERTIONS] }
    }
  }

  onTestFileStart(test) {
    this.onTestStart(test)
  }

  onTestCaseResult(test, result) {
    const outcome = OUTCOMES[result.status]
    const name = `${test.path}::${[...result.ancestorTitles, result.title].join(' › ')}`
    const count = (this.told.get(name) ?? 0) + 1
    const isAgain = result.invocations > 1
    // Several tests may have one name; one that is run again is told again, with the number of its runs.
    if (!isAgain) this.told.set(name, count)
    const id = count > 1 && !isAgain ? `${name}#${count}` : name
    if (isAgain) tell({ kind: 'retry', id })
    if (outcome) tell({ kind: 'result', when: 'call', id, outcome, text: textOf(result.failureMessages) })
  }

  onRunComplete(contexts, results) {
    // The older of its two engines tells of no test by itself.
    if (!this.told.size && results.numPassedTests + results.numFailedTests) tell({ kind: 'unfit' })
    tell({ kind: 'end' })
  }
}
