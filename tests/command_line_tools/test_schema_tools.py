"""Confluent's console tools and kcat -s avro, beside the serializers and deserializers of confluent-kafka."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from minibroker import Broker, Security
from tests.command_line_tools.runs import Printed, run_tool
from tests.registry.schemas import ID, INCOMPATIBLE, V1, record

AVRO: Final = record(ID, {"name": "note", "type": ["null", "string", {"type": "fixed", "name": "F", "size": 1}]})
JSON: Final = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
PROTOBUF: Final = (
    'syntax = "proto3"; package shop; message Order { int64 id = 1; Note note = 2; message Note { string s = 1; } }'
)
SERIALIZATION: Final = "org.apache.kafka.common.errors.SerializationException: "
CONFIG: Final = "org.apache.kafka.common.config.ConfigException: "


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(broker: Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        yield client


def produce(broker: Broker, kind: str, topic: str, lines: str, *properties: str) -> Printed:
    given = (f"schema.registry.url={broker.registry_url}", *properties)
    options = [word for text in given for word in ("--property", text)]
    words = (f"kafka-{kind}-console-producer", "--bootstrap-server", broker.bootstrap_servers, "--topic", topic)
    return run_tool(*words, *options, stdin=lines.encode())


def consume(broker: Broker, kind: str, topic: str, *properties: str, count: int = 1) -> Printed:
    given = (f"schema.registry.url={broker.registry_url}", *properties)
    options = [word for text in given for word in ("--property", text)]
    words = (f"kafka-{kind}-console-consumer", "--bootstrap-server", broker.bootstrap_servers, "--topic", topic)
    return run_tool(*words, *options, "--from-beginning", "--timeout-ms", "30000", "--max-messages", str(count))


def order_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="note", number=2, type=11, label=1, type_name=".shop.Order.Note")
    order.nested_type.add(name="Note").field.add(name="s", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[attr-defined, unused-ignore]  # its stubs do not have it
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_values_of_the_avro_serializer_are_printed(broker: Broker, client: SchemaRegistryClient, topic: str) -> None:
    serialize = AvroSerializer(client, AVRO)
    context = SerializationContext(topic, MessageField.VALUE)
    for value in ({"id": 7, "note": "é"}, {"id": 8, "note": None}, {"id": 9, "note": b"\xff"}):
        broker.produce(topic, serialize(value, context), key=b"k")
    broker.produce(topic, None, key=b"gone")
    string = "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer"
    read = consume(broker, "avro", topic, "print.key=true", string, count=4)
    assert (
        read.out
        == 'k\t{"id":7,"note":{"string":"é"}}\nk\t{"id":8,"note":null}\nk\t{"id":9,"note":{"F":"ÿ"}}\ngone\tnull\n'
    )
    with_id = consume(broker, "avro", topic, "print.schema.ids=true", "schema.id.separator=@", "null.literal=-")
    assert (
        with_id.out == f'{{"id":7,"note":{{"string":"é"}}}}@{client.get_latest_version(f"{topic}-value").schema_id}\n'
    )


def test_keys_and_schemas_in_headers_are_printed(broker: Broker, client: SchemaRegistryClient, topic: str) -> None:
    headers: list[tuple[str, str | bytes | None]] = []
    conf = {"schema.id.serializer": header_schema_id_serializer}
    key_context = SerializationContext(topic, MessageField.KEY, headers)
    key = AvroSerializer(client, '"string"', conf=conf)("k", key_context)
    value = AvroSerializer(client, V1, conf=conf)({"id": 7}, SerializationContext(topic, MessageField.VALUE, headers))
    broker.produce(topic, value, key=key, headers=headers)
    read = consume(broker, "avro", topic, "print.key=true", "key.separator=|", "print.schema.ids=true")
    shown_key, shown_value = read.out.split("|")
    assert shown_key.startswith('"k"\t')
    assert uuid.UUID(shown_key.split("\t")[1])
    assert shown_value.startswith('{"id":7}\t')


def test_values_of_the_other_serializers_are_printed(broker: Broker, client: SchemaRegistryClient, topic: str) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    broker.produce(topic, JSONSerializer(JSON, client)({"id": 7}, context))
    assert consume(broker, "json-schema", topic).out == '{"id":7}\n'
    order = order_class()
    other = SerializationContext(f"{topic}-2", MessageField.VALUE)
    broker.produce(f"{topic}-2", ProtobufSerializer(order, client)(order(note={"s": "x"}), other))
    assert json.loads(consume(broker, "protobuf", f"{topic}-2").out) == {"id": "0", "note": {"s": "x"}}


def test_lines_of_avro_are_read_by_the_deserializer(
    broker: Broker, client: SchemaRegistryClient, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(AVRO)
    properties = ("parse.key=true", "key.separator=|", 'key.schema="string"', "null.marker=NULL")
    lines = '"k"|{"id":7,"note":{"string":"é"}}\n"k"|NULL\nNULL|{"id":8,"note":{"F":"\\u00ff"}}\n'
    assert produce(broker, "avro", topic, lines, f"value.schema.file={path}", *properties) == Printed("", "", 0)
    deserialize = AvroDeserializer(client)
    found = [
        (
            deserialize(entry.key, SerializationContext(topic, MessageField.KEY)),
            deserialize(entry.value, SerializationContext(topic, MessageField.VALUE)),
        )
        for entry in broker.records(topic)
    ]
    assert found == [("k", {"id": 7, "note": "é"}), ("k", None), (None, {"id": 8, "note": b"\xff"})]
    assert {f"{topic}-key", f"{topic}-value"} <= set(client.get_subjects())


def test_lines_of_the_other_formats_are_read_by_the_deserializers(
    broker: Broker, client: SchemaRegistryClient, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    numbered = ("parse.key=true", "key.serializer=org.apache.kafka.common.serialization.LongSerializer")
    assert produce(broker, "json-schema", topic, '258\t{"id":7}\n', f"value.schema={JSON}", *numbered).status == 0
    (written,) = broker.records(topic)
    assert written.key == (258).to_bytes(8, "big")
    assert JSONDeserializer(None, schema_registry_client=client)(written.value, context) == {"id": 7}
    refused = produce(broker, "json-schema", topic, 'x\t{"id":7}\n', f"value.schema={JSON}", *numbered)
    assert refused == Printed("", 'java.lang.NumberFormatException: For input string: "x"\n', 1)
    lines = '{"id":"7","note":{"s":"x"}}\n'
    assert produce(broker, "protobuf", f"{topic}-2", lines, f"value.schema={PROTOBUF}").status == 0
    nested = (f"value.schema={PROTOBUF}", "value.schema.full.name=shop.Order.Note")
    assert produce(broker, "protobuf", f"{topic}-2", '{"s":"y"}\n', *nested).status == 0
    order = order_class()
    first, second = broker.records(f"{topic}-2")
    read = ProtobufDeserializer(order, schema_registry_client=client)(first.value, context)
    assert read == order(id=7, note={"s": "x"})
    assert consume(broker, "protobuf", f"{topic}-2", count=2).out.splitlines()[1] == '{"s":"y"}'
    assert second.value is not None


def test_schemas_are_registered_looked_up_or_taken_from_the_registry(
    broker: Broker, client: SchemaRegistryClient, topic: str
) -> None:
    looks_up = "auto.register=false"
    unknown = produce(broker, "avro", topic, '{"id":1}\n', f"value.schema={V1}", looks_up)
    assert unknown.err.startswith(f"{SERIALIZATION}Error retrieving Avro schema: {V1}\nCaused by: The registry at ")
    assert not client.get_subjects(subject_prefix=topic)
    id_ = client.register_schema(f"{topic}-value", Schema(V1))
    for properties in (
        (f"value.schema={V1}", looks_up),
        (f"value.schema={AVRO}", looks_up, "use.latest.version=true"),
        (f"value.schema.id={id_}",),
        (f"value.schema={V1}",),
    ):
        assert produce(broker, "avro", topic, '{"id":1}\n', *properties) == Printed("", "", 0)
    assert {entry.value for entry in broker.records(topic)} == {b"\0" + id_.to_bytes(4, "big") + b"\2"}
    assert client.get_versions(f"{topic}-value") == [1]
    client.register_schema(f"{topic}-other", Schema(V1))
    refers = record({"name": "order", "type": "Order"}, name="Box")
    references = f'value.refs=[{{"name":"Order","subject":"{topic}-other","version":1}}]'
    assert (
        produce(broker, "avro", f"{topic}-2", '{"order":{"id":1}}\n', f"value.schema={refers}", references).status == 0
    )
    assert consume(broker, "avro", f"{topic}-2").out == '{"order":{"id":1}}\n'
    refused = produce(broker, "avro", topic, '{"id":1,"customer":"x"}\n', f"value.schema={INCOMPATIBLE}")
    assert "answered 409: Schema being registered is incompatible with an earlier schema" in refused.err


@pytest.mark.parametrize(
    ("kind", "properties", "message"),
    [
        ("avro", (), f"{CONFIG}Must provide the value schema in either value.schema, value.schema.id, or value."),
        ("avro", ("value.schema.file=/nowhere",), f"{CONFIG}Error reading schema from /nowhere"),
        ("avro", ("value.schema.id=x",), f"{SERIALIZATION}Error parsing value.schema.id as int"),
        ("avro", ("value.schema.id=999",), f"{SERIALIZATION}Error retrieving schema for id 999\nCaused by: The regis"),
        ("avro", (f"value.schema={V1}", "value.refs=["), f"{SERIALIZATION}A property of the value schema: Exp"),
        (
            "avro",
            (f"value.schema={V1}", "key.serializer=x.Other"),
            f"{CONFIG}The key.serializer x.Other is not one of ",
        ),
        ("avro", (f"value.schema={V1}", "schema.registry.url=a:1"), f"{CONFIG}The URL of the registry is not http"),
        ("avro", (f"value.schema={V1}", "value.subject.name.strategy=a.RecordNameStrategy"), "value.subject.name.str"),
        (
            "avro",
            (f"value.schema={V1}",),
            f'{SERIALIZATION}Error deserializing json {{"id":"x"}} to Avro of schema {V1}\nC',
        ),
        (
            "json-schema",
            (f"value.schema={JSON}",),
            f'{SERIALIZATION}Error serializing json {{"id":"x"}}\nCaused by: $.id: ',
        ),
        (
            "protobuf",
            (f"value.schema={PROTOBUF}",),
            f'{SERIALIZATION}Error deserializing json {{"id":"x"}} to Protobuf',
        ),
    ],
)
def test_wrong_properties_and_lines_are_refused_in_confluents_words(
    broker: Broker, topic: str, kind: str, properties: tuple[str, ...], message: str
) -> None:
    refused = produce(broker, kind, topic, '{"id":"x"}\n', *properties)
    assert (refused.out, refused.status) == ("", 1)
    assert refused.err.startswith(message)


def test_data_that_cannot_be_decoded_ends_the_consumer_or_is_skipped(broker: Broker, topic: str) -> None:
    assert produce(broker, "avro", topic, '{"id":7}\n', f"value.schema={V1}").status == 0
    (good,) = broker.records(topic)
    assert good.value is not None
    broker.produce(topic, b"plain")
    broker.produce(topic, b"\0\0\0\3\xe7x")
    broker.produce(topic, good.value + b"more")
    ended = consume(broker, "avro", topic, count=4)
    assert (ended.out, ended.status) == ('{"id":7}\n', 1)
    assert ended.err.endswith(f"{SERIALIZATION}Unknown magic byte!\n")
    words = ("kafka-console-consumer", "--formatter", "io.confluent.kafka.formatter.AvroMessageFormatter")
    url = ("--property", f"schema.registry.url={broker.registry_url}", "--bootstrap-server", broker.bootstrap_servers)
    ends = ("--topic", topic, "--from-beginning", "--max-messages", "4", "--skip-message-on-error")
    skipped = run_tool(*words, *url, *ends)
    assert (skipped.out, skipped.status) == ('{"id":7}\n', 0)
    id_ = int.from_bytes(good.value[1:5], "big")
    for reason in (
        "Unknown magic byte! (",
        "Error retrieving Avro value schema for id 999\nCaused by: The registry at ",
        f"Error deserializing Avro message for id {id_}\nCaused by: 4 bytes are left after the value (",
    ):
        assert f"skipping this message: {SERIALIZATION}{reason}" in skipped.err
    without = run_tool(*words, "--bootstrap-server", broker.bootstrap_servers, *ends)
    assert without == Printed("", f"{CONFIG}Missing schema registry url!\n", 1)


def test_a_registry_that_asks_for_a_login_gets_it(topic: str) -> None:
    with Broker(registry=True, config={"minibroker.registry.token": "alice:a secret"}) as broker:
        login = ("basic.auth.credentials.source=USER_INFO", "basic.auth.user.info=alice:a secret")
        assert produce(broker, "avro", topic, '{"id":7}\n', f"value.schema={V1}", *login).status == 0
        prefixed = [f"schema.registry.{text}" for text in login]
        assert consume(broker, "avro", topic, *prefixed).out == '{"id":7}\n'
        in_url = broker.registry_url.replace("//", "//alice:a%20secret@")
        assert consume(broker, "avro", topic, f"schema.registry.url={in_url}").out == '{"id":7}\n'
        refused = consume(broker, "avro", topic)
        assert (refused.status, "answered 401" in refused.err) == (1, True)
        wrong = consume(broker, "avro", topic, f"schema.registry.url={in_url.replace('secret', 'guess')}")
        assert (wrong.status, "guess" in wrong.err) == (1, False)


def test_a_registry_with_tls_is_trusted_by_its_certificate(topic: str) -> None:
    security = Security("SSL")
    with Broker(registry="https://127.0.0.1:0", security=security) as broker:
        broker.produce(topic, b"\0\0\0\0\1\x0e")
        client = security.java()
        for_brokers = [word for name, text in client.items() for word in ("--consumer-property", f"{name}={text}")]
        for_registry = [
            word for name, text in client.items() for word in ("--property", f"schema.registry.{name}={text}")
        ]
        url = ("--property", f"schema.registry.url={broker.registry_url}")
        words = ("kafka-avro-console-consumer", "--bootstrap-server", broker.bootstrap_servers, *for_brokers, *url)
        ends = ("--topic", topic, "--from-beginning", "--max-messages", "1")
        assert "answered 404: Schema 1 not found" in run_tool(*words, *for_registry, *ends).err
        assert "CERTIFICATE_VERIFY_FAILED" in run_tool(*words, *ends).err


@pytest.fixture
def orders(broker: Broker, topic: str) -> str:
    """Create a topic with a value that has a key, and one that has none."""
    lines = '"k":{"id":7,"note":{"string":"é"}}\nNULL:{"id":8,"note":null}\n'
    keys = ("parse.key=true", "key.separator=:", 'key.schema="string"', "null.marker=NULL")
    assert produce(broker, "avro", topic, lines, f"value.schema={AVRO}", *keys).status == 0
    return topic


def kcat(broker: Broker, topic: str, *options: str) -> Printed:
    return run_tool("kcat", "-m", "60", "-b", broker.bootstrap_servers, "-C", "-t", topic, "-e", "-q", *options)


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ("-s avro", '"k"{"id": 7, "note": {"string": "\\u00e9"}};{"id": 8, "note": null};'),
        ("-s value=avro -K: -Z -c 1 -o -1", 'NULL:{"id": 8, "note": null};'),
        ("-s key=avro -f %k@%o,", '"k"@0,@1,'),
    ],
)
def test_kcat_prints_avro_as_json(broker: Broker, orders: str, options: str, output: str) -> None:
    assert kcat(broker, orders, "-D;", "-r", f"{broker.registry_url}/", *options.split()) == Printed(output, "", 0)


def test_kcat_prints_avro_within_json_and_the_ids(broker: Broker, client: SchemaRegistryClient, orders: str) -> None:
    read = kcat(broker, orders, "-s", "avro", "-J", "-X", f"schema.registry.url={broker.registry_url}")
    first, second = map(json.loads, read.out.splitlines())
    key_id, value_id = (client.get_latest_version(f"{orders}-{part}").schema_id for part in ("key", "value"))
    assert [*first][-4:] == ["key", "key_schema_id", "payload", "value_schema_id"]
    assert [*first.values()][-4:] == ["k", key_id, {"id": 7, "note": {"string": "é"}}, value_id]
    assert [*second][-3:] == ["key", "payload", "value_schema_id"]


def test_kcat_names_data_that_is_not_avro_and_ends_or_continues(broker: Broker, topic: str) -> None:
    broker.produce(topic, b"plain")
    broker.produce(topic, None)
    options = ("-s", "value=avro", "-r", broker.registry_url)
    place, reason = f"in {topic} [0] at offset 0: ", "The value does not begin with a schema id"
    failed = f"% ERROR: Failed to format message {place}Avro/Schema-registry message deserialization: {reason}"
    assert kcat(broker, topic, *options) == Printed("", f"{failed}: terminating\n", 1)
    assert kcat(broker, topic, *options, "-E", "-Z") == Printed("NULL\n", f"{failed}\n", 0)
    failed = f"% ERROR: Failed to deserialize value in message {place}{reason}"
    assert kcat(broker, topic, *options, "-J") == Printed("", f"{failed}: terminating\n", 1)
    continued = kcat(broker, topic, *options, "-J", "-E")
    assert (continued.err, continued.status) == (f"{failed}\n", 0)
    first, second = map(json.loads, continued.out.splitlines())
    assert (first["payload"], first["payload_error"]) == (None, reason)
    assert (second["payload"], "payload_error" in second) == (None, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-C -s avro", "-s avro requires -r <sr_url>"),
        ("-P -s avro -r http://a:1", "-s serdes only available in the consumer"),
        ("-C -s key=i -r http://a:1", "-s key=i: this kcat supports only avro"),
        ("-C -s avro -r a:1", "-r: The URL of the registry is not http://HOST:PORT or https://HOST:PORT"),
    ],
)
def test_wrong_options_of_kcat_are_named(broker: Broker, orders: str, options: str, message: str) -> None:
    refused = run_tool("kcat", "-b", broker.bootstrap_servers, "-t", orders, *options.split())
    assert refused == Printed("", f"% ERROR: {message}\n", 1)
