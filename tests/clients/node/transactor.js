// Transactions through kafkajs; transactors.py says what it reads and prints.

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
const producer = kafka.producer({
  transactionalId: config.transactional_id,
  transactionTimeout: config.transaction_timeout_ms,
  idempotent: true,
  maxInFlightRequests: 1,
})
let transaction = null
let copying = null // the consumer of a copy, and the offsets that it has come to

/** Consume until `isDone` says so of a message; the consumer stays in its group. */
async function consume(consumer, topic, isDone) {
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (isDone(partition, message)) resolve()
      },
    })
  })
}

const verbs = {
  async begin() {
    transaction = await producer.transaction()
  },

  async produce({ topic, partition, values }) {
    await transaction.send({ topic, messages: values.map((value) => ({ partition, value })) })
  },

  async commit() {
    await transaction.commit()
  },

  async abort() {
    await transaction.abort()
  },

  async read({ topic, isolation, until }) {
    const consumer = kafka.consumer({
      groupId: `${config.client_id}-${isolation}-${process.pid}`,
      readUncommitted: isolation === 'read_uncommitted',
      maxWaitTimeInMs: 250,
    })
    const values = []
    let found = false
    await consume(consumer, topic, (partition, message) => {
      if (!found) values.push(message.value.toString())
      found ||= message.value.toString() === until
      return found
    })
    await consumer.disconnect()
    return { values }
  },

  async copy({ group, source, target, count }) {
    const consumer = kafka.consumer({
      groupId: group,
      sessionTimeout: config.session_timeout_ms,
      heartbeatInterval: 100,
      maxWaitTimeInMs: 100,
    })
    const values = []
    const next = {}
    await consume(consumer, source, (partition, message) => {
      values.push(message.value.toString())
      next[partition] = String(Number(message.offset) + 1)
      return values.length === count
    })
    copying = { consumer, group, source, next }
    transaction = await producer.transaction()
    await transaction.send({ topic: target, messages: values.map((value) => ({ value })) })
    return { values }
  },

  async end_copy({ commit }) {
    const { consumer, group, source, next } = copying
    const partitions = Object.entries(next).map(([partition, offset]) => ({ partition: Number(partition), offset }))
    try {
      await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic: source, partitions }] })
      await (commit ? transaction.commit() : transaction.abort())
    } finally {
      await consumer.disconnect()
    }
    return { committed: commit }
  },
}

async function main() {
  await producer.connect()
  emit('done', { error: null })
  const handle = async (command) => {
    try {
      emit('done', { error: null, ...(await verbs[command.do](command)) })
    } catch (error) {
      emit('done', { error: String(error) })
    }
  }
  await commands(handle, async () => {})
  process.exit(0)
}

main().catch((error) => {
  emit('error', { text: String(error) })
  process.exit(1)
})
