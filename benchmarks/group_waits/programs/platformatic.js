// The driver of @platformatic/kafka; its argument is the group protocol. drivers.py says what it reads and prints.

'use strict'

const { Consumer } = require('@platformatic/kafka')
const { serve } = require('./waits.js')

serve(async (request, seen) => {
  const consumer = new Consumer({
    clientId: 'waits',
    bootstrapBrokers: [request.bootstrap],
    groupId: request.group,
    groupProtocol: process.argv[2],
    autocommit: false,
  })
  const stream = await consumer.consume({ topics: request.topics, mode: 'committed', fallbackMode: 'earliest' })
  stream.on('error', () => undefined)
  stream.on('data', async (message) => {
    seen()
    await message.commit().then(() => seen('committed'), () => undefined)
  })
  return {
    count: () => consumer.assignments?.flatMap((assignment) => assignment.partitions).length ?? 0,
    close: () => consumer.close(true),
  }
})
