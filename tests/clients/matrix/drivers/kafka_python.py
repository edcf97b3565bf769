"""kafka-python from 1.4.7 to 3.0, the one of the tests or one from a folder.

Arguments: the folder or -, the bootstrap address, a prefix, and perhaps the version that it is to take the broker for,
such as 0.8.2: then it asks for none.
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.clients.kafka_versions import import_kafka
from tests.clients.matrix.drivers import harness

FOLDER, BOOTSTRAP, PREFIX, *ASKED = sys.argv[1:]
TIMEOUT = harness.PATIENCE
GROUP_TIMES = {"session_timeout_ms": harness.SESSION_MS, "heartbeat_interval_ms": 300}


kafka: Any = import_kafka(None if FOLDER == "-" else FOLDER)
MAJOR = int(kafka.__version__.split(".")[0])
VERSION = tuple(int(part) for part in kafka.__version__.split(".")[:2])
TOLD = tuple(int(part) for part in ASKED[0].split(".")) if ASKED else None
COMMON: dict[str, Any] = {
    "bootstrap_servers": BOOTSTRAP,
    **({"api_version": TOLD} if TOLD else {}),
    # Before version 3 it waits for two seconds for what tells it the version of a broker.
    **({"api_version_auto_timeout_ms": int(TIMEOUT * 1_000)} if MAJOR < 3 else {}),
}


class Opened:
    """A client that is closed at the end of a block."""

    def __init__(self, client: Any, **close: Any) -> None:
        self._client = client
        self._close = close

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close(**self._close)


def admin() -> Opened:
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return Opened(kafka.KafkaAdminClient(**COMMON))
        except kafka.errors.NodeNotReadyError:  # 1.4 gives a connection two seconds, whatever it is told
            if time.monotonic() > deadline:
                raise


def producer(**options: Any) -> Opened:
    if MAJOR == 3 and "transactional_id" not in options:
        options.setdefault("enable_idempotence", False)
    return Opened(kafka.KafkaProducer(**{**COMMON, "acks": "all", **options}))


def consumer(*topics: str, **options: Any) -> Opened:
    opened = kafka.KafkaConsumer(*topics, **{**COMMON, "auto_offset_reset": "earliest", **options})
    if MAJOR == 3:
        # A member that joins before it knows its topic joins again, and may then take itself for joined too early.
        for topic in topics:
            opened.partitions_for_topic(topic)
    return Opened(opened)


def new_topic(name: str, partitions: int = 1) -> str:
    """A topic that is there afterwards; a client told of an old broker has no admin API and lets its use make it."""
    topic = f"{PREFIX}-{name}"
    if TOLD:
        with producer() as each:
            harness.eventually(lambda: each.partitions_for(topic))
        return topic
    with admin() as each:
        answer = each.create_topics([kafka.admin.NewTopic(topic, partitions, 1)])
        assert "error_code=0" in str(answer).replace("'error_code': 0", "error_code=0") or MAJOR < 3, answer
    return topic


def send(topic: str, values: Sequence[bytes | None], options: dict[str, Any] | None = None, **record: Any) -> list[Any]:
    with producer(**(options or {})) as each:
        futures = [each.send(topic, value=value, partition=0, **record) for value in values]
        each.flush(TIMEOUT)
        return [future.get(TIMEOUT) for future in futures]


def read(topic: str, count: int, start: int = 0, **options: Any) -> list[Any]:
    with consumer(group_id=None, **options) as each:
        partition = kafka.TopicPartition(topic, 0)
        each.assign([partition])
        each.seek(partition, start)
        return poll(each, count)


def poll(each: Any, count: int, seconds: float = TIMEOUT) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for records in each.poll(timeout_ms=200).values():
            found += records
    return found


def round_trip(name: str, **options: Any) -> None:
    topic = new_topic(name)
    values = [b"%d" % number * 50 for number in range(20)]
    answers = send(topic, values, options)
    assert options.get("acks") == 0 or [answer.offset for answer in answers] == list(range(20)), answers
    assert [record.value for record in read(topic, 20)] == values


def big_records() -> None:
    topic = new_topic("big-records")
    values = [bytes([number]) * 800_000 for number in range(4)]
    send(topic, values, {"max_request_size": 1_000_000})
    assert [record.value for record in read(topic, 4)] == values


def headers() -> None:
    topic = new_topic("headers")
    some = [("a", b"1"), ("a", b""), ("b", b"\xff")]
    send(topic, [b"v"], headers=some)
    assert [tuple(header) for header in read(topic, 1)[0].headers] == some


def nulls() -> None:
    topic = new_topic("nulls")
    send(topic, [None, b""], key=b"k")
    send(topic, [b"v"])
    send(topic, [b"v"], key=b"")
    assert [(record.key, record.value) for record in read(topic, 4)] == [
        (b"k", None),
        (b"k", b""),
        (None, b"v"),
        (b"", b"v"),
    ]


def create_topic() -> None:
    topic = new_topic("create-topic", 3)
    with consumer() as each:
        harness.eventually(lambda: each.partitions_for_topic(topic) == {0, 1, 2})
    with admin() as each:
        harness.refused(
            lambda: each.create_topics([kafka.admin.NewTopic(topic, 3, 1)]), "TopicAlreadyExists", "topic_already"
        )


def idempotent() -> None:
    round_trip("idempotent", enable_idempotence=True)


def transactional(name: str) -> Opened:
    return producer(transactional_id=f"{PREFIX}-{name}", **({"enable_idempotence": True} if MAJOR < 3 else {}))


def transaction_commit() -> None:
    topic = new_topic("transaction-commit")
    with transactional("commit") as each:
        each.init_transactions()
        for value in (b"1", b"2"):
            each.begin_transaction()
            each.send(topic, value=value, partition=0).get(TIMEOUT)
            each.commit_transaction()
    assert [record.value for record in read(topic, 2, isolation_level="read_committed")] == [b"1", b"2"]


def transaction_abort() -> None:
    topic = new_topic("transaction-abort")
    with transactional("abort") as each:
        each.init_transactions()
        each.begin_transaction()
        each.send(topic, value=b"aborted", partition=0).get(TIMEOUT)
        each.abort_transaction()
        each.begin_transaction()
        each.send(topic, value=b"committed", partition=0).get(TIMEOUT)
        each.commit_transaction()
    assert [record.value for record in read(topic, 1, isolation_level="read_committed")] == [b"committed"]
    assert [record.value for record in read(topic, 2)] == [b"aborted", b"committed"]


def transaction_offsets() -> None:
    topic = new_topic("transaction-offsets")
    group = f"{PREFIX}-transaction-offsets"
    partition = kafka.TopicPartition(topic, 0)
    with transactional("offsets") as each:
        each.init_transactions()
        each.begin_transaction()
        each.send(topic, value=b"v", partition=0)
        each.send_offsets_to_transaction({partition: offset_and_metadata(1)}, group)
        each.commit_transaction()
    with consumer(group_id=group) as each:
        each.assign([partition])
        assert each.committed(partition) == 1


def offset_and_metadata(offset: int) -> Any:
    return kafka.OffsetAndMetadata(*(offset, "", -1)[: len(kafka.OffsetAndMetadata._fields)])


def position(each: Any, partition: Any) -> int:
    """The position of a consumer that may still have to ask for it.

    `position()` of version 2.2 reads no answers: only `poll()` does. While the answer to ListOffsets is under way it
    asks itself again and again, without an end and whatever its time limit, with any broker. So it has to wait until
    a fetch was answered, which tells the high watermark.
    """
    if VERSION == (2, 2):
        harness.eventually(lambda: (each.poll(timeout_ms=100), each.highwater(partition))[1] is not None)
    found: int = each.position(partition)
    return found


def earliest() -> None:
    topic = new_topic("earliest")
    send(topic, [b"1", b"2"])
    with consumer(topic, group_id=None) as each:
        assert [record.value for record in poll(each, 2)] == [b"1", b"2"]
        partition = kafka.TopicPartition(topic, 0)
        assert each.beginning_offsets([partition]) == {partition: 0}
        assert each.end_offsets([partition]) == {partition: 2}


def latest() -> None:
    topic = new_topic("latest")
    send(topic, [b"1", b"2"])
    with consumer(topic, group_id=None, auto_offset_reset="latest") as each:
        partition = kafka.TopicPartition(topic, 0)
        harness.eventually(lambda: (each.poll(timeout_ms=100), each.assignment())[1])
        assert position(each, partition) == 2
        send(topic, [b"3"])
        assert [record.value for record in poll(each, 1)] == [b"3"]


def timestamp() -> None:
    topic = new_topic("timestamp")
    for number in range(3):
        send(topic, [b"%d" % number], timestamp_ms=1_000_000 * (number + 1))
    with consumer() as each:
        partition = kafka.TopicPartition(topic, 0)
        found = each.offsets_for_times({partition: 1_000_001})[partition]
        assert (found.offset, found.timestamp) == (1, 2_000_000), found
        assert each.offsets_for_times({partition: 3_000_001})[partition] is None


def seek() -> None:
    topic = new_topic("seek")
    send(topic, [b"%d" % number for number in range(5)])
    assert [record.value for record in read(topic, 2, start=3)] == [b"3", b"4"]
    assert read(topic, 5, start=99)[0].offset == 0  # out of range: from the earliest one on


def auto_create() -> None:
    topic = f"{PREFIX}-auto-create"
    send(topic, [b"v"])
    assert read(topic, 1)[0].value == b"v"


def group_resume() -> None:
    topic = new_topic("group-resume")
    send(topic, [b"1", b"2", b"3"])
    group = f"{PREFIX}-group-resume"
    times = GROUP_TIMES if not TOLD or TOLD >= (0, 9) else {}
    with consumer(topic, group_id=group, enable_auto_commit=False, max_poll_records=1, **times) as each:
        assert poll(each, 1)[0].value == b"1"
        each.commit({kafka.TopicPartition(topic, 0): offset_and_metadata(1)})
        assert each.committed(kafka.TopicPartition(topic, 0)) == 1
    with consumer(topic, group_id=group, enable_auto_commit=False, **times) as each:
        assert [record.value for record in poll(each, 2)] == [b"2", b"3"]


class Member(threading.Thread):
    """A member of a group on a thread of its own, since some versions wait for a rebalance inside poll()."""

    def __init__(self, topic: str, group: str) -> None:
        super().__init__(daemon=True)
        self._place = topic, group
        self._over = threading.Event()
        self.partitions = 0
        self.start()

    def run(self) -> None:
        topic, group = self._place
        with consumer(topic, group_id=group, **GROUP_TIMES) as each:
            while not self._over.is_set():
                each.poll(timeout_ms=100)
                self.partitions = len(each.assignment())

    def leave(self) -> None:
        self._over.set()
        self.join(TIMEOUT)


def group_rebalance() -> None:
    topic = new_topic("group-rebalance", 4)
    group = f"{PREFIX}-group-rebalance"
    first = Member(topic, group)
    harness.eventually(lambda: first.partitions == 4)
    second = Member(topic, group)
    harness.eventually(lambda: first.partitions == second.partitions == 2)
    second.leave()
    harness.eventually(lambda: first.partitions == 4)
    first.leave()


def static_member() -> None:
    topic = new_topic("static-member")
    group = f"{PREFIX}-static-member"
    for _ in range(2):
        with consumer(topic, group_id=group, group_instance_id="one", **GROUP_TIMES) as each:
            harness.eventually(lambda member=each: (member.poll(timeout_ms=1_000), member.assignment())[1])  # type: ignore[misc] # bound at once
    with admin() as each:
        assert "one" in str(each.describe_groups([group]))


CHECKS: dict[str, Callable[[], None]] = {
    "create-topic": create_topic,
    "produce": lambda: round_trip("produce"),
    "acks-1": lambda: round_trip("acks-1", acks=1),
    "acks-0": lambda: round_trip("acks-0", acks=0),
    **{codec: partial(round_trip, codec, compression_type=codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
    "big-records": big_records,
    "headers": headers,
    "nulls": nulls,
    "idempotent": idempotent,
    "transaction-commit": transaction_commit,
    "transaction-abort": transaction_abort,
    "transaction-offsets": transaction_offsets,
    "earliest": earliest,
    "latest": latest,
    "timestamp": timestamp,
    "seek": seek,
    "auto-create": auto_create,
    "group-resume": group_resume,
    "group-rebalance": group_rebalance,
    "static-member": static_member,
}


def lacking() -> set[str]:
    """The features that this version of the client does not have, or not with a broker of the configured version."""
    no: set[str] = set()
    if MAJOR == 1:
        no |= {"zstd"}
    if VERSION < (2, 2):
        no |= {"idempotent", "transaction-commit", "transaction-abort", "transaction-offsets"}
    if MAJOR < 3:
        no |= {"static-member"}
    if TOLD:
        no |= {"create-topic", "group-rebalance", "idempotent", "zstd"}
        if TOLD < (0, 11):
            no |= {"headers"}
        if TOLD < (0, 10, 1):
            no |= {"timestamp"}
        if TOLD < (0, 10):
            no |= {"lz4"}
    return no


if __name__ == "__main__":
    checks = {name: check for name, check in CHECKS.items() if name not in lacking()}
    if not TOLD:
        from tests.clients.matrix.drivers.kafka_python_admin import Admin

        checks |= Admin(sys.modules[__name__]).checks()
    harness.run(checks)
