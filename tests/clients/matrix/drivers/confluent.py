"""confluent-kafka, that is librdkafka: producing, reading, groups. Arguments: the bootstrap address and a prefix."""

import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.matrix.drivers import confluent_admin, harness

if TYPE_CHECKING:
    from concurrent.futures import Future

BOOTSTRAP, PREFIX = sys.argv[1:]
TIMEOUT = harness.PATIENCE
COMMON: dict[str, Any] = {"bootstrap.servers": BOOTSTRAP, "log_level": 2}
GROUP_TIMES = {"session.timeout.ms": harness.SESSION_MS, "heartbeat.interval.ms": 300}
T = TypeVar("T")


@functools.cache
def admin() -> Any:
    """The one admin client: what it has been asked ends with it."""
    return AdminClient(COMMON)


def only(futures: dict[Any, "Future[T]"]) -> T:
    """The result of the one thing that was asked for."""
    (future,) = futures.values()
    return future.result(TIMEOUT)


def new_topic(name: str, partitions: int = 1) -> str:
    topic = f"{PREFIX}-{name}"
    only(admin().create_topics([NewTopic(topic, partitions, 1)]))
    return topic


def send(topic: str, values: Sequence[bytes | None], options: dict[str, Any] | None = None, **record: Any) -> None:
    each = Producer({**COMMON, **(options or {})})
    errors: list[KafkaError | None] = []
    for value in values:
        each.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error), **record)
    assert each.flush(TIMEOUT) == 0, "not all was delivered"
    assert not any(errors), errors


class Reader:
    """A consumer for the time of a block."""

    def __init__(self, group: str | None = None, **options: Any) -> None:
        named = {name.replace("_", "."): value for name, value in options.items()}
        reset = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": group or f"{PREFIX}-none"}
        self._consumer = Consumer({**COMMON, **reset, **named})

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def poll(each: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for message in each.consume(count - len(found), 0.2):
            if message.error():
                raise KafkaException(message.error())
            found.append(message)
    return found


def read(topic: str, count: int, start: int = 0, **options: Any) -> list[Any]:
    with Reader(**options) as each:
        each.assign([TopicPartition(topic, 0, start)])
        return poll(each, count)


def values_of(records: Sequence[Any]) -> list[bytes | None]:
    return [record.value() for record in records]


def round_trip(name: str, **options: Any) -> None:
    topic = new_topic(name)
    values: list[bytes | None] = [b"%d" % number * 50 for number in range(20)]
    send(topic, values, {key.replace("_", "."): value for key, value in options.items()})
    assert values_of(read(topic, 20)) == values


def create_topic() -> None:
    topic = new_topic("create-topic", 3)
    harness.refused(lambda: only(admin().create_topics([NewTopic(topic, 3, 1)])), "TOPIC_ALREADY_EXISTS")


def big_records() -> None:
    topic = new_topic("big-records")
    values: list[bytes | None] = [bytes([number]) * 800_000 for number in range(4)]
    send(topic, values)
    assert values_of(read(topic, 4)) == values


def headers() -> None:
    topic = new_topic("headers")
    some = [("a", b"1"), ("a", b""), ("b", None)]
    send(topic, [b"v"], headers=some)
    assert read(topic, 1)[0].headers() == some


def nulls() -> None:
    topic = new_topic("nulls")
    send(topic, [None, b""], key=b"k")
    send(topic, [b"v"])
    found = [(record.key(), record.value()) for record in read(topic, 3)]
    assert found == [(b"k", None), (b"k", b""), (None, b"v")], found


def transactional(name: str) -> Producer:
    each = Producer({**COMMON, "transactional.id": f"{PREFIX}-{name}"})
    each.init_transactions(TIMEOUT)
    return each


def transaction_commit() -> None:
    topic = new_topic("transaction-commit")
    each = transactional("commit")
    for value in (b"1", b"2"):
        each.begin_transaction()
        each.produce(topic, value, partition=0)
        each.commit_transaction(TIMEOUT)
    assert values_of(read(topic, 2, isolation_level="read_committed")) == [b"1", b"2"]


def transaction_abort() -> None:
    topic = new_topic("transaction-abort")
    each = transactional("abort")
    each.begin_transaction()
    each.produce(topic, b"aborted", partition=0)
    each.flush(TIMEOUT)
    each.abort_transaction(TIMEOUT)
    each.begin_transaction()
    each.produce(topic, b"committed", partition=0)
    each.commit_transaction(TIMEOUT)
    assert values_of(read(topic, 1, isolation_level="read_committed")) == [b"committed"]
    assert values_of(read(topic, 2, isolation_level="read_uncommitted")) == [b"aborted", b"committed"]


def transaction_offsets() -> None:
    topic = new_topic("transaction-offsets")
    group = f"{PREFIX}-transaction-offsets"
    send(topic, [b"1"])
    each = transactional("offsets")
    with Reader(group, isolation_level="read_committed") as reader:
        reader.subscribe([topic])
        poll(reader, 1)
        each.begin_transaction()
        each.produce(topic, b"v", partition=0)
        each.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], reader.consumer_group_metadata(), TIMEOUT)
        each.commit_transaction(TIMEOUT)
        assert reader.committed([TopicPartition(topic, 0)], TIMEOUT)[0].offset == 1


def earliest() -> None:
    topic = new_topic("earliest")
    send(topic, [b"1", b"2"])
    with Reader(f"{PREFIX}-earliest") as each:
        each.subscribe([topic])
        assert values_of(poll(each, 2)) == [b"1", b"2"]
        assert each.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT) == (0, 2)


def latest() -> None:
    topic = new_topic("latest")
    send(topic, [b"1", b"2"])
    with Reader(f"{PREFIX}-latest", auto_offset_reset="latest") as each:
        each.subscribe([topic])
        harness.eventually(lambda: (each.poll(0.1), each.assignment())[1])

        def sent_and_read() -> object:
            send(topic, [b"3"])
            return each.poll(0.5)

        # Where "latest" is, is asked for after the assignment; so go on sending until something comes.
        harness.eventually(sent_and_read)


def timestamp() -> None:
    topic = new_topic("timestamp")
    for number in range(3):
        send(topic, [b"%d" % number], timestamp=1_000_000 * (number + 1))
    with Reader() as each:
        asked = TopicPartition(topic, 0, 1_000_001)
        assert each.offsets_for_times([asked], TIMEOUT)[0].offset == 1


def seek() -> None:
    topic = new_topic("seek")
    send(topic, [b"%d" % number for number in range(5)])
    with Reader() as each:
        each.assign([TopicPartition(topic, 0, 0)])
        poll(each, 1)
        each.seek(TopicPartition(topic, 0, 3))
        assert values_of(poll(each, 2)) == [b"3", b"4"]
    assert read(topic, 5, start=99)[0].offset() == 0


def auto_create() -> None:
    topic = f"{PREFIX}-auto-create"
    send(topic, [b"v"])
    assert values_of(read(topic, 1)) == [b"v"]


def group_resume() -> None:
    topic = new_topic("group-resume")
    send(topic, [b"1", b"2", b"3"])
    group = f"{PREFIX}-group-resume"
    with Reader(group, **GROUP_TIMES) as each:
        each.subscribe([topic])
        assert values_of(poll(each, 1)) == [b"1"]
        each.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        assert each.committed([TopicPartition(topic, 0)], TIMEOUT)[0].offset == 1
    with Reader(group, **GROUP_TIMES) as each:
        each.subscribe([topic])
        assert values_of(poll(each, 2)) == [b"2", b"3"]


def shared(name: str, **options: Any) -> None:
    topic = new_topic(name, 4)
    group = f"{PREFIX}-{name}"
    with Reader(group, **options) as first:
        first.subscribe([topic])
        harness.eventually(lambda: (first.poll(0.1), len(first.assignment()) == 4)[1])
        with Reader(group, **options) as second:
            second.subscribe([topic])
            harness.eventually(
                lambda: (first.poll(0.1), second.poll(0.1), len(first.assignment()) == len(second.assignment()) == 2)[2]
            )
        harness.eventually(lambda: (first.poll(0.1), len(first.assignment()) == 4)[1])


def static_member() -> None:
    topic = new_topic("static-member")
    group = f"{PREFIX}-static-member"
    for _ in range(2):
        with Reader(group, **{"group.instance.id": "one"}, **GROUP_TIMES) as each:
            each.subscribe([topic])
            harness.eventually(lambda each=each: (each.poll(0.1), each.assignment())[1])  # type: ignore[misc]  # at once
    if confluent_admin.offers("describe_consumer_groups"):
        found = only(admin().describe_consumer_groups([group]))
        assert [member.group_instance_id for member in found.members] == ["one"]


def share_group() -> None:
    topic = new_topic("share-group")
    group = f"{PREFIX}-share-group"
    confluent_admin.begin_at_the_start(admin(), group)
    send(topic, [b"accept", b"release", b"reject"])
    found: list[tuple[bytes, int]] = []
    names = confluent_kafka.AcknowledgeType
    options = {**COMMON, "group.id": group, "share.acknowledgement.mode": "explicit"}
    with confluent_kafka.ShareConsumer(options) as each:
        each.subscribe([topic])
        deadline = time.monotonic() + TIMEOUT
        while len(found) < 4:
            assert time.monotonic() < deadline, found
            records: list[Any] = list(each.poll(0.2))
            for record in records:
                if record.error():
                    raise KafkaException(record.error())
                value, count = record.value(), record.delivery_count()
                found.append((value, count))
                each.acknowledge(record, names[value.decode().upper()] if count == 1 else names.ACCEPT)
            errors = [error for error in each.commit_sync(TIMEOUT).values() if error is not None]
            assert not errors, errors
    assert sorted(found) == [(b"accept", 1), (b"reject", 1), (b"release", 1), (b"release", 2)], found


CHECKS: dict[str, Callable[[], None]] = {
    "create-topic": create_topic,
    "produce": lambda: round_trip("produce"),
    "acks-1": lambda: round_trip("acks-1", acks=1),
    "acks-0": lambda: round_trip("acks-0", acks=0),
    **{
        codec: lambda codec=codec: round_trip(codec, compression_type=codec)  # type: ignore[misc]  # bound at once
        for codec in ("gzip", "snappy", "lz4", "zstd")
    },
    "big-records": big_records,
    "headers": headers,
    "nulls": nulls,
    "idempotent": lambda: round_trip("idempotent", enable_idempotence=True),
    "transaction-commit": transaction_commit,
    "transaction-abort": transaction_abort,
    "transaction-offsets": transaction_offsets,
    "earliest": earliest,
    "latest": latest,
    "timestamp": timestamp,
    "seek": seek,
    "auto-create": auto_create,
    "group-resume": group_resume,
    "group-rebalance": lambda: shared("group-rebalance", **GROUP_TIMES),
    "static-member": static_member,
    "consumer-protocol": lambda: shared("consumer-protocol", group_protocol="consumer"),
    "share-group": share_group,
}


def lacking() -> set[str]:
    """The features that this version of the client does not have."""
    if confluent_kafka.libversion()[1] >= 0x02_00_00_00:
        return set()
    return {"consumer-protocol", "share-group", "zstd"}  # the one that is built for this is built without zstd


if __name__ == "__main__":
    checks = CHECKS | confluent_admin.Admin(sys.modules[__name__]).checks()
    harness.run({name: check for name, check in checks.items() if name not in lacking()})
