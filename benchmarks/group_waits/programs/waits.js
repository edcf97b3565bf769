// What the drivers for Node.js have in common; drivers.py says what they read and print.

'use strict'

const readline = require('node:readline')

const STALL_MS = 5_000
const REASSIGNED_MS = 10_000

const now = () => performance.now()
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function until(condition, ms) {
  for (const deadline = now() + ms; now() < deadline; await sleep(1)) if (condition()) return true
  return condition()
}

async function phase(request, members, open) {
  const began = now()
  const [closes, errors] = [[], []]
  let [recordAt, hasCommitted] = [0, false]
  const seen = (step) => {
    recordAt ||= now()
    hasCommitted ||= step === 'committed'
  }
  let group = await Promise.all(Array.from({ length: members }, () => open(request, seen)))
  console.log('{"subscribed": true}')
  await until(() => hasCommitted, STALL_MS)
  const partitions = request.topics.length * request.partitions
  const settle = (of) => until(() => {
    const counts = of.map((member) => member.count())
    return counts.every((count) => count > 0) && counts.reduce((sum, count) => sum + count, 0) === partitions
  }, REASSIGNED_MS)
  const close = async (member) => {
    const closing = now()
    await member.close().catch((error) => errors.push(String(error)))
    closes.push(now() - closing)
  }
  let [isSettled, leave] = [true, null]
  const closing = []
  if (members > 1) {
    isSettled = await settle(group)
    const left = now()
    closing.push(close(group.pop()))
    if (isSettled && (await settle(group))) leave = now() - left
  }
  closing.push(...group.map(close))
  await Promise.race([Promise.all(closing), sleep(REASSIGNED_MS)])
  const record = recordAt ? recordAt - began : null
  return { record_ms: record, leave_ms: leave, is_settled: isSettled, closes_ms: closes, error: errors.join('; ') }
}

exports.serve = async (open) => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line)
    const first = await phase(request, request.members, open)
    console.log(JSON.stringify({ first, second: await phase(request, 1, open) }))
  }
  process.exit(0)
}
