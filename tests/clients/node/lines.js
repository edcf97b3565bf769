// How a program talks to the test that has started it: one JSON object a line, events out and commands in.

'use strict'

const readline = require('node:readline')

/** Print one event. Writes to a pipe are synchronous, so nothing is lost when the process ends. */
function emit(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n')
}

/** Call `handle` with each command, one after the other; then, at the end of the input, `end`. */
async function commands(handle, end) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await handle(JSON.parse(line))
  }
  await end()
}

/** A logger for kafkajs: stdout belongs to the events. */
function logToStderr() {
  return ({ namespace, log }) => process.stderr.write(`${namespace}: ${log.message} ${log.error || ''}\n`)
}

module.exports = { commands, emit, logToStderr }
