// The driver of kafkajs; drivers.py says what it reads and prints. It has no polls: it calls a handler.

'use strict'

const { Kafka, logLevel } = require('kafkajs')
const { serve } = require('./waits.js')

serve(async (request, seen) => {
  const kafka = new Kafka({ brokers: [request.bootstrap], logLevel: logLevel.NOTHING })
  const consumer = kafka.consumer({ groupId: request.group })
  let count = 0
  consumer.on(consumer.events.REBALANCING, () => { count = 0 })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { count = Object.values(payload.memberAssignment).flat().length })
  await consumer.connect()
  await consumer.subscribe({ topics: request.topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      seen()
      await consumer.commitOffsets([{ topic, partition, offset: `${Number(message.offset) + 1}` }])
      seen('committed')
    },
  })
  return { count: () => count, close: () => consumer.disconnect() }
})
