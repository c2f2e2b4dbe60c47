// Tells, through the pipe beside this file, where assertions are executed, each line once.
// What it calls while tests run, it took before the first one began.
const { appendFileSync } = require('fs')
const { join } = require('path')

const PIPE = join(__dirname, 'pipe')
const FOREIGN = /^node:|[\\/]node_modules[\\/]/
const FRAME = /^\s*at (?:.*\()?(?:file:\/\/)?([^()\n]+?):(\d+):\d+\)?$/gm
const FRAMES = 30
const told = new Set()

function tell(record) {
  try {
    appendFileSync(PIPE, JSON.stringify({ pid: process.pid, ...record }) + '\n')
  } catch {} // nobody who listens is no reason for a test to fail
}

function tellOnce(path, line) {
  if (!told.has(`${path}:${line}`)) {
    told.add(`${path}:${line}`)
    tell({ kind: 'held', id: path, lines: [line] })
  }
}

const isForeign = (name) => !name || name.includes(__dirname) || FOREIGN.test(name)

// Tells the first frame that is neither ours nor that of a package, where the project's own source has it.
function note(fallback) {
  const { prepareStackTrace, stackTraceLimit } = Error
  try {
    Error.stackTraceLimit = FRAMES
    Error.prepareStackTrace = (error, sites) => sites
    const site = new Error().stack.find((one) => !isForeign(one.getFileName()))
    Error.prepareStackTrace = prepareStackTrace
    const place = site && `${site.getFileName()} ${site.getLineNumber()} ${site.getColumnNumber()}`
    if (!place || told.has(place)) return place || tellOnce(fallback, 0)
    told.add(place)
    // What compiled the file has put in what finds the lines of its source.
    const frames = [...new Error().stack.matchAll(FRAME)].filter(([, name]) => !isForeign(name))
    tellOnce(frames.length ? frames[0][1] : fallback, frames.length ? Number(frames[0][2]) : 0)
  } catch {
    tellOnce(fallback, 0)
  } finally {
    Error.prepareStackTrace = prepareStackTrace
    Error.stackTraceLimit = stackTraceLimit
  }
}

module.exports = { note, tell }
