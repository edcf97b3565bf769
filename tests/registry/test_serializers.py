"""confluent-kafka's client of the registry, and its serializers, with records on the broker."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from minibroker import Broker
from tests.patience import PATIENCE_S
from tests.registry.schemas import ID, INCOMPATIBLE, OTHER, V1, V2, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Connect = Callable[[], SchemaRegistryClient]

JSON = """{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}"""


@pytest.fixture
def connect(broker: Broker) -> "Iterator[Connect]":
    """A function that returns a client, which knows no schema yet."""
    with ExitStack() as clients:
        yield lambda: clients.enter_context(SchemaRegistryClient({"url": broker.registry_url}))


@pytest.fixture
def client(connect: "Connect") -> SchemaRegistryClient:
    return connect()


def test_the_client_registers_reads_and_deletes(client: SchemaRegistryClient) -> None:
    id_ = client.register_schema("a", Schema(V1))
    assert client.register_schema("a", Schema(V1)) == id_
    assert client.get_schema(id_).schema_str == V1
    assert client.get_subjects() == ["a"]
    second = client.register_schema("a", Schema(V2), normalize_schemas=True)
    assert client.get_latest_version("a").schema_id == second
    assert client.get_version("a", 1).schema_id == id_
    assert client.get_versions("a") == [1, 2]
    assert client.lookup_schema("a", Schema(V2)).version == 2
    assert client.test_compatibility("a", Schema(INCOMPATIBLE)) is False
    assert client.delete_version("a", 2) == 2
    assert client.delete_version("a", 2, permanent=True) == 2
    assert client.delete_subject("a") == [1]
    assert client.delete_subject("a", permanent=True) == [1]
    assert client.get_subjects() == []


def test_the_client_reads_and_sets_levels(client: SchemaRegistryClient) -> None:
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility("a", "FULL")
    assert client.get_compatibility("a") == "FULL"
    client.set_config("a", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major"))
    config = client.get_config("a")
    assert (config.compatibility_level, config.compatibility_group) == ("NONE", "major")
    with pytest.raises(SchemaRegistryError) as caught:
        client.set_compatibility(level="SOME")
    assert (caught.value.http_status_code, caught.value.error_code) == (422, 42203)


def test_the_client_sees_the_errors_that_it_knows(client: SchemaRegistryClient) -> None:
    client.register_schema("a", Schema(V1))
    refused: list[tuple[Callable[[], object], int, int]] = [
        (lambda: client.register_schema("a", Schema(INCOMPATIBLE)), 409, 409),
        (lambda: client.register_schema("b", Schema("nonsense")), 422, 42201),
        (lambda: client.get_schema(999), 404, 40403),
        (lambda: client.get_latest_version("none"), 404, 40401),
        (lambda: client.get_version("a", 9), 404, 40402),
        (lambda: client.lookup_schema("a", Schema(OTHER)), 404, 40403),
        (lambda: client.delete_subject("none"), 404, 40401),
    ]
    for ask, status, code in refused:
        with pytest.raises(SchemaRegistryError) as caught:
            ask()
        assert (caught.value.http_status_code, caught.value.error_code) == (status, code)


def test_the_client_registers_references_and_metadata(client: SchemaRegistryClient) -> None:
    client.register_schema("customer", Schema(OTHER))
    references = [SchemaReference("Customer", "customer", 1)]
    text = record({"name": "customer", "type": "Customer"})
    metadata = Metadata(tags=None, properties=MetadataProperties({"owner": "me"}), sensitive=None)
    id_ = client.register_schema("order", Schema(text, "AVRO", references, metadata))
    registered = client.get_version("order", 1)
    assert registered.schema.references == references
    assert registered.schema_id == id_
    assert client.get_latest_with_metadata("order", {"owner": "me"}).version == 1


def through_the_broker(broker: Broker, data: bytes, headers: Any = None) -> tuple[bytes, Any]:
    """Produce a value and return what a consumer reads, with its headers."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", data, headers=headers)
    producer.flush(PATIENCE_S)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    (message,) = consumer.consume(1, PATIENCE_S)
    consumer.close()
    value = message.value()
    assert isinstance(value, bytes)
    return value, message.headers()


CONTEXT = SerializationContext("orders", MessageField.VALUE)


def test_avro_goes_through_the_broker(broker: Broker, client: SchemaRegistryClient, connect: "Connect") -> None:
    data = AvroSerializer(client, V2)({"id": 7, "note": "x"}, CONTEXT)
    assert data is not None
    read, _ = through_the_broker(broker, data)
    reader = connect()
    assert AvroDeserializer(reader, V1)(read, CONTEXT) == {"id": 7}
    assert AvroDeserializer(reader)(read, CONTEXT) == {"id": 7, "note": "x"}
    assert client.get_subjects() == ["orders-value"]


def test_a_schema_can_be_named_by_its_guid_in_a_header(
    broker: Broker, client: SchemaRegistryClient, connect: "Connect"
) -> None:
    headers: list[tuple[str, str | bytes | None]] = []
    context = SerializationContext("orders", MessageField.VALUE, headers)
    serializer = AvroSerializer(client, V2, conf={"schema.id.serializer": header_schema_id_serializer})
    order = {"id": 7, "note": "longer than a prefix"}
    data = serializer(order, context)
    assert data is not None
    assert [name for name, _ in headers] == ["__value_schema_id"]
    read, read_headers = through_the_broker(broker, data, headers)
    read_context = SerializationContext("orders", MessageField.VALUE, read_headers)
    reader = connect()
    assert AvroDeserializer(reader)(read, read_context) == order


def test_schemas_that_are_registered_beforehand_are_looked_up(
    broker: Broker, client: SchemaRegistryClient, connect: "Connect"
) -> None:
    for conf in ({"auto.register.schemas": False}, {"auto.register.schemas": False, "use.latest.version": True}):
        serializer = AvroSerializer(client, V1, conf=conf)
        with pytest.raises(SchemaRegistryError):
            serializer({"id": 1}, CONTEXT)
    client.register_schema("orders-value", Schema(V1))
    for conf in ({"auto.register.schemas": False}, {"auto.register.schemas": False, "use.latest.version": True}):
        fresh = connect()
        assert AvroSerializer(fresh, V1, conf=conf)({"id": 1}, CONTEXT)


def test_json_goes_through_the_broker(broker: Broker, client: SchemaRegistryClient, connect: "Connect") -> None:
    data = JSONSerializer(JSON, client)({"id": 7}, CONTEXT)
    assert data is not None
    read, _ = through_the_broker(broker, data)
    reader = connect()
    assert JSONDeserializer(None, schema_registry_client=reader)(read, CONTEXT) == {"id": 7}
    assert client.get_latest_version("orders-value").schema.schema_type == "JSON"


def make_messages() -> tuple[Any, Any]:
    """Return the classes of two generated messages, of which the second one contains the first one of another file."""
    pool = descriptor_pool.DescriptorPool()
    base = descriptor_pb2.FileDescriptorProto(name="base.proto", package="shop", syntax="proto3")
    customer = base.message_type.add(name="Customer")
    customer.field.add(name="id", number=1, type=3, label=1)
    order_file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["base.proto"]
    )
    order = order_file.message_type.add(name="Order")
    order.field.add(name="customer", number=1, type=11, type_name=".shop.Customer", label=1)
    order.field.add(name="note", number=2, type=9, label=1)
    for file in (base, order_file):
        pool.Add(file)  # type: ignore[attr-defined, unused-ignore]  # its stubs do not have it
    descriptors = (pool.FindMessageTypeByName("shop.Customer"), pool.FindMessageTypeByName("shop.Order"))
    return message_factory.GetMessageClass(descriptors[0]), message_factory.GetMessageClass(descriptors[1])


def test_protobuf_goes_through_the_broker_with_one_client_for_both_sides(
    broker: Broker, client: SchemaRegistryClient, connect: "Connect"
) -> None:
    customer, order = make_messages()
    message = order(customer=customer(id=7), note="x")
    data = ProtobufSerializer(order, client)(message, CONTEXT)
    assert data is not None
    read, _ = through_the_broker(broker, data)
    assert ProtobufDeserializer(order, schema_registry_client=client)(read, CONTEXT) == message
    reader = connect()
    assert ProtobufDeserializer(order, schema_registry_client=reader)(read, CONTEXT) == message
    assert client.get_subjects() == ["base.proto", "orders-value"]
    assert "message Order {" in (client.get_latest_version("orders-value").schema.schema_str or "")
    assert ID
