"""The check that produced records have registered schemas, by a client that sends batches as they are."""

import select
import struct
import uuid
from collections.abc import Iterator

import pytest

from minibroker import Broker
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from minibroker_protocol.messages.produce import PartitionProduceResponse
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import Headers, NewRecord
from tests.broker.harness import produce_request
from tests.broker.socket_client import SocketClient
from tests.registry.rest import Rest
from tests.registry.schemas import OTHER, V1, V2, record
from tests.registry.test_subjects import LENIENT

VALUE = "confluent.value.schema.validation"
KEY = "confluent.key.schema.validation"
PROTOBUF = 'syntax = "proto3"; package p; message A { int32 id = 1; } message B { message C { string s = 1; } }'
JSON = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'


@pytest.fixture
def client(broker: Broker) -> Iterator[SocketClient]:
    with SocketClient(broker.address) as client:
        yield client


def with_id(id_: int, payload: bytes = b"\x0e") -> bytes:
    return struct.pack(">bi", 0, id_) + payload


def new(value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> NewRecord:
    return NewRecord(key, value, 1_700_000_000_000, headers)


def produce(
    client: SocketClient, *records: NewRecord, codec: CompressionCodec = CompressionCodec.NONE
) -> PartitionProduceResponse:
    client.send(produce_request(build_batch(list(records), codec=codec), "orders"), 9)
    _, response = client.receive()
    outcome: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return outcome


def reasons(outcome: PartitionProduceResponse) -> dict[int, str]:
    """Return the reasons of a refusal by the index of the record."""
    assert outcome.error_code == ErrorCode.INVALID_RECORD, outcome
    return {error.batch_index: error.batch_index_error_message or "" for error in outcome.record_errors}


def strategy(name: str, part: str = "value") -> dict[str, str]:
    return {f"confluent.{part}.subject.name.strategy": f"io.confluent.kafka.serializers.subject.{name}"}


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.ZSTD])
@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
def test_each_record_without_a_schema_of_the_subject_is_named(
    broker: Broker, rest: Rest, client: SocketClient, codec: CompressionCodec, time: str
) -> None:
    broker.create_topic("orders", configs={VALUE: "true", "message.timestamp.type": time})
    right, wrong = rest.register("orders-value", V1), rest.register("users-value", OTHER)
    values = [with_id(right), b'{"id":7}', with_id(wrong), with_id(99), None, with_id(right), b""]
    refused = reasons(produce(client, *map(new, values), codec=codec))
    assert refused == {
        1: "value of record 1: The value does not begin with a schema id (the subject is orders-value)",
        2: f"value of record 2: the subject orders-value has no schema with the id {wrong}; users-value has it",
        3: "value of record 3: the subject orders-value has no schema with the id 99; nor has any other",
        6: "value of record 6: The value does not begin with a schema id (the subject is orders-value)",
    }
    assert broker.records("orders") == []
    accepted = produce(client, new(with_id(right)), new(None), new(with_id(right, b"anything")), codec=codec)
    assert (accepted.error_code, accepted.base_offset) == (0, 0)


def test_the_line_of_the_request_has_the_reason() -> None:
    with Broker(journal=True) as broker, SocketClient(broker.address) as client:
        broker.create_topic("orders", configs={VALUE: "true"})
        produce(client, new(b"plain"))
        (entry,) = broker.requests.entries(error="INVALID_RECORD")
    assert ": INVALID_RECORD (value of record 0: The value does not begin with a schema id" in str(entry)


def test_a_topic_without_the_setting_takes_everything(broker: Broker, client: SocketClient) -> None:
    broker.create_topic("orders", configs={VALUE: "false", KEY: "false"})
    assert produce(client, new(b"anything", b"key")).error_code == 0


def test_schemas_count_as_they_come_and_go(broker: Broker, rest: Rest, client: SocketClient) -> None:
    broker.create_topic("orders", configs={VALUE: "true"})
    assert reasons(produce(client, new(with_id(1)))).keys() == {0}
    first, second = rest.register("orders-value", V1), rest.register("orders-value", V2)
    assert produce(client, new(with_id(first)), new(with_id(second))).error_code == 0
    rest.delete("/subjects/orders-value/versions/1")
    assert reasons(produce(client, new(with_id(first)), new(with_id(second)))).keys() == {0}
    rest.put("/config/orders-value", {"alias": "orders"})
    assert reasons(produce(client, new(with_id(second)))).keys() == {0}
    assert produce(client, new(with_id(rest.register("orders", OTHER)))).error_code == 0
    broker.delete_topic("_schemas")
    assert reasons(produce(client, new(with_id(second)))).keys() == {0}


def test_keys_are_checked_apart(broker: Broker, rest: Rest, client: SocketClient) -> None:
    broker.create_topic("orders", configs={KEY: "true", **strategy("RecordNameStrategy")})
    id_ = rest.register("orders-key", '"long"')
    assert produce(client, new(b"anything", with_id(id_)), new(b"anything")).error_code == 0
    assert reasons(produce(client, new(with_id(id_), b"key"))) == {
        0: "key of record 0: The key does not begin with a schema id (the subject is orders-key)"
    }


def test_an_id_in_a_header_counts(broker: Broker, rest: Rest, client: SocketClient) -> None:
    broker.create_topic("orders", configs={VALUE: "true"})
    id_ = rest.register("orders-value", V1)
    guid = uuid.UUID(rest.ask("GET", "/subjects/orders-value/versions/1", None, LENIENT).body["guid"])
    known, unknown = (
        new(b"\x0e", headers=(("__value_schema_id", b"\1" + guid.bytes),)) for guid in (guid, uuid.UUID(int=7))
    )
    assert produce(client, known, new(with_id(id_))).error_code == 0
    wrong = new(with_id(id_), headers=(("__value_schema_id", b"\1"),))
    assert reasons(produce(client, new(with_id(id_)), unknown, known, wrong)).keys() == {1, 3}


@pytest.mark.parametrize(("name", "prefix"), [("RecordNameStrategy", ""), ("TopicRecordNameStrategy", "orders-")])
def test_the_subject_can_follow_from_the_name_of_the_record(
    broker: Broker, rest: Rest, client: SocketClient, name: str, prefix: str
) -> None:
    broker.create_topic("orders", configs={VALUE: "true", **strategy(name)})
    avro = rest.register(f"{prefix}shop.Order", record(name="Order", namespace="shop"))
    json = rest.register(f"{prefix}Order", JSON, schemaType="JSON")
    protobuf = rest.register(f"{prefix}p.B.C", PROTOBUF, schemaType="PROTOBUF")
    rest.register("orders-value", V1)
    good = [with_id(avro, b""), with_id(json, b"{}"), with_id(protobuf, b"\4\2\0")]
    assert produce(client, *map(new, good)).error_code == 0
    other_message = with_id(protobuf, b"\0")
    refused = reasons(produce(client, *map(new, [*good, other_message, with_id(99)])))
    assert refused == {
        3: f"value of record 3: the subject {prefix}p.A has no schema with the id {protobuf}; {prefix}p.B.C has it",
        4: f"value of record 4: No schema has the id 99 (the subject is chosen by {name})",
    }


@pytest.fixture(scope="module")
def full() -> Iterator[Broker]:
    with Broker(registry=True, config={"minibroker.schema.validation": "full"}) as broker:
        yield broker


def test_the_whole_value_is_checked_on_request(full: Broker) -> None:
    full.reset()
    full.create_topic("orders", configs={VALUE: "true"})
    with SocketClient(full.address) as client, Rest(full.registry_url) as rest:
        order = rest.register("orders-value", JSON, schemaType="JSON")
        other = rest.register("other", V1)
        good = new(with_id(order, b'{"id":7}'))
        assert produce(client, good, new(None)).error_code == 0
        bad = [new(with_id(order, b'{"id":"7"}')), new(with_id(order, b"{")), new(with_id(other))]
        refused = reasons(produce(client, good, *bad))
    assert refused.keys() == {1, 2, 3}
    assert refused[1].startswith("value of record 1: ")
    assert "'7' is not of type 'integer'" in refused[1]
    assert refused[1].endswith(" (the subject is orders-value)")


@pytest.mark.torture
def test_others_are_served_while_a_large_value_is_decoded(full: Broker) -> None:
    full.reset()
    full.create_topic("orders", configs={VALUE: "true"})
    with SocketClient(full.address) as client, SocketClient(full.address) as other, Rest(full.registry_url) as rest:
        id_ = rest.register("orders-value", '{"items":{"type":"integer"}}', schemaType="JSON")
        for end in (b"0]", b'"0"]'):
            value = with_id(id_, b"[" + b"0," * 100_000 + end)
            client.send(produce_request(build_batch([new(value)]), "orders"), 9)
            other.send(ApiVersionsRequest(), 3)
            other.receive()
            assert not select.select([client.socket], [], [], 0)[0]
            _, response = client.receive()
            (outcome,) = response.responses[0].partition_responses
            assert outcome.error_code == (0 if end == b"0]" else ErrorCode.INVALID_RECORD)


def test_large_batches_are_checked_while_others_are_served(broker: Broker, rest: Rest, client: SocketClient) -> None:
    broker.create_topic("orders", configs={VALUE: "true"})
    good = new(with_id(rest.register("orders-value", V1)))
    assert produce(client, *[good] * 5000).error_code == 0
    assert reasons(produce(client, *[good] * 4999, new(b"bad"))).keys() == {4999}


def test_the_settings_are_shown_where_they_are_set(broker: Broker, client: SocketClient) -> None:
    broker.create_topic("orders", configs={VALUE: "true"})
    broker.create_topic("plain")
    shown: dict[str, list[str]] = {}
    for topic in ("orders", "plain"):
        resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
        client.send(DescribeConfigsRequest(resources=[resource]), 4)
        _, response = client.receive()
        shown[topic] = [entry.name for entry in response.results[0].configs if "schema" in entry.name]
    assert shown == {"orders": [VALUE], "plain": []}
