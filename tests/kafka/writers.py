"""Topics of every kind, written through real clients into whichever broker it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.kafka.answers import answers
from tests.patience import PATIENCE_S, eventually

MOVED_TO: Final = 77
FIRST: Final = 1_700_000_000_000
SMALL_SEGMENTS: Final = {"segment.bytes": "3000", "index.interval.bytes": "300"}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "3000",
    "index.interval.bytes": "300",
    "min.cleanable.dirty.ratio": "0.01",
}
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")

TOPICS: Final[dict[str, Mapping[str, str]]] = {
    "plain": {},
    **dict.fromkeys(CODECS, SMALL_SEGMENTS),
    "segments": SMALL_SEGMENTS,
    "recent": {},
    "append-time": {"message.timestamp.type": "LogAppendTime", **SMALL_SEGMENTS},
    "compacted": COMPACTED,
    "moved": SMALL_SEGMENTS,
    "empty": {},
}
"""The records that every broker can write, and the configuration of each topic."""

TRANSACTIONAL: Final[dict[str, Mapping[str, str]]] = {
    "transactions": {**SMALL_SEGMENTS, "segment.bytes": "2500"},
    "ongoing": {},
}
"""The records that need a broker with transactions."""


def create(bootstrap: str, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Create the topics, with one partition each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, 1, 1, config=dict(config)) for name, config in topics.items()]
    for future in admin.create_topics(new).values():
        future.result(PATIENCE_S)


def write_all(bootstrap: str, checkpoint: Path) -> None:
    """Fill `TOPICS`. `checkpoint` is the broker's cleaner-offset-checkpoint, which tells when the cleaner is done."""
    write(bootstrap, "plain", 60, batch=7)
    for codec in CODECS:
        write(bootstrap, codec, 140, batch=7, codec=codec)
    write(bootstrap, "segments", 200, batch=5, idempotent=True)
    write(bootstrap, "recent", 20, batch=4, idempotent=True, recent=True)  # its producer is not forgotten
    write(bootstrap, "append-time", 80, batch=5)
    write(bootstrap, "moved", 150, batch=5)
    delete_before(bootstrap, "moved", MOVED_TO)
    write_compacted(bootstrap, checkpoint)


def write(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    batch: int,
    codec: str = "none",
    start: int = 0,
    idempotent: bool = False,
    headers: bool = True,
    recent: bool = False,
) -> None:
    """Records with and without keys, values and headers, whose times go back here and there, or are of now."""
    producer = _producer(bootstrap, {"compression.type": codec, "enable.idempotence": idempotent})
    producer.list_topics(topic, timeout=PATIENCE_S)  # or the first record would wait half a second for a leader
    records = [_record(topic, number, headers=headers) for number in range(start, start + count)]
    if recent:
        for record in records:
            del record["timestamp"]
    with_batches(producer, batch, records)


def _record(topic: str, number: int, *, headers: bool = True) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": 0,
        "key": None if number % 5 == 3 else b"key-%d" % (number % 10),
        "value": None if number % 11 == 7 else b"value %d " % number * 9,
        "headers": [("number", b"%d" % number), ("none", None)] if headers and number % 4 == 0 else [],
        "timestamp": FIRST + 1_000 * number - (30_500 if number % 13 == 5 else 0),
    }


def write_compacted(bootstrap: str, checkpoint: Path) -> None:
    """Keys written again and again, some deleted; then wait until the cleaner has nothing left to do.

    Every segment keeps a record. Kafka takes one without any for as young as its file is, and finds no time in it, nor
    in those behind it.
    """
    producer = _producer(bootstrap, {})
    records = [
        {
            "topic": "compacted",
            "partition": 0,
            "key": b"key-%d" % (number % 17 if number % 3 else number % 40) if number % 20 else b"once-%d" % number,
            "value": None if number % 19 == 4 else b"value %d " % number * 5,
            "timestamp": FIRST + 1_000 * number,
        }
        for number in range(400)
    ]
    with_batches(producer, 4, records)
    eventually(lambda: _is_clean(checkpoint))
    assert len(answers(bootstrap, "compacted").records) < 200


def _is_clean(checkpoint: Path) -> bool:
    """Has the cleaner come to the active segment? Nothing behind it can be cleaned."""
    active = max(checkpoint.parent.joinpath("compacted-0").glob("*.log"))
    try:
        return f"compacted 0 {int(active.stem)}\n" in checkpoint.read_text()
    except FileNotFoundError:
        return False


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    """DeleteRecords."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        assert future.result(PATIENCE_S).low_watermark == offset


def write_transactions(bootstrap: str) -> None:
    """Fill `TRANSACTIONAL`: transactions of two producers at a time, commits and aborts; the last one stays open."""
    first, second = (_producer(bootstrap, {"transactional.id": name}) for name in ("first", "second"))
    for producer in (first, second):
        producer.init_transactions(PATIENCE_S)
    number = 0
    for turn in range(5):
        for producer in (first, second):
            producer.begin_transaction()
        for producer in (first, second, first):
            with_batches(producer, 3, [_record("transactions", number + by) for by in range(9)])
            number += 9
        with_batches(_producer(bootstrap, {}), 2, [_record("transactions", number + by) for by in range(4)])
        number += 4
        for producer, aborts in ((second, turn % 2 == 0), (first, turn % 3 == 0)):
            if aborts:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
    write(bootstrap, "ongoing", 10, batch=2)
    first.begin_transaction()
    with_batches(first, 2, [_record("ongoing", number) for number in range(10, 16)])
    write(bootstrap, "ongoing", 10, batch=2, start=16)


def with_batches(producer: Producer, size: int, records: Sequence[Mapping[str, Any]]) -> None:
    """Produce the records in batches of `size`. AssertionError unless all are acknowledged in time."""
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for start in range(0, len(records), size):
        for record in records[start : start + size]:
            producer.produce(**record, on_delivery=delivered)
        assert producer.flush(PATIENCE_S) == 0
    if failures:
        raise KafkaException(failures[0])


def _producer(bootstrap: str, options: Mapping[str, Any]) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 1,
            "enable.idempotence": True,
            "transaction.timeout.ms": 600_000,
            "log_level": 0,  # what goes wrong is raised
            **options,
        }
    )
