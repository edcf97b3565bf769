"""All that a client can learn about a partition, to be asked of two brokers and compared."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.contract import TIMEOUT

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
    """What a broker says of one partition."""

    beginning: int
    end: int
    #: Where a consumer of committed records only comes to the end.
    last_stable_offset: int
    records: list[Line]
    committed: list[Line]
    #: The offset for each of the times that were asked for; -1 is behind the last record.
    times: dict[int, int]


def answers(bootstrap: str, topic: str, times: Sequence[int] = (), partition: int = 0) -> Answers:
    """Ask. AssertionError if an answer does not come in time."""
    place = TopicPartition(topic, partition)
    records, end = _consume(bootstrap, place, "read_uncommitted")
    committed, last_stable_offset = _consume(bootstrap, place, "read_committed")
    consumer = _consumer(bootstrap, "read_uncommitted")
    try:
        beginning, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        assert high == end
        found = {at: _offset_for(consumer, topic, partition, at) for at in times}
    finally:
        consumer.close()
    return Answers(beginning, end, last_stable_offset, records, committed, found)


def times_of(lines: Sequence[Line]) -> list[int]:
    """Times that are worth asking for: those of the records, and those beside them."""
    return sorted({time for line in lines if line.timestamp >= 0 for time in (line.timestamp, line.timestamp + 1)})


def _offset_for(consumer: Consumer, topic: str, partition: int, time: int) -> int:
    (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, time)], timeout=TIMEOUT)
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


def _consume(bootstrap: str, place: TopicPartition, isolation: str) -> tuple[list[Line], int]:
    """Every record, and the offset at which the end came."""
    lines: list[Line] = []
    consumer = _consumer(bootstrap, isolation)
    try:
        consumer.list_topics(place.topic, timeout=TIMEOUT)
        consumer.assign([TopicPartition(place.topic, place.partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT)
            assert message is not None, f"{place.topic}: the end did not come in time"
            error = message.error()
            if error is None:
                lines.append(_line(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return lines, message.offset() or 0
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def _line(message: Any) -> Line:
    kind, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    return Line(message.offset(), kind, timestamp, message.key(), message.value(), headers)
