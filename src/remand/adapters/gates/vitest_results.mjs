// A reporter that Remand gives to vitest beside the project's own: it tells results as they happen, through a pipe.
// It changes no setting; to the files that vitest loads before each file of tests it adds one, which notes assertions.
import { appendFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const PIPE = fileURLToPath(new URL('./pipe', import.meta.url))
const ASSERTIONS = fileURLToPath(new URL('./vitest_assertions.mjs', import.meta.url))
const FIRST_VERSION = 3
const MAX_IDS = 100
const MAX_TEXT = 500
const exit = { passed: 'passed', failed: 'failed', skipped: 'skipped' }

function tell(record) {
  try {
    appendFileSync(PIPE, JSON.stringify({ pid: process.pid, ...record }) + '\n')
  } catch {} // nobody who listens is no reason for a run to fail
}

function namesOf(test) {
  const names = []
  for (let one = test; one && one.type !== 'module'; one = one.parent) names.unshift(one.name)
  return names.join(' › ')
}

// What a failed assertion says, without the places that it was called from.
function textOf(error) {
  return error ? `${error.name}: ${error.message}`.slice(0, MAX_TEXT) : ''
}

export default class {
  fits = false
  ids = new Map()
  known = new Set()

  onInit(vitest) {
    this.fits = Number.parseInt(vitest.version, 10) >= FIRST_VERSION
    if (!this.fits) return tell({ kind: 'unfit' })
    for (const project of vitest.projects) {
      if (!project.config.browser?.enabled && Array.isArray(project.config.setupFiles)) {
        project.config.setupFiles.push(ASSERTIONS)
      }
    }
    tell({ kind: 'start' })
  }

  idOf(test) {
    if (!this.ids.has(test.id)) {
      const id = `${test.module.moduleId}::${namesOf(test)}`
      const project = test.project?.name
      let own = project ? `${id} {${project}}` : id
      for (let count = 2; this.known.has(own); count += 1) own = `${id}#${count}`
      this.known.add(own)
      this.ids.set(test.id, own)
    }
    return this.ids.get(test.id)
  }

  onTestModuleCollected(module) {
    if (!this.fits) return
    const ids = [...module.children.allTests()].map((test) => this.idOf(test))
    for (let at = 0; at < ids.length; at += MAX_IDS) tell({ kind: 'collected', ids: ids.slice(at, at + MAX_IDS) })
  }

  onTestCaseResult(test) {
    const result = test.result()
    const outcome = exit[result?.state]
    const text = textOf(result?.errors?.[0])
    if (this.fits && outcome) tell({ kind: 'result', when: 'call', id: this.idOf(test), outcome, text })
  }

  onTestModuleEnd(module) {
    const isEmpty = ![...module.children.allTests()].length
    if (this.fits && isEmpty && module.state() === 'failed') tell({ kind: 'uncollected', id: module.moduleId })
  }

  onTestRunEnd() {
    if (this.fits) tell({ kind: 'end' })
  }
}
