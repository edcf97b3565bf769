// What kafkajs can do with a broker. The argument behind the prefix may name an elderly version.

"use strict";

const {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  CompressionCodecs,
  CompressionTypes,
  ConfigResourceTypes,
  Kafka,
  ResourcePatternTypes,
  ResourceTypes,
  logLevel,
} = require(process.argv[4] ?? "kafkajs");
const { SESSION_MS, bootstrap, eventually, prefix, run, that } = require("./checks.js");

const kafka = new Kafka({ clientId: "matrix", brokers: [bootstrap], logLevel: logLevel.NOTHING });
const { TOPIC } = ConfigResourceTypes ?? ResourceTypes;
const GROUP_TIMES = { sessionTimeout: SESSION_MS, heartbeatInterval: 300, rebalanceTimeout: SESSION_MS, maxWaitTimeInMs: 200 };

async function withAdmin(call) {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await call(admin);
  } finally {
    await admin.disconnect();
  }
}

async function newTopic(topic, numPartitions = 1) {
  await withAdmin((admin) => admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions }] }));
  return topic;
}

async function send(topic, messages, { acks = -1, compression = CompressionTypes.None, ...options } = {}) {
  const producer = kafka.producer(options);
  await producer.connect();
  try {
    return await producer.send({ topic, acks, compression, messages: messages.map((each) => ({ partition: 0, ...each })) });
  } finally {
    await producer.disconnect();
  }
}

const plain = (...values) => values.map((value) => ({ value }));

// A consumer of a group; it hands on what it reads, and what the group assigns to it.
class Reader {
  constructor(groupId, options = {}) {
    this.records = [];
    this.partitions = 0;
    this.consumer = kafka.consumer({ groupId, ...GROUP_TIMES, ...options });
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.partitions = Object.values(payload.memberAssignment).flat().length;
    });
  }

  async start(topic, { fromBeginning = true, each = () => undefined, autoCommit = false } = {}) {
    await this.consumer.connect();
    await this.consumer.subscribe({ topic, fromBeginning });
    await this.consumer.run({
      autoCommit,
      eachMessage: async ({ message }) => {
        this.records.push(message);
        await each(message);
      },
    });
    return this;
  }

  async take(count) {
    await eventually(() => this.records.length >= count);
    return this.records.slice(0, count);
  }

  stop() {
    return this.consumer.disconnect();
  }
}

async function read(topic, count, options = {}) {
  const reader = await new Reader(`${topic}-reader-${Math.random()}`, options).start(topic);
  try {
    return await reader.take(count);
  } finally {
    await reader.stop();
  }
}

const values = (records) => records.map((each) => (each.value === null ? null : each.value.toString()));
const same = (found, wanted) => that(JSON.stringify(found) === JSON.stringify(wanted), found);

function roundTrip(options) {
  return async (topic) => {
    await newTopic(topic);
    const wanted = Array.from({ length: 20 }, (_, number) => `${number}`.repeat(50));
    await send(topic, plain(...wanted), options);
    same(values(await read(topic, 20)), wanted);
  };
}

async function transact(producer, topic, value, end) {
  const transaction = await producer.transaction();
  await transaction.send({ topic, messages: [{ partition: 0, value }] });
  await end(transaction);
}

async function transactional(topic, call) {
  const producer = kafka.producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  try {
    await call(producer);
  } finally {
    await producer.disconnect();
  }
}

async function group(topic) {
  await newTopic(topic);
  await withAdmin((admin) => admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: "1" }] }));
  return topic;
}

const committed = async (groupId, topic) =>
  withAdmin(async (admin) => {
    const found = await admin.fetchOffsets({ groupId, topic, topics: [topic] });
    return (found[0].partitions ?? found)[0].offset; // before 2.0 they are those of one topic
  });

async function retention(topic) {
  const asked = { resources: [{ type: TOPIC, name: topic }], includeSynonyms: false };
  const found = await withAdmin((admin) => admin.describeConfigs(asked));
  return found.resources[0].configEntries.find((entry) => entry.configName === "retention.ms").configValue;
}

const checks = {
  "create-topic": async (topic) => {
    await newTopic(topic, 3);
    const again = await withAdmin((admin) => admin.createTopics({ topics: [{ topic, numPartitions: 3 }] }));
    that(again === false, again);
  },
  produce: roundTrip({}),
  "acks-1": roundTrip({ acks: 1 }),
  "acks-0": roundTrip({ acks: 0 }),
  gzip: roundTrip({ compression: CompressionTypes.GZIP }),
  "big-records": async (topic) => {
    await newTopic(topic);
    const value = "x".repeat(800_000);
    await send(topic, plain(value));
    await send(topic, plain(value));
    same(values(await read(topic, 2)), [value, value]);
  },
  headers: async (topic) => {
    await newTopic(topic);
    const several = ConfigResourceTypes === undefined ? "1" : ["1", "2"]; // elderly versions have one value for a key
    await send(topic, [{ value: "v", headers: { a: several, b: "" } }]);
    const [{ headers }] = await read(topic, 1);
    same([`${headers.a}`, `${headers.b}`], [`${several}`, ""]);
  },
  nulls: async (topic) => {
    await newTopic(topic);
    await send(topic, [{ key: "k", value: null }, { key: "k", value: "" }, { value: "v" }]);
    const found = await read(topic, 3);
    same([values(found), found.map((each) => each.key && each.key.toString())], [[null, "", "v"], ["k", "k", null]]);
  },
  idempotent: roundTrip({ idempotent: true, maxInFlightRequests: 1 }),
  "transaction-commit": async (topic) => {
    await newTopic(topic);
    await transactional(topic, async (producer) => {
      await transact(producer, topic, "1", (transaction) => transaction.commit());
      await transact(producer, topic, "2", (transaction) => transaction.commit());
    });
    same(values(await read(topic, 2, { readUncommitted: false })), ["1", "2"]);
  },
  "transaction-abort": async (topic) => {
    await newTopic(topic);
    await transactional(topic, async (producer) => {
      await transact(producer, topic, "aborted", (transaction) => transaction.abort());
      await transact(producer, topic, "committed", (transaction) => transaction.commit());
    });
    same(values(await read(topic, 1, { readUncommitted: false })), ["committed"]);
    same(values(await read(topic, 2, { readUncommitted: true })), ["aborted", "committed"]);
  },
  "transaction-offsets": async (topic) => {
    await newTopic(topic);
    await transactional(topic, async (producer) => {
      await transact(producer, topic, "v", async (transaction) => {
        const topics = [{ topic, partitions: [{ partition: 0, offset: "1" }] }];
        await transaction.sendOffsets({ consumerGroupId: topic, topics });
        await transaction.commit();
      });
    });
    same(await committed(topic, topic), "1");
  },
  earliest: async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2"));
    same(values(await read(topic, 2)), ["1", "2"]);
    const [{ low, high }] = await withAdmin((admin) => admin.fetchTopicOffsets(topic));
    same([low, high], ["0", "2"]);
  },
  latest: async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2"));
    const reader = await new Reader(topic).start(topic, { fromBeginning: false });
    // Where the end is, is asked for in the background; so go on sending until something comes.
    await eventually(async () => {
      await send(topic, plain("3"));
      return reader.records.length > 0;
    });
    same(values(reader.records)[0], "3");
    await reader.stop();
  },
  timestamp: async (topic) => {
    await newTopic(topic);
    for (const timestamp of ["1000000", "2000000", "3000000"]) {
      await send(topic, [{ value: "v", timestamp }]);
    }
    const [found] = await withAdmin((admin) => admin.fetchTopicOffsetsByTimestamp(topic, 1_000_001));
    same(found.offset, "1");
  },
  seek: async (topic) => {
    await newTopic(topic);
    await send(topic, plain("0", "1", "2", "3", "4"));
    const reader = await new Reader(topic).start(topic);
    await reader.take(5);
    reader.consumer.seek({ topic, partition: 0, offset: "3" });
    same(values(await reader.take(7)).slice(5), ["3", "4"]);
    await reader.stop();
  },
  "auto-create": async (topic) => {
    await send(topic, plain("v"));
    same(values(await read(topic, 1)), ["v"]);
  },
  "group-resume": async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2", "3"));
    const first = new Reader(topic);
    await first.start(topic);
    same(values(await first.take(1)), ["1"]);
    await first.consumer.commitOffsets([{ topic, partition: 0, offset: "1" }]);
    await first.stop();
    const second = await new Reader(topic).start(topic);
    same(values(await second.take(2)), ["2", "3"]);
    await second.stop();
  },
  "group-rebalance": async (topic) => {
    await newTopic(topic, 4);
    const first = await new Reader(topic).start(topic);
    await eventually(() => first.partitions === 4);
    const second = await new Reader(topic).start(topic);
    await eventually(() => first.partitions === 2 && second.partitions === 2);
    await second.stop();
    await eventually(() => first.partitions === 4);
    await first.stop();
  },
  "list-topics": async (topic) => {
    await newTopic(topic);
    that((await withAdmin((admin) => admin.listTopics())).includes(topic), "it is not there");
  },
  "describe-topics": async (topic) => {
    await newTopic(topic, 3);
    const { topics } = await withAdmin((admin) => admin.fetchTopicMetadata({ topics: [topic] }));
    same(topics[0].partitions.length, 3);
  },
  "describe-configs": async (topic) => {
    await newTopic(topic);
    that((await retention(topic)) !== undefined, "no retention.ms");
  },
  "alter-configs": async (topic) => {
    await newTopic(topic);
    const configEntries = [{ name: "retention.ms", value: "123456789" }];
    const resources = [{ type: TOPIC, name: topic, configEntries }];
    await withAdmin((admin) => admin.alterConfigs({ validateOnly: false, resources }));
    await eventually(async () => (await retention(topic)) === "123456789");
  },
  "create-partitions": async (topic) => {
    await newTopic(topic);
    await withAdmin(async (admin) => {
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
      await eventually(async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 3);
    });
  },
  "delete-records": async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2", "3"));
    await withAdmin(async (admin) => {
      await admin.fetchTopicMetadata({ topics: [topic] }); // without it, it knows of no leader
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "2" }] });
      same((await admin.fetchTopicOffsets(topic))[0].low, "2");
    });
  },
  "list-groups": async (topic) => {
    await group(topic);
    const { groups } = await withAdmin((admin) => admin.listGroups());
    that(groups.some((each) => each.groupId === topic), groups);
  },
  "describe-groups": async (topic) => {
    await group(topic);
    const { groups } = await withAdmin((admin) => admin.describeGroups([topic]));
    same(groups[0].state, "Empty");
  },
  "list-group-offsets": async (topic) => same(await committed(await group(topic), topic), "1"),
  "alter-group-offsets": async (topic) => {
    await group(topic);
    await withAdmin((admin) => admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: "2" }] }));
    same(await committed(topic, topic), "2");
  },
  "delete-groups": async (topic) => {
    await group(topic);
    await withAdmin((admin) => admin.deleteGroups([topic]));
    const { groups } = await withAdmin((admin) => admin.listGroups());
    that(!groups.some((each) => each.groupId === topic), groups);
  },
  acls: async (topic) => {
    const what = {
      resourceType: AclResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: "User:alice",
      host: "*",
      operation: AclOperationTypes.READ,
      permissionType: AclPermissionTypes.ALLOW,
    };
    await withAdmin(async (admin) => {
      await admin.createAcls({ acl: [what] });
      await eventually(async () => (await admin.describeAcls(what)).resources.length === 1);
      const { filterResponses } = await admin.deleteAcls({ filters: [what] });
      same(filterResponses[0].matchingAcls.length, 1);
      await eventually(async () => (await admin.describeAcls(what)).resources.length === 0);
    });
  },
  reassignments: async (topic) => {
    await newTopic(topic);
    await withAdmin(async (admin) => {
      const { brokers } = await admin.describeCluster();
      const partitionAssignment = [{ partition: 0, replicas: [brokers[0].nodeId] }];
      await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] });
      const { topics } = await admin.listPartitionReassignments({ topics: [{ topic, partitions: [0] }] });
      same(topics, []);
    });
  },
  cluster: async () => {
    const found = await withAdmin((admin) => admin.describeCluster());
    that(found.clusterId && found.brokers.length > 0 && found.controller !== null, found);
  },
  "delete-topic": async (topic) => {
    await newTopic(topic);
    await withAdmin(async (admin) => {
      await admin.deleteTopics({ topics: [topic] });
      await eventually(async () => !(await admin.fetchTopicMetadata()).topics.some((each) => each.name === topic));
    });
  },
};

// The functions of the admin client that elderly versions do not have yet, by the check that needs them.
const needed = {
  acls: "createAcls",
  cluster: "describeCluster",
  "create-partitions": "createPartitions",
  "delete-groups": "deleteGroups",
  "delete-records": "deleteTopicRecords",
  "describe-groups": "describeGroups",
  "list-groups": "listGroups",
  "list-topics": "listTopics",
  reassignments: "alterPartitionReassignments",
  timestamp: "fetchTopicOffsetsByTimestamp",
};
const offered = kafka.admin();
for (const [check, name] of Object.entries(needed)) {
  if (offered[name] === undefined) {
    delete checks[check];
  }
}

that(CompressionCodecs[CompressionTypes.Snappy] !== undefined && prefix, "kafkajs has changed");
run(checks);
