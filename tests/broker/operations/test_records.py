"""Writing and reading records from Python, without a client."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from minibroker import Broker
from minibroker.cluster.errors import OperationError
from minibroker.operations.producing import Message
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders:3"]) as running:
        yield running


def values(broker: Broker, topic: str, **options: object) -> list[bytes | None]:
    return [record.value for record in broker.records(topic, **options)]  # type: ignore[call-overload]  # what it takes


def test_what_is_produced_is_read_back(broker: Broker) -> None:
    places = broker.produce("plain", b"\x00\xff", "text", {"id": 1, "name": "Ä"}, 7, None)
    assert [(position.topic, position.partition, position.offset) for position in places] == [
        ("plain", 0, n) for n in range(5)
    ]
    records = broker.records("plain")
    assert [record.value for record in records] == [
        b"\x00\xff", b"text", '{"id":1,"name":"Ä"}'.encode(), b"7", None,
    ]  # fmt: skip
    assert (records[1].text(), records[2].json(), records[4].json()) == ("text", {"id": 1, "name": "Ä"}, None)
    assert values(broker, "plain", start=3) == [b"7", None]
    assert (records[0].timestamp_type, records[0].message_format, records[0].codec) == ("CreateTime", 2, "none")


def test_keys_headers_and_timestamps(broker: Broker) -> None:
    broker.produce("keyed", "a", "b", key="k", headers={"trace": "1", "none": None}, timestamp=1_700_000_000_000)
    broker.produce("keyed", Message("c", key={"id": 1}, headers=[("h", b"1"), ("h", b"2")]), "d")
    first, _, third, last = broker.records("keyed")
    assert (first.key, first.key_text(), first.timestamp) == (b"k", "k", 1_700_000_000_000)
    assert first.headers == (("trace", b"1"), ("none", None))
    assert (third.key, third.header("h"), third.header("x")) == (b'{"id":1}', b"2", None)
    assert (last.key, last.headers) == (None, ())


def test_keys_go_where_clients_send_them(broker: Broker) -> None:
    keys = [f"key-{number}" for number in range(20)]
    ours = broker.produce("orders", *(Message("x", key=key) for key in keys))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce("orders", key, key)
    producer.flush(PATIENCE_S)
    expected = {r.key_text(): r.partition for r in broker.records("orders") if r.value == r.key}
    assert [place.partition for place in ours] == [expected[key] for key in keys]


def test_records_without_a_key_take_turns(broker: Broker) -> None:
    broker.create_topic("turns", 3)
    places = [*broker.produce("turns", 1, 2, 3, 4), *broker.produce("turns", 5, 6)]
    assert [position.partition for position in places] == [0, 1, 2, 0, 1, 2]
    assert values(broker, "turns", partition=1) == [b"2", b"5"]


@pytest.mark.parametrize("message_format", ["v0", "v1"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_old_formats_are_stored_and_consumed(broker: Broker, message_format: str, codec: str) -> None:
    topic = f"old-{message_format}-{codec}"
    broker.produce(topic, "a", "b", key="k", message_format=message_format, codec=codec)  # type: ignore[arg-type]  # literals
    broker.produce(topic, "c")
    records = broker.records(topic)
    assert [(record.offset, record.value, record.message_format) for record in records] == [
        (0, b"a", int(message_format[1])),
        (1, b"b", int(message_format[1])),
        (2, b"c", 2),
    ]
    assert records[0].codec == codec
    assert records[0].timestamp_type == ("NoTimestampType" if message_format == "v0" else "CreateTime")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "old"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consumer.consume(3, PATIENCE_S)] == [b"a", b"b", b"c"]
    consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_of_the_newest_format(broker: Broker, codec: str) -> None:
    topic = f"new-{codec}"
    broker.produce(topic, *range(1000), codec=codec)  # type: ignore[arg-type]  # literals
    records = broker.records(topic)
    assert [record.json() for record in records] == list(range(1000))
    assert {record.codec for record in records} == {codec}


def test_many_records_are_batches_of_a_size_that_the_topic_allows(broker: Broker) -> None:
    broker.create_topic("small", 1, configs={"max.message.bytes": 1000})
    broker.produce("small", *("x" * 400 for _ in range(10)))
    assert len(broker.records("small")) == 10
    with pytest.raises(OperationError, match=r"small-0: a batch of 2\d{3} bytes, but max.message.bytes is 1000"):
        broker.produce("small", "x" * 2000)


def test_only_committed_records_are_shown_unless_all_are_asked_for(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    for value, end in ((b"committed", producer.commit_transaction), (b"aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("transactions", value)
        producer.flush(PATIENCE_S)
        end(10)
    producer.begin_transaction()
    producer.produce("transactions", b"open")
    producer.flush(PATIENCE_S)
    assert values(broker, "transactions") == [b"committed"]
    assert values(broker, "transactions", isolation="read_uncommitted") == [b"committed", b"aborted", b"open"]
    producer.abort_transaction(PATIENCE_S)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"message_format": "v3"}, "message_format: 'v3' is not one of v0, v1, v2"),
        (
            {"codec": "zip"},
            "codec: 'zip' is not a codec of message format v2; give one of none, gzip, snappy",
        ),
        (
            {"codec": "zstd", "message_format": "v1"},
            "codec: 'zstd' is not a codec of message format v1; ",
        ),
        ({"headers": {"h": "1"}, "message_format": "v0"}, "headers: format v0 does not have any"),
        ({"timestamp": -2}, "timestamp: -2 is negative"),
        ({"partition": 3}, "partition: topic 'orders' has no partition 3"),
        ({"timestamp": 1.5}, "timestamp: 1.5 is not a whole number of milliseconds"),
        ({"partition": "0"}, "topic 'orders' has no partition '0'"),
        ({"headers": {1: "a"}}, "headers: 1 is not a str"),
        ({"headers": "abc"}, "headers: 'abc' is neither a mapping nor a list"),
        ({"headers": [("a",)]}, r"headers: \('a',\) is not a pair of name and value"),
        ({"key": "\ud800"}, "key: .* is neither bytes nor text, and no JSON"),
        ({"key": {"a": float("nan")}}, "key: .* is neither bytes nor text, and no JSON"),
        ({"key": object()}, "key: <object .*> is neither bytes nor text, and no JSON"),
    ],
)
def test_what_cannot_be_written_is_refused(broker: Broker, arguments: dict[str, object], complaint: str) -> None:
    before = len(broker.records("orders"))
    with pytest.raises(OperationError, match=complaint):
        broker.produce("orders", "x", **arguments)  # type: ignore[arg-type]  # that is the point
    assert len(broker.records("orders")) == before


def test_topics_that_there_are_not(broker: Broker) -> None:
    with pytest.raises(OperationError, match="there is no topic 'nowhere'; topics: "):
        broker.records("nowhere")
    with pytest.raises(OperationError, match="topic 'orders' has no partition 9; it has 3 partitions, numbered from 0"):
        broker.records("orders", partition=9)
    with pytest.raises(OperationError, match="isolation: 'dirty'"):
        broker.records("orders", isolation="dirty")  # type: ignore[call-overload]  # that is the point
    with Broker(config={"auto.create.topics.enable": False}) as strict, pytest.raises(OperationError, match="no topic"):
        strict.produce("nowhere", "x")


def test_fresh_topics_have_names_of_their_own(broker: Broker) -> None:
    names = [broker.fresh_topic("orders", 2) for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("orders-") and broker.topics()[name].partitions == 2 for name in names)


def test_topics_are_created_described_and_deleted(broker: Broker) -> None:
    description = broker.create_topic("made", 2, configs={"retention.ms": 60_000, "preallocate": False})
    assert (description.name, description.partitions, description.is_internal) == ("made", 2, False)
    assert description.configs == {"retention.ms": "60000", "preallocate": "false"}
    assert broker.topics()["made"] == description
    with pytest.raises(OperationError, match="topic 'made': Topic 'made' already exists"):
        broker.create_topic("made")
    broker.delete_topic("made")
    assert "made" not in broker.topics()
    with pytest.raises(OperationError, match="there is no topic 'made'"):
        broker.delete_topic("made")
