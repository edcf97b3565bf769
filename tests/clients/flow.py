"""Records that flow through a program, from one topic to another, while the broker is killed and started again."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as Delivered

from tests.clients.contract import TIMEOUT
from tests.clients.line_process import LineProcess

SOURCE: Final = "source"
TARGET: Final = "target"
PARTITIONS: Final = 2
"""Of both topics."""
TOPICS: Final = tuple(word for topic in (SOURCE, TARGET) for word in ("--topic", f"{topic}:{PARTITIONS}"))
"""The options that make them."""
_AHEAD: Final = 200
"""Records of the source that may be on their way; the rest waits, so that there are some at each kill."""
_QUICK: Final[dict[str, Any]] = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


Turns: TypeAlias = Mapping[int, Callable[[], object]]
"""A function by the number of arrived records at which it is called."""


class Arrived(NamedTuple):
    """A committed record of the target."""

    partition: int
    key: bytes | None
    value: bytes | None


def flow(bootstrap: str, program: LineProcess, values: Sequence[bytes], *, factor: int, turns: Turns) -> list[Arrived]:
    """Produce `values` into SOURCE, in turn into its partitions, and read what is committed in TARGET.

    `factor` is how many records the program makes of each. When as many records have arrived as a key of `turns` says,
    its function is called. AssertionError if nothing arrives for too long.
    """
    refused: list[KafkaError] = []
    arrived: list[Arrived] = []
    marks = sorted(turns)
    fed = 0
    deadline = time.monotonic() + TIMEOUT
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, **_QUICK})
    options = {"group.id": "assigned by hand", "isolation.level": "read_committed", "fetch.error.backoff.ms": 20}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options, **_QUICK})

    def delivered(error: KafkaError | None, _: Delivered) -> None:
        if error is not None:
            refused.append(error)

    try:
        consumer.assign([TopicPartition(TARGET, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        while len(arrived) < factor * len(values):
            while fed < len(values) and fed - len(arrived) // factor < _AHEAD:
                producer.produce(SOURCE, values[fed], partition=fed % PARTITIONS, on_delivery=delivered)
                fed += 1
            producer.poll(0)
            assert not refused, refused
            good = [message for message in consumer.consume(50, timeout=0.02) if message.error() is None]
            arrived += [Arrived(message.partition() or 0, message.key(), message.value()) for message in good]
            if good:
                deadline = time.monotonic() + TIMEOUT
            assert time.monotonic() < deadline, f"{len(arrived)} records have arrived; {program!r}"
            if marks and len(arrived) >= marks[0]:
                turns[marks.pop(0)]()
    finally:
        consumer.close()
    return arrived
