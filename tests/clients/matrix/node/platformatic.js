// What @platformatic/kafka can do with a broker; it needs Node.js 22.22 or newer.

"use strict";

const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = require("@platformatic/kafka");
const { SESSION_MS, bootstrap, eventually, run, that } = require("./checks.js");

const common = { clientId: "matrix", bootstrapBrokers: [bootstrap], retries: 20, retryDelay: 100 };
const GROUP_TIMES = { sessionTimeout: SESSION_MS, heartbeatInterval: 300, rebalanceTimeout: SESSION_MS };
const CONFIG_OF_A_TOPIC = 2;
const [TOPIC, LITERAL, READ, ALLOW] = [2, 3, 3, 3];

async function using(client, call) {
  try {
    return await call(client);
  } finally {
    await (client instanceof Admin ? client.close() : client.close(true));
  }
}

const withAdmin = (call) => using(new Admin(common), call);

async function newTopic(topic, partitions = 1) {
  await withAdmin((admin) => admin.createTopics({ topics: [topic], partitions, replicas: 1 }));
  return topic;
}

const producer = (options = {}) => new Producer({ ...common, serializers: stringSerializers, ...options });

const send = (topic, messages, { options = {}, ...rest } = {}) =>
  using(producer(options), (each) =>
    each.send({ acks: -1, ...rest, messages: messages.map((message) => ({ topic, partition: 0, ...message })) }));

const plain = (...values) => values.map((value) => ({ value }));

const consumer = (groupId, options = {}) =>
  new Consumer({ ...common, groupId, deserializers: stringDeserializers, maxWaitTime: 200, autocommit: false, ...options });

// What comes of a stream, once so many have come.
async function take(stream, count) {
  const found = [];
  stream.on("data", (message) => found.push(message));
  stream.on("error", () => undefined);
  await eventually(() => found.length >= count);
  return found;
}

async function read(topic, count, options = {}) {
  return using(consumer(`${topic}-reader-${Math.random()}`, GROUP_TIMES), async (each) => {
    const stream = await each.consume({ topics: [topic], mode: "earliest", ...options });
    const found = await take(stream, count);
    await stream.close();
    return found.slice(0, count);
  });
}

const values = (records) => records.map((each) => each.value);
const same = (found, wanted) => that(JSON.stringify(found) === JSON.stringify(wanted), found);

function roundTrip(options) {
  return async (topic) => {
    await newTopic(topic);
    const wanted = Array.from({ length: 20 }, (_, number) => `${number}`.repeat(50));
    await send(topic, plain(...wanted), options);
    same(values(await read(topic, 20)), wanted);
  };
}

async function transact(each, topic, value, end) {
  const transaction = await each.beginTransaction();
  await transaction.send({ messages: [{ topic, partition: 0, value }] });
  await end(transaction);
}

const transactional = (topic) => producer({ transactionalId: topic, idempotent: true });

async function group(topic) {
  await newTopic(topic);
  const topics = [{ name: topic, partitionOffsets: [{ partition: 0, offset: 1n }] }];
  await withAdmin((admin) => admin.alterConsumerGroupOffsets({ groupId: topic, topics }));
  return topic;
}

const committed = (groupId) =>
  withAdmin(async (admin) => {
    const [found] = await admin.listConsumerGroupOffsets({ groups: [groupId] });
    return `${found.topics[0]?.partitions[0]?.committedOffset}`;
  });

async function retention(topic) {
  const resources = [{ resourceType: CONFIG_OF_A_TOPIC, resourceName: topic }];
  const [found] = await withAdmin((admin) => admin.describeConfigs({ resources }));
  return found.configs.find((entry) => entry.name === "retention.ms").value;
}

const altered = (call) => async (topic) => {
  await newTopic(topic);
  const configs = [{ name: "retention.ms", value: "123456789", configOperation: 0 }];
  await withAdmin((admin) => call(admin, [{ resourceType: CONFIG_OF_A_TOPIC, resourceName: topic, configs }]));
  await eventually(async () => (await retention(topic)) === "123456789");
};

// A member of a group, which knows what is assigned to it.
async function member(topic, options) {
  const each = consumer(topic, options);
  const stream = await each.consume({ topics: [topic], mode: "committed", fallbackMode: "earliest" });
  stream.on("data", () => undefined);
  stream.on("error", () => undefined);
  return { count: () => each.assignments?.flatMap((one) => one.partitions).length ?? 0, leave: () => each.close(true) };
}

const rebalance = (options) => async (topic) => {
  await newTopic(topic, 4);
  const first = await member(topic, options);
  await eventually(() => first.count() === 4);
  const second = await member(topic, options);
  await eventually(() => first.count() === 2 && second.count() === 2);
  await second.leave();
  await eventually(() => first.count() === 4);
  await first.leave();
};

const offset = async (topic, timestamp) => {
  const found = await withAdmin((admin) =>
    admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp }] }] }));
  return `${found[0].partitions[0].offset}`;
};

const checks = {
  "create-topic": async (topic) => {
    await newTopic(topic, 3);
    const refusal = await newTopic(topic, 3).then(() => undefined, (error) => error);
    that(JSON.stringify(refusal.errors ?? refusal.message).includes("already") || refusal !== undefined, `${refusal}`);
  },
  produce: roundTrip({}),
  "acks-1": roundTrip({ acks: 1 }),
  "acks-0": roundTrip({ acks: 0 }),
  gzip: roundTrip({ compression: "gzip" }),
  zstd: roundTrip({ compression: "zstd" }),
  "big-records": async (topic) => {
    await newTopic(topic);
    const value = "x".repeat(800_000);
    await send(topic, plain(value));
    await send(topic, plain(value));
    same(values(await read(topic, 2)), [value, value]);
  },
  headers: async (topic) => {
    await newTopic(topic);
    await send(topic, [{ value: "v", headers: new Map([["a", "1"], ["b", ""]]) }]);
    const [{ headers }] = await read(topic, 1);
    same([...headers.entries()], [["a", "1"], ["b", ""]]);
  },
  nulls: async (topic) => {
    await newTopic(topic);
    await send(topic, [{ key: "k", value: "" }, { value: "v" }]);
    const found = await read(topic, 2);
    that(found[0].key === "k" && !found[0].value && !found[1].key && found[1].value === "v", found);
  },
  idempotent: roundTrip({ options: { idempotent: true } }),
  "transaction-commit": async (topic) => {
    await newTopic(topic);
    await using(transactional(topic), async (each) => {
      await transact(each, topic, "1", (transaction) => transaction.commit());
      await transact(each, topic, "2", (transaction) => transaction.commit());
    });
    same(values(await read(topic, 2, { isolationLevel: 1 })), ["1", "2"]);
  },
  "transaction-abort": async (topic) => {
    await newTopic(topic);
    await using(transactional(topic), async (each) => {
      await transact(each, topic, "aborted", (transaction) => transaction.abort());
      await transact(each, topic, "committed", (transaction) => transaction.commit());
    });
    same(values(await read(topic, 1, { isolationLevel: 1 })), ["committed"]);
    same(values(await read(topic, 2, { isolationLevel: 0 })), ["aborted", "committed"]);
  },
  earliest: async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2"));
    same(values(await read(topic, 2)), ["1", "2"]);
    same([await offset(topic, -2n), await offset(topic, -1n)], ["0", "2"]);
  },
  latest: async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2"));
    await using(consumer(topic, GROUP_TIMES), async (each) => {
      const stream = await each.consume({ topics: [topic], mode: "latest" });
      const found = [];
      stream.on("data", (message) => found.push(message.value));
      // Where the end is, is asked for in the background; so go on sending until something comes.
      await eventually(async () => {
        await send(topic, plain("3"));
        return found.length > 0;
      });
      same(found[0], "3");
      await stream.close();
    });
  },
  timestamp: async (topic) => {
    await newTopic(topic);
    for (const timestamp of [1_000_000n, 2_000_000n, 3_000_000n]) {
      await send(topic, [{ value: "v", timestamp }]);
    }
    same(await offset(topic, 1_000_001n), "1");
  },
  "max-timestamp": async (topic) => {
    await newTopic(topic);
    for (const timestamp of [3_000n, 9_000n, 6_000n]) {
      await send(topic, [{ value: "v", timestamp }]);
    }
    same(await offset(topic, -3n), "1");
  },
  seek: async (topic) => {
    await newTopic(topic);
    await send(topic, plain("0", "1", "2", "3", "4"));
    const offsets = [{ topic, partition: 0, offset: 3n }];
    same(values(await read(topic, 2, { mode: "manual", offsets })), ["3", "4"]);
  },
  "auto-create": async (topic) => {
    await send(topic, plain("v"), { autocreateTopics: true, options: { autocreateTopics: true } });
    same(values(await read(topic, 1)), ["v"]);
  },
  "group-resume": async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2", "3"));
    const asked = { topics: [topic], mode: "committed", fallbackMode: "earliest" };
    await using(consumer(topic, GROUP_TIMES), async (each) => {
      const stream = await each.consume(asked);
      const [first] = await take(stream, 1);
      same(first.value, "1");
      await first.commit();
      await stream.close();
    });
    await using(consumer(topic, GROUP_TIMES), async (each) => {
      const stream = await each.consume(asked);
      same(values(await take(stream, 2)), ["2", "3"]);
      await stream.close();
    });
  },
  "group-rebalance": rebalance(GROUP_TIMES),
  "static-member": async (topic) => {
    await newTopic(topic);
    for (let time = 0; time < 2; time++) {
      const one = await member(topic, { ...GROUP_TIMES, groupInstanceId: "one" });
      await eventually(() => one.count() === 1);
      if (time === 1) {
        const found = await withAdmin((admin) => admin.describeGroups({ groups: [topic] }));
        const [only] = [...found.get(topic).members.values()];
        same(only.groupInstanceId, "one");
      }
      await one.leave();
    }
  },
  "consumer-protocol": rebalance({ groupProtocol: "consumer" }),
  "list-topics": async (topic) => {
    await newTopic(topic);
    that((await withAdmin((admin) => admin.listTopics())).includes(topic), "it is not there");
  },
  "describe-topics": async (topic) => {
    await newTopic(topic, 3);
    const found = await withAdmin((admin) => admin.metadata({ topics: [topic] }));
    that(found.topics.get(topic).partitionsCount === 3 && found.topics.get(topic).id, "another one");
  },
  "describe-configs": async (topic) => {
    await newTopic(topic);
    that((await retention(topic)) !== undefined, "no retention.ms");
  },
  "alter-configs": altered((admin, [{ configs: [{ name, value }], ...rest }]) =>
    admin.alterConfigs({ resources: [{ ...rest, configs: [{ name, value }] }] })),
  "incremental-configs": altered((admin, resources) => admin.incrementalAlterConfigs({ resources })),
  "create-partitions": async (topic) => {
    await newTopic(topic);
    await withAdmin((admin) => admin.createPartitions({ topics: [{ name: topic, count: 3 }] }));
    await eventually(async () =>
      (await withAdmin((admin) => admin.metadata({ topics: [topic] }))).topics.get(topic).partitionsCount === 3);
  },
  "delete-records": async (topic) => {
    await newTopic(topic);
    await send(topic, plain("1", "2", "3"));
    const topics = [{ name: topic, partitions: [{ partition: 0, offset: 2n }] }];
    await withAdmin((admin) => admin.deleteRecords({ topics }));
    same(await offset(topic, -2n), "2");
  },
  "list-groups": async (topic) => {
    await group(topic);
    that((await withAdmin((admin) => admin.listGroups())).has(topic), "it is not there");
  },
  "describe-groups": async (topic) => {
    await group(topic);
    const found = await withAdmin((admin) => admin.describeGroups({ groups: [topic] }));
    same(found.get(topic).state.toUpperCase(), "EMPTY");
  },
  "list-group-offsets": async (topic) => same(await committed(await group(topic)), "1"),
  "alter-group-offsets": async (topic) => {
    await group(topic);
    const topics = [{ name: topic, partitionOffsets: [{ partition: 0, offset: 2n }] }];
    await withAdmin((admin) => admin.alterConsumerGroupOffsets({ groupId: topic, topics }));
    same(await committed(topic), "2");
  },
  "delete-group-offsets": async (topic) => {
    await group(topic);
    const topics = [{ name: topic, partitionIndexes: [0] }];
    await withAdmin((admin) => admin.deleteConsumerGroupOffsets({ groupId: topic, topics }));
    const left = await committed(topic);
    that(left === "undefined" || left === "-1", left);
  },
  "remove-members": async (topic) => {
    await newTopic(topic);
    // A heartbeat after the removal would bring the member back: none is due while the check may run.
    const one = await member(topic, { sessionTimeout: 900_000, rebalanceTimeout: 900_000, heartbeatInterval: 600_000 });
    await eventually(() => one.count() === 1);
    await withAdmin(async (admin) => {
      const found = await admin.describeGroups({ groups: [topic] });
      const members = [...found.get(topic).members.keys()].map((memberId) => ({ memberId }));
      await admin.removeMembersFromConsumerGroup({ groupId: topic, members });
      same((await admin.describeGroups({ groups: [topic] })).get(topic).members.size, 0);
    });
    await one.leave().catch(() => undefined);
  },
  "delete-groups": async (topic) => {
    await group(topic);
    await withAdmin((admin) => admin.deleteGroups({ groups: [topic] }));
    that(!(await withAdmin((admin) => admin.listGroups())).has(topic), "it is still there");
  },
  acls: async (topic) => {
    const what = { resourceType: TOPIC, resourceName: topic, resourcePatternType: LITERAL, principal: "User:alice", host: "*" };
    const acl = { ...what, operation: READ, permissionType: ALLOW };
    await withAdmin(async (admin) => {
      await admin.createAcls({ creations: [acl] });
      await eventually(async () => (await admin.describeAcls({ filter: acl })).length === 1);
      same((await admin.deleteAcls({ filters: [acl] })).length, 1);
      await eventually(async () => (await admin.describeAcls({ filter: acl })).length === 0);
    });
  },
  quotas: async (topic) => {
    const entities = [{ entityType: "user", entityName: topic }];
    const ops = [{ key: "producer_byte_rate", value: 1_000_000, remove: false }];
    await withAdmin(async (admin) => {
      await admin.alterClientQuotas({ entries: [{ entities, ops }], validateOnly: false });
      const components = [{ entityType: "user", matchType: 0, match: topic }];
      await eventually(async () => (await admin.describeClientQuotas({ components, strict: true })).length === 1);
    });
  },
  "log-dirs": async (topic) => {
    await newTopic(topic);
    const found = await withAdmin((admin) => admin.describeLogDirs({ topics: [{ name: topic, partitions: [0] }] }));
    that(found[0].results[0].topics.some((each) => each.name === topic), found);
  },
  cluster: async () => {
    const found = await withAdmin((admin) => admin.metadata({ topics: [] }));
    that(found.id && found.brokers.size > 0, "no brokers");
  },
  "delete-topic": async (topic) => {
    await newTopic(topic);
    await withAdmin((admin) => admin.deleteTopics({ topics: [topic] }));
    await eventually(async () => !(await withAdmin((admin) => admin.listTopics())).includes(topic));
  },
};

run(checks);
