// Round trips in all formats through Confluent's client and serializers at the registry whose URL is the argument.

const sr = require("@confluentinc/schemaregistry");
const { create, createFileRegistry } = require("@bufbuild/protobuf");
const { FieldDescriptorProto_Label, FieldDescriptorProto_Type, FileDescriptorProtoSchema, FileDescriptorSetSchema } =
  require("@bufbuild/protobuf/wkt");

const connect = () => sr.SchemaRegistryClient.newClient({ baseURLs: [process.argv[2]] });
const { VALUE } = sr.SerdeType;

const CUSTOMER = JSON.stringify({ type: "record", name: "Customer", namespace: "shop", fields: [{ name: "id", type: "int" }] });
const ORDER = JSON.stringify({ type: "record", name: "Order", namespace: "shop", fields: [{ name: "customer", type: "Customer" }] });
const JSON_CUSTOMER = JSON.stringify({ type: "object", properties: { id: { type: "integer" } }, additionalProperties: false });
const JSON_ORDER = JSON.stringify({
  type: "object",
  properties: { customer: { $ref: "customer.json" } },
  additionalProperties: false,
});

/** The registry of two files, of which the second one imports the first one. */
function protobufFiles() {
  const field = (fields) => ({ number: 1, label: FieldDescriptorProto_Label.OPTIONAL, ...fields });
  const files = [
    {
      name: "customer.proto",
      messageType: [{ name: "Customer", field: [field({ name: "id", type: FieldDescriptorProto_Type.INT32 })] }],
    },
    {
      name: "order.proto",
      dependency: ["customer.proto"],
      messageType: [
        { name: "Other" },
        {
          name: "Order",
          field: [field({ name: "customer", type: FieldDescriptorProto_Type.MESSAGE, typeName: ".shop.Customer" })],
        },
      ],
    },
  ].map((file) => create(FileDescriptorProtoSchema, { package: "shop", syntax: "proto3", ...file }));
  return createFileRegistry(create(FileDescriptorSetSchema, { file: files }));
}

async function main() {
  const client = connect();
  await client.register("customer", { schema: CUSTOMER, schemaType: "AVRO" });
  const avro = { schema: ORDER, schemaType: "AVRO", references: [{ name: "shop.Customer", subject: "customer", version: 1 }] };
  await client.register("avro-value", avro);
  await client.register("customer.json", { schema: JSON_CUSTOMER, schemaType: "JSON" });
  const json = {
    schema: JSON_ORDER,
    schemaType: "JSON",
    references: [{ name: "customer.json", subject: "customer.json", version: 1 }],
  };
  await client.register("json-value", json);
  const files = protobufFiles();
  const order = { customer: { id: 7 } };
  const message = create(files.getMessage("shop.Order"), { customer: create(files.getMessage("shop.Customer"), { id: 7 }) });
  const seen = {};
  for (const header of [false, true]) {
    const conf = header ? { schemaIdSerializer: sr.HeaderSchemaIdSerializer } : {};
    const latest = { useLatestVersion: true, autoRegisterSchemas: false, ...conf };
    const protobuf = new sr.ProtobufSerializer(client, VALUE, { autoRegisterSchemas: true, ...conf });
    for (const name of ["shop.Customer", "shop.Order"]) protobuf.registry.add(files.getMessage(name));
    const reader = connect();
    const serdes = {
      avro: [new sr.AvroSerializer(client, VALUE, latest), new sr.AvroDeserializer(reader, VALUE, {}), order],
      json: [new sr.JsonSerializer(client, VALUE, { validate: true, ...latest }), new sr.JsonDeserializer(reader, VALUE, {}), order],
      protobuf: [protobuf, new sr.ProtobufDeserializer(reader, VALUE, {}), message],
    };
    for (const [topic, [serializer, deserializer, value]] of Object.entries(serdes)) {
      const headers = {};
      const data = await serializer.serialize(topic, value, headers);
      const read = await deserializer.deserialize(topic, data, headers);
      (seen[topic] ??= []).push([read.customer.id, Object.keys(headers).join()]);
    }
  }
  seen.references = (await client.getLatestSchemaMetadata("protobuf-value")).references;
  seen.subjects = await client.getAllSubjects();
  seen.refused = await client.register("customer", { schema: '"int"', schemaType: "AVRO" }).then(() => "", (error) => error.status);
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
