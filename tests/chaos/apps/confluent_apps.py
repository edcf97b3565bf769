"""Applications on confluent-kafka. Each has one bug, which `--fixed` removes."""

import sys
import time
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

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


def resend_from_callback(app: Application) -> None:
    """Sends a record again when it learns that it was not delivered: after those that were sent later.

    confluentinc/librdkafka#1028
    """
    consumer, producer = clients(app, **{"enable.idempotence": False, "retries": 0, "batch.num.messages": 4})

    def delivered(error: Any, copy: Message) -> None:
        if error is not None:
            log("not delivered:", error)
            producer.produce(app.target, copy.value(), copy.key(), on_delivery=delivered)

    consumer.subscribe([app.source])
    while app.is_running:
        for message in read(app, consumer, 20):
            producer.produce(app.target, message.value(), message.key(), on_delivery=delivered)
            if app.fixed:
                producer.flush()
        producer.flush()
        commit(consumer)
    consumer.close()


def whole_batch_again(app: Application) -> None:
    """Sends a whole batch again when one of its records was not delivered.

    tulios/kafkajs#22
    """
    consumer, producer = clients(app, **({"enable.idempotence": True} if app.fixed else {"retries": 0}))
    consumer.subscribe([app.source])
    while app.is_running:
        messages = read(app, consumer, 10)
        while failed := send(app, producer, messages):
            messages = failed if app.fixed else messages
        commit(consumer)
    consumer.close()


def automatic_commits(app: Application) -> None:
    """Leaves commits to the client, which knows nothing of records that wait in the producer.

    quarkusio/quarkus#40914
    """
    consumer, producer = clients(app, **{"enable.idempotence": True, "linger.ms": 20})
    consumer.subscribe([app.source])
    while app.is_running:
        for message in read(app, consumer, 10):
            producer.produce(app.target, message.value(), message.key())
        if app.fixed:
            producer.flush()
        try:
            consumer.commit(asynchronous=not app.fixed)  # type: ignore[call-overload]  # it has two overloads
        except KafkaException as nothing:
            log(nothing)
    consumer.close()
    producer.flush()


def unknown_commit(app: Application) -> None:
    """Takes a commit whose outcome is unknown for a failed one, and sends its records again.

    apache/pulsar#19744
    """

    def start() -> Producer:
        _, producer = clients(app, **{"transactional.id": app.group})
        producer.init_transactions(30)
        return producer

    consumer, _ = clients(app)
    producer = start()
    consumer.subscribe([app.source])
    messages: list[Message] = []
    while app.is_running:
        messages = messages or read(app, consumer, 10)
        if not messages:
            continue
        ends = {message.partition(): (message.offset() or 0) + 1 for message in messages}
        offsets = [TopicPartition(app.source, partition or 0, offset) for partition, offset in ends.items()]
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(app.target, message.value(), message.key())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.flush()
            producer.commit_transaction(30 if app.fixed else 0.2)
            messages = []
        except KafkaException as failure:
            log("not committed:", failure)
            if app.fixed:
                sys.exit(1)  # whatever watches over it starts it again, at the committed offsets
            producer = start()
    consumer.close()


def kept_group_metadata(app: Application) -> None:
    """Asks the consumer once who it is, so its group refuses all commits after a rebalance.

    atleon/atleon#595
    """
    consumer, producer = clients(app, **{"transactional.id": app.group})
    producer.init_transactions(30)
    consumer.subscribe([app.source])
    member = None
    while app.is_running:
        messages = read(app, consumer, 10)
        if not messages:
            continue
        if app.fixed or member is None:
            member = consumer.consumer_group_metadata()
        ends = {message.partition(): (message.offset() or 0) + 1 for message in messages}
        offsets = [TopicPartition(app.source, partition or 0, offset) for partition, offset in ends.items()]
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(app.target, message.value(), message.key())
            producer.send_offsets_to_transaction(offsets, member, 30)
            producer.commit_transaction(30)
        except KafkaException as failure:
            log("not committed:", failure)
            if not failure.args[0].txn_requires_abort():
                sys.exit(1)  # whatever watches over it starts it again, at the committed offsets
            producer.abort_transaction(30)
            for place in consumer.committed(consumer.assignment(), 30):
                place.offset = max(place.offset, OFFSET_BEGINNING)
                consumer.seek(place)
    consumer.close()


if __name__ == "__main__":
    run(
        kept_group_metadata=kept_group_metadata,
        resend_from_callback=resend_from_callback,
        automatic_commits=automatic_commits,
        unknown_commit=unknown_commit,
        whole_batch_again=whole_batch_again,
        unchecked_delivery=unchecked_delivery,
        reordering_retries=reordering_retries,
        commit_of_unfinished_work=commit_of_unfinished_work,
        own_position_after_rebalance=own_position_after_rebalance,
    )
