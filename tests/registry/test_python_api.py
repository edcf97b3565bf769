"""`Broker.schemas`, and records that are encoded, decoded and expected with schemas."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from minibroker import AsyncBroker, Broker, ConflictError, Message, NotFoundError, OperationError, record
from minibroker.cluster.errors import UnexpectedRecordError, WaitTimeoutError
from minibroker.operations.matching import describe
from minibroker.operations.overview import overview
from minibroker.operations.records import Undecodable
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_registry.formats import Formats
from minibroker_registry.values import Values
from tests.broker.harness import produce_request
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S
from tests.registry.rest import Rest
from tests.registry.schemas import INCOMPATIBLE, OTHER, V1, V2

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
JSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PROTOBUF = 'syntax = "proto3"; message Order { int32 id = 1; }'
KINDS: list[tuple[str, Any]] = [("AVRO", ORDER), ("json", JSON), ("PROTOBUF", PROTOBUF)]
UNKNOWN = b"\0\0\0\0\x63?"


@pytest.fixture(scope="module")
def plain() -> Iterator[Broker]:
    """A broker whose registry has no HTTP server."""
    with Broker(timeout=PATIENCE_S) as running:
        yield running


@pytest.fixture
def kafka(plain: Broker) -> Broker:
    plain.reset()
    return plain


def test_subjects_are_registered_listed_and_deleted(kafka: Broker) -> None:
    first = kafka.schemas.register("orders-value", V1)
    second = kafka.schemas.register("orders-value", V2)
    assert kafka.schemas.register("others", V1) == first != second
    assert kafka.schemas.subjects() == ["orders-value", "others"]
    assert kafka.schemas.latest("orders-value") == ("orders-value", 2, second, "AVRO", V2)
    kafka.schemas.delete("others")
    assert kafka.schemas.subjects() == ["orders-value"]
    kafka.reset(keep_schemas=True)
    assert kafka.schemas.latest("orders-value").id == second
    kafka.reset()
    assert kafka.schemas.subjects() == []
    assert kafka.schemas.register("orders-value", V1) == second + 1


def test_a_reference_without_a_version_is_one_to_the_latest(kafka: Broker) -> None:
    kafka.schemas.register("customer", OTHER)
    field = {"name": "customer", "type": "Customer"}
    order = {"type": "record", "name": "Order", "fields": [field]}
    kafka.schemas.register("orders-value", order, references=[{"name": "Customer", "subject": "customer"}])
    kafka.produce("orders", {"customer": {"id": 7}}, schema="orders-value")
    kafka.expect("orders", {"customer": {"id": 7}})


def test_what_the_registry_refuses_is_an_error_with_its_words(kafka: Broker) -> None:
    kafka.schemas.register("orders-value", V1)
    with pytest.raises(ConflictError, match="incompatible with an earlier schema"):
        kafka.schemas.register("orders-value", INCOMPATIBLE)
    kafka.schemas.compatibility("orders-value", "none")
    kafka.schemas.register("orders-value", INCOMPATIBLE)
    with pytest.raises(OperationError, match="Invalid schema"):
        kafka.schemas.register("orders-value", "{")
    with pytest.raises(OperationError, match="'SOME' is not one of NONE, BACKWARD"):
        kafka.schemas.compatibility("orders-value", "SOME")
    with pytest.raises(NotFoundError, match="did you mean orders-value"):
        kafka.schemas.latest("order-value")
    with pytest.raises(NotFoundError, match="'nothing' not found"):
        kafka.schemas.delete("nothing")


async def test_on_an_event_loop_its_methods_are_awaited() -> None:
    async with AsyncBroker() as broker:
        id_ = await broker.schemas.register("orders-value", ORDER)
        assert (await broker.schemas.latest("orders-value")).id == id_
        await broker.produce("orders", {"id": 7}, schema="orders-value")
        assert [each.value for each in await broker.records("orders", decode=True)] == [{"id": 7}]


def test_the_event_loop_parses_encodes_and_decodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, set[bool]] = {}

    def note_callers(of: type, name: str) -> None:
        method: Callable[..., Any] = getattr(of, name)

        def noted(*arguments: Any, **options: Any) -> Any:
            calls.setdefault(name, set()).add(asyncio._get_running_loop() is not None)
            return method(*arguments, **options)

        monkeypatch.setattr(of, name, noted)

    for of, name in (Formats, "parse"), (Values, "encode"), (Values, "decode"):
        note_callers(of, name)
    settings = {"minibroker.schema.validation": "full"}
    strategy = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    with Broker(timeout=PATIENCE_S, journal=10, config=settings) as kafka, SocketClient(kafka.address) as client:
        id_ = kafka.schemas.register("orders-Order", ORDER)
        checks = {"confluent.value.schema.validation": "true", "confluent.value.subject.name.strategy": strategy}
        kafka.create_topic("orders", configs=checks)
        kafka.produce("orders", {"id": 7}, schema="orders-Order")
        value = b"\0" + id_.to_bytes(4, "big") + b"\x0e"
        client.send(produce_request(build_batch([NewRecord(None, value, 1_700_000_000_000, ())]), "orders"), 9)
        client.receive()
        assert len(kafka.wait_for("orders", 2, matching=record({"id": 7}))) == 2
        assert [order.value for order in kafka.records("orders", decode=True)] == [{"id": 7}] * 2
        assert "value={'id': 7}" in kafka.wait(overview(kafka.services, 5))
    assert calls == {"parse": {False}, "encode": {False}, "decode": {False}}


def test_half_of_a_surrogate_pair_is_refused_in_words(kafka: Broker) -> None:
    with pytest.raises(OperationError, match=r"subject '\\ud800' is not"):
        kafka.schemas.register("\ud800", ORDER)
    with pytest.raises(OperationError, match=r"subject 'a\\udfff' is not"):
        kafka.schemas.compatibility("a\udfff", "FULL")
    with pytest.raises(OperationError, match=r"half of a surrogate pair"):
        kafka.schemas.register("a", {**ORDER, "doc": "\ud800"})


def test_http_and_python_share_one_registry(broker: Broker, rest: Rest) -> None:
    first = rest.register("a", V1)
    assert broker.schemas.register("b", V2) == first + 1
    assert rest.register("c", OTHER) == first + 2
    assert rest.get("/subjects") == broker.schemas.subjects() == ["a", "b", "c"]


@pytest.mark.parametrize(("kind", "schema"), KINDS)
def test_values_and_keys_are_encoded_and_decoded(kind: str, schema: Any, kafka: Broker) -> None:
    kafka.schemas.register("orders-value", schema, kind)
    kafka.schemas.register("orders-key", '"string"')
    kafka.produce("orders", {"id": 7}, None, key="a", schema="orders-value", key_schema="orders-key")
    kafka.produce("orders", Message({"id": 8}), schema="orders-value")
    kafka.produce("orders", b"plain")
    decoded = kafka.records("orders", decode=True)
    assert [(each.key, each.value) for each in decoded] == [
        ("a", {"id": 7}),
        ("a", None),
        (None, {"id": 8}),
        (None, b"plain"),
    ]
    assert decoded[0].json() == {"id": 7}
    stored = kafka.records("orders")
    assert [each.offset for each in decoded] == [each.offset for each in stored]
    assert stored[0].value is not None
    assert stored[0].value[:1] == b"\0"
    assert kafka.expect("orders", {"id": 7}, key="a") == stored[0]
    assert kafka.expect("orders", stored[2].value) == stored[2]
    assert kafka.wait_for("orders", matching=record({"id": 8})) == [stored[2]]
    kafka.expect_none("orders", {"id": 9})


@pytest.mark.parametrize(
    ("kind", "schema", "value", "message"),
    [
        ("AVRO", ORDER, {"id": "x"}, "id: 'x'"),
        ("JSON", JSON, {"id": "x"}, "id.*'x'"),
        ("PROTOBUF", PROTOBUF, {"id": "x"}, "id.*x"),
        ("PROTOBUF", PROTOBUF, {"ids": 1}, "ids"),
    ],
)
def test_a_value_that_does_not_fit_is_named_and_nothing_is_written(
    kind: str, schema: Any, value: Any, message: str, kafka: Broker
) -> None:
    kafka.schemas.register("orders-value", schema, kind)
    with pytest.raises(OperationError, match=f"value: .*{message}"):
        kafka.produce("orders", {"id": 1}, value, schema="orders-value")
    with pytest.raises(OperationError, match="key: There is no schema of the subject 'orders-key'"):
        kafka.produce("orders", {"id": 1}, key="a", schema="orders-value", key_schema="orders-key")
    assert "orders" not in kafka.topics()


def test_a_failed_expectation_shows_decoded_records(kafka: Broker) -> None:
    kafka.schemas.register("orders-value", V2)
    kafka.produce("orders", {"id": 7, "note": "new"}, schema="orders-value")
    kafka.produce("orders", UNKNOWN)
    with pytest.raises(WaitTimeoutError) as caught:
        kafka.expect("orders", {"id": 8, "note": ...}, timeout=0)
    unknown = f"{UNKNOWN!r}, which cannot be decoded: No schema has the id 99"
    described = ["  orders-0@0: key=null, value={'id': 7, 'note': 'new'}", f"  orders-0@1: key=null, value={unknown}"]
    assert str(caught.value).splitlines()[2:] == [
        "found 2 records, the nearest first:",
        described[0],
        "    value.id: expected 8, found 7",
        described[1],
        f"    value: expected {{'id': 8, 'note': Ellipsis}}, found {unknown}",
    ]
    with pytest.raises(WaitTimeoutError) as caught:
        kafka.wait_for("orders", 3, timeout=0)
    assert str(caught.value).splitlines()[1:] == described
    with pytest.raises(UnexpectedRecordError) as unexpected:
        kafka.expect_none("orders", {"note": "new"})
    assert str(unexpected.value).splitlines()[1:] == described[:1]


def test_what_cannot_be_decoded_says_why(kafka: Broker) -> None:
    id_ = kafka.schemas.register("orders-value", V2)
    broken = b"\0" + id_.to_bytes(4, "big") + b"\x0e"
    kafka.produce("orders", UNKNOWN, broken)
    unknown, cut = (each.value for each in kafka.records("orders", decode=True))
    assert unknown == Undecodable(UNKNOWN, "No schema has the id 99")
    assert cut.data == broken
    assert cut.reason.startswith(f"The payload does not fit the schema with the id {id_}: ")


def test_a_small_number_as_a_key_is_not_taken_for_an_id(kafka: Broker) -> None:
    kafka.schemas.register("orders-value", V1)
    kafka.produce("orders", {"id": 7}, schema="orders-value", key=(7).to_bytes(8, "big"))
    assert kafka.records("orders", decode=True)[0].key == (7).to_bytes(8, "big")


def test_text_is_compared_with_the_decoded_value_or_with_bytes(kafka: Broker) -> None:
    kafka.schemas.register("names-value", '"string"')
    kafka.produce("names", "Ada", schema="names-value")
    kafka.produce("names", "Bob")
    assert kafka.expect("names", "Ada").offset == 0
    assert kafka.expect("names", "Bob").offset == 1
    kafka.expect_none("names", "Eve")
    kafka.expect_none("names", None)


def test_confluent_s_serializers_read_and_write_the_same(broker: Broker) -> None:
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        context = SerializationContext("orders", MessageField.VALUE)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", AvroSerializer(client, V2)({"id": 7, "note": "new"}, context))
        assert producer.flush(PATIENCE_S) == 0
        broker.expect("orders", {"id": 7, "note": "new"}, timeout=PATIENCE_S)
        broker.produce("orders", {"id": 8, "note": "old"}, schema="orders-value")
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        messages = consumer.consume(2, PATIENCE_S)
        consumer.close()
        deserialize = AvroDeserializer(client)
        assert [deserialize(message.value(), context) for message in messages] == [
            {"id": 7, "note": "new"},
            {"id": 8, "note": "old"},
        ]


def test_a_broker_without_schemas_loads_none_of_the_registry() -> None:
    program = """
import sys
from minibroker import Broker
from minibroker_protocol.lazy_imports import is_loaded

with Broker() as broker:
    broker.produce("orders", {"id": 7})
    broker.expect("orders", {"id": 7})
    broker.expect_none("orders", {"id": 8})
print([name for name in sys.modules if name.startswith("minibroker_registry.") and is_loaded(name)])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_record_is_described_without_a_broker_as_it_is_stored(kafka: Broker) -> None:
    kafka.produce("orders", UNKNOWN)
    (stored,) = kafka.records("orders")
    assert describe(stored) == "orders-0@0: key=null, value=b'\\x00\\x00\\x00\\x00c?'"
    assert record(UNKNOWN).matches(stored)
