"""Applications on confluent-kafka. Each has one bug, which `--fixed` removes."""

import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.chaos.apps.application import Application, log, run

_LINGER_S: Final = 0.5
"""How long records wait in a buffer."""


def clients(app: Application, **of_producer: Any) -> tuple[Consumer, Producer]:
    """Return a consumer of the group, without automatic commits, and a producer."""
    common: dict[str, Any] = {
        "bootstrap.servers": app.bootstrap,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 200,
        "socket.timeout.ms": 3000,
        "log_level": 2,
    }
    consumer = Consumer(
        {
            **common,
            "group.id": app.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
        }
    )
    return consumer, Producer({**common, "retry.backoff.ms": 20, **of_producer})


def read(app: Application, consumer: Consumer, count: int) -> list[Message]:
    return [message for message in consumer.consume(count, 0.1) if message.error() is None]


def commit(consumer: Consumer, offsets: list[TopicPartition] | None = None) -> None:
    """Commit what was polled, or these offsets. After a refusal the records come again."""
    try:
        if offsets is None:
            consumer.commit(asynchronous=False)
        elif offsets:
            consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as refused:
        log("not committed:", refused)


def send(app: Application, producer: Producer, messages: list[Message]) -> list[Message]:
    """Copy messages to the output, and return those that could not be delivered."""
    failed = []
    for message in messages:

        def delivered(error: Any, copy: Message, message: Message = message) -> None:
            if error is not None:
                log("not delivered:", error)
                failed.append(message)

        producer.produce(app.target, message.value(), message.key(), on_delivery=delivered)
    producer.flush()
    return failed


def send_all(app: Application, producer: Producer, messages: list[Message]) -> None:
    while messages:
        messages = send(app, producer, messages)


def unchecked_delivery(app: Application) -> None:
    """flush() returns 0 for records that were not delivered as well: nobody looks at the reports.

    lukashes/outboxx#110
    """
    consumer, producer = clients(app, **{"enable.idempotence": False, "retries": 0, "message.timeout.ms": 1000})
    consumer.subscribe([app.source])
    while app.is_running:
        failed = send(app, producer, read(app, consumer, 10))
        if app.fixed:
            send_all(app, producer, failed)
        commit(consumer)
    consumer.close()


def reordering_retries(app: Application) -> None:
    """Five requests in flight without idempotence: the retry of one comes after the others.

    zendesk/maxwell#609
    """
    options = {"batch.num.messages": 4, "max.in.flight.requests.per.connection": 5, "linger.ms": 0}
    consumer, producer = clients(app, **options, **{"enable.idempotence": app.fixed})
    consumer.subscribe([app.source])
    while app.is_running:
        send_all(app, producer, read(app, consumer, 100))
        commit(consumer)
    consumer.close()


def commit_of_unfinished_work(app: Application) -> None:
    """When partitions are revoked, commits all that was polled, and drops what waits in the buffer.

    BEagle1984/silverback#253
    """
    consumer, producer = clients(app, **{"enable.idempotence": True})
    buffer: list[Message] = []

    def work() -> None:
        send_all(app, producer, buffer)
        commit(consumer)
        buffer.clear()

    def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if app.fixed:
            work()
        commit(consumer)
        buffer.clear()

    consumer.subscribe([app.source], on_revoke=revoked)
    due = 0.0
    while app.is_running:
        buffer += read(app, consumer, 1)
        if len(buffer) >= 20 or time.monotonic() > due:
            work()
            due = time.monotonic() + _LINGER_S
    consumer.close()


def own_position_after_rebalance(app: Application) -> None:
    """When a partition comes back, continues where it had stopped to read, not at the committed offset.

    confluentinc/librdkafka#1802
    """
    consumer, producer = clients(app, **{"enable.idempotence": True})
    buffer: list[Message] = []
    positions: dict[int, int] = {}

    def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not app.fixed:
            for each in partitions:
                each.offset = positions.get(each.partition, each.offset)
            consumer.assign(partitions)

    def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        buffer.clear()

    consumer.subscribe([app.source], on_assign=assigned, on_revoke=revoked)
    due = 0.0
    while app.is_running:
        for message in read(app, consumer, 1):
            buffer.append(message)
            positions[message.partition() or 0] = (message.offset() or 0) + 1
        if len(buffer) >= 20 or time.monotonic() > due:
            send_all(app, producer, buffer)
            commit(consumer)
            buffer.clear()
            due = time.monotonic() + _LINGER_S
    consumer.close()


if __name__ == "__main__":
    run(
        unchecked_delivery=unchecked_delivery,
        reordering_retries=reordering_retries,
        commit_of_unfinished_work=commit_of_unfinished_work,
        own_position_after_rebalance=own_position_after_rebalance,
    )
