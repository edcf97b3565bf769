// Registers, encodes and decodes in all formats at the registry whose URL is the argument, and prints what it has seen.

const { COMPATIBILITY, SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");

const host = process.argv[2];
const AVRO = JSON.stringify({ type: "record", name: "Order", namespace: "shop", fields: [{ name: "id", type: "long" }] });
const JSON_SCHEMA = JSON.stringify({ type: "object", properties: { id: { type: "integer" } } });
const PROTOBUF = 'syntax = "proto3";\npackage shop;\nmessage Order {\n  int32 id = 1;\n}\n';

async function main() {
  const seen = {};
  const registry = new SchemaRegistry({ host });
  for (const [type, schema] of [[SchemaType.AVRO, AVRO], [SchemaType.JSON, JSON_SCHEMA], [SchemaType.PROTOBUF, PROTOBUF]]) {
    const subject = `orders-${type}`;
    const { id } = await registry.register({ type, schema }, { subject });
    const again = await registry.register({ type, schema }, { subject });
    const value = await new SchemaRegistry({ host }).decode(await registry.encode(id, { id: 7 }));
    seen[type] = {
      value: value.id,
      isSameId: again.id === id && (await registry.getLatestSchemaId(subject)) === id,
      byVersion: (await registry.getRegistryId(subject, 1)) === id,
    };
  }
  const found = await registry.getRegistryIdBySchema("orders-AVRO", { type: SchemaType.AVRO, schema: AVRO });
  seen.lookedUp = found === (await registry.getLatestSchemaId("orders-AVRO"));
  const changed = { type: SchemaType.AVRO, schema: AVRO.replace("long", "string") };
  seen.refused = await registry.register(changed, { subject: "orders-AVRO" }).then(() => "", (error) => error.message);
  await registry.register(changed, { subject: "free", compatibility: COMPATIBILITY.NONE });
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
