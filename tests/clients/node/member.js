// A member of a consumer group through kafkajs; group_members.py says what it reads and prints.
//
// kafkajs rebalances eagerly only and knows no static members.

'use strict'

const { Kafka, logLevel } = require('kafkajs')
const { commands, emit, logToStderr } = require('./lines')

const config = JSON.parse(process.argv[2])
const kafka = new Kafka({
  brokers: [config.bootstrap],
  clientId: config.client_id,
  logLevel: logLevel.ERROR,
  logCreator: logToStderr,
  retry: { initialRetryTime: 50 },
})
const consumer = kafka.consumer({
  groupId: config.group,
  sessionTimeout: config.session_timeout_ms,
  heartbeatInterval: config.heartbeat_interval_ms,
  // It sends heartbeats between fetches, so an idle fetch may not take longer than their interval.
  maxWaitTimeInMs: Math.min(config.heartbeat_interval_ms, 250),
  rackId: config.rack ?? '',
})
const admin = kafka.admin()
let held = []
let closing = false

function pairs(assignment) {
  return Object.entries(assignment)
    .flatMap(([topic, partitions]) => partitions.map((partition) => [topic, partition]))
    .sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]))
}

function takeAway(event) {
  if (held.length > 0) emit(event, { partitions: held })
  held = []
}

consumer.on(consumer.events.REBALANCING, () => takeAway('revoked'))
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  takeAway('lost') // it says nothing of its own when the broker has forgotten this member
  held = pairs(payload.memberAssignment)
  emit('assigned', { partitions: held })
})
consumer.on(consumer.events.CRASH, ({ payload }) => {
  emit('error', { text: String(payload.error) })
  if (!payload.restart) process.exit(1)
})

async function commit({ offsets }) {
  let error = null
  try {
    await consumer.commitOffsets(
      offsets.map(([topic, partition, offset, metadata]) => ({ topic, partition, offset: String(offset), metadata })),
    )
  } catch (failure) {
    error = String(failure)
  }
  emit('committed', { error })
}

async function committed({ partitions }) {
  const topics = [...new Set(partitions.map(([topic]) => topic))]
  const found = await admin.fetchOffsets({ groupId: config.group, topics })
  const offsets = partitions.map(([topic, partition]) => {
    const of = found.find((each) => each.topic === topic).partitions.find((each) => each.partition === partition)
    const offset = of === undefined ? -1 : Number(of.offset)
    return offset < 0 ? [topic, partition, null, null] : [topic, partition, offset, of.metadata]
  })
  emit('offsets', { offsets })
}

async function close() {
  if (closing) return
  closing = true
  await consumer.disconnect()
  await admin.disconnect()
  emit('closed')
  process.exit(0)
}

async function main() {
  await consumer.connect()
  await admin.connect()
  await consumer.subscribe({ topics: config.topics, fromBeginning: true })
  emit('ready')
  await consumer.run({
    autoCommit: config.auto_commit,
    autoCommitInterval: config.auto_commit_interval_ms,
    eachMessage: async ({ topic, partition, message }) => {
      const value = message.value === null ? null : message.value.toString()
      emit('record', { topic, partition, offset: Number(message.offset), value })
    },
  })
  await commands(async (command) => {
    if (command.do === 'commit') await commit(command)
    else if (command.do === 'offsets') await committed(command)
    else if (command.do === 'close') await close()
    else throw new Error(`no such command: ${command.do}`)
  }, close)
}

main().catch((error) => {
  emit('error', { text: String(error) })
  process.exit(1)
})
