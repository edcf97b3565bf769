// Applications on kafkajs. Each has one bug, which `--fixed` removes.

'use strict'

const { parseArgs } = require('node:util')
const { Kafka, logLevel } = require('kafkajs')

const text = { type: 'string' }
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { bootstrap: text, in: text, out: text, group: text, fixed: { type: 'boolean', default: false } },
})
const { fixed, out: topic } = values

const kafka = new Kafka({
  brokers: [values.bootstrap],
  logLevel: logLevel.ERROR,
  requestTimeout: 3000,
  retry: { initialRetryTime: 20, maxRetryTime: 200, retries: 20 },
})
const consumer = kafka.consumer({
  groupId: values.group,
  sessionTimeout: 6000,
  heartbeatInterval: 200,
  maxWaitTimeInMs: 100,
})

const sends = (retries) => kafka.producer({ retry: { initialRetryTime: 20, maxRetryTime: 200, retries } })
const next = ({ offset }) => String(BigInt(offset) + 1n)
const copy = ({ key, value }) => ({ key, value })

const applications = {
  // Commits before it works: what fails then is not read again. weiboad/kafka-php#187
  commit_before_work: {
    producer: sends(0),
    autoCommit: fixed,
    async eachMessage({ topic: source, partition, message }) {
      if (!fixed) await consumer.commitOffsets([{ topic: source, partition, offset: next(message) }])
      await this.producer.send({ topic, messages: [copy(message)] })
    },
  },

  // Nobody waits for what it sends, so nobody learns of a failure. spring-attic/spring-integration-kafka#62
  send_not_awaited: {
    producer: sends(0),
    async eachMessage({ message }) {
      const sent = this.producer.send({ topic, messages: [copy(message)] })
      if (fixed) await sent
      else sent.catch((error) => console.error('not sent:', error.message))
    },
  },

  // Sends each record of a batch by itself and all of them together: a retry comes after the others. zendesk/maxwell#609
  parallel_sends: {
    producer: sends(20),
    async eachBatch({ batch, resolveOffset, heartbeat }) {
      const send = (messages) => this.producer.send({ topic, messages: messages.map(copy) })
      if (fixed) await send(batch.messages)
      else await Promise.all(batch.messages.map((message) => send([message])))
      resolveOffset(batch.lastOffset())
      await heartbeat()
    },
  },

  // A failure is logged, and the position goes on. oleksiyk/kafka#59
  swallowed_error: {
    producer: sends(0),
    async eachMessage({ message }) {
      try {
        await this.producer.send({ topic, messages: [copy(message)] })
      } catch (error) {
        console.error('not sent:', error.message)
        if (fixed) throw error
      }
    },
  },

  // Offsets of records that wait in the buffer are committed: they are lost when it ends. odpi/egeria#863
  buffer_behind_commits: {
    producer: sends(20),
    buffer: [],
    async eachBatch({ batch, resolveOffset, commitOffsetsIfNecessary, heartbeat }) {
      for (const message of batch.messages) {
        this.buffer.push(copy(message))
        resolveOffset(message.offset)
      }
      if (fixed) await this.empty()
      else setTimeout(() => this.empty().catch((error) => process.exit(error ? 1 : 0)), 150)
      await commitOffsetsIfNecessary()
      await heartbeat()
    },
    async empty() {
      const messages = this.buffer.splice(0)
      if (messages.length > 0) await this.producer.send({ topic, messages })
    },
  },
}

async function main() {
  const { producer, eachMessage, eachBatch, ...rest } = applications[positionals[0]]
  const self = { producer, ...rest }
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: [values.in], fromBeginning: true })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) process.exit(1)
  })
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    if (rest.empty) await self.empty()
    await producer.disconnect()
    process.exit(0)
  })
  await consumer.run({
    autoCommit: rest.autoCommit ?? true,
    eachMessage: eachMessage?.bind(self),
    eachBatch: eachBatch?.bind(self),
  })
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
