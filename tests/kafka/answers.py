"""All that a client can learn about a partition, to be asked of two brokers and compared."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.patience import PATIENCE_S

Headers = tuple[tuple[str, bytes | None], ...]


class Line(NamedTuple):
    """One consumed record; timestamp types are librdkafka's: 0 none, 1 CreateTime, 2 LogAppendTime."""

    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Answers(NamedTuple):
    """A broker's answers about one partition."""

    beginning: int
    end: int
    #: Where a consumer of committed records only comes to the end.
    last_stable_offset: int
    records: list[Line]
    committed: list[Line]
    #: The offset for each of the times that were asked for; -1 is behind the last record.
    times: dict[int, int]


def answers(bootstrap: str, topic: str, times: Sequence[int] | None = None) -> Answers:
    """Ask about partition 0; `times` are those of some of its records unless given.

    AssertionError if an answer does not come in time.
    """
    consumer = _consumer(bootstrap, "read_uncommitted")
    try:
        records, end = _consume(consumer, topic)
        beginning, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        assert high == end
        found = {at: _offset_for(consumer, topic, at) for at in (_times_of(records) if times is None else times)}
    finally:
        consumer.close()
    consumer = _consumer(bootstrap, "read_committed")
    try:
        committed, last_stable_offset = _consume(consumer, topic)
    finally:
        consumer.close()
    return Answers(beginning, end, last_stable_offset, records, committed, found)


def all_answers(bootstrap: str, topics: Iterable[str]) -> dict[str, Answers]:
    """The answers about each topic; a client waits for most of the time, so four of them ask at the same time."""
    names = list(topics)
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(lambda topic: answers(bootstrap, topic), names), strict=True))


def _times_of(lines: Sequence[Line]) -> list[int]:
    """Times that are worth asking for: those of some records, and those beside them."""
    some = [*lines[: -1 : max(1, len(lines) // 5)], *lines[-1:]]
    return sorted({time for line in some if line.timestamp >= 0 for time in (line.timestamp, line.timestamp + 1)})


def _offset_for(consumer: Consumer, topic: str, time: int) -> int:
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, time)], timeout=PATIENCE_S)
    assert found.error is None, found.error
    return int(found.offset)


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 10,  # an empty fetch tells that the end has come
            "fetch.error.backoff.ms": 10,
        }
    )


def _consume(consumer: Consumer, topic: str) -> tuple[list[Line], int]:
    """Every record, and the offset at which the end came."""
    lines: list[Line] = []
    consumer.list_topics(topic, timeout=PATIENCE_S)  # or its first question would wait half a second for a leader
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{topic}: the end did not come in time"
        error = message.error()
        if error is None:
            lines.append(_line(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            return lines, message.offset() or 0
        else:
            raise KafkaException(error)


def _line(message: Any) -> Line:
    kind, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    return Line(message.offset(), kind, timestamp, message.key(), message.value(), headers)
