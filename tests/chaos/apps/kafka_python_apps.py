"""Applications on kafka-python. Each has one bug, which `--fixed` removes."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from typing import Any

from kafka import (  # type: ignore[import-untyped]  # it has no types
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.errors import KafkaError  # type: ignore[import-untyped]  # the same

from tests.chaos.apps.application import Application, log, run


def clients(app: Application, **of_producer: Any) -> tuple[Any, Any]:
    """Return a consumer of the group, without automatic commits, and a producer."""
    common: dict[str, Any] = {
        "bootstrap_servers": app.bootstrap,
        "reconnect_backoff_ms": 10,
        "reconnect_backoff_max_ms": 200,
        "retry_backoff_ms": 20,
    }
    consumer = KafkaConsumer(
        **common,
        group_id=app.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        fetch_max_wait_ms=100,
        max_poll_records=10,
    )
    consumer.subscribe([app.source])
    return consumer, KafkaProducer(**common, **of_producer)


def batches(app: Application, consumer: Any) -> Iterator[list[Any]]:
    """Poll until SIGTERM."""
    while app.is_running:
        yield [record for records in consumer.poll(100).values() for record in records]
    consumer.close()


def commit(consumer: Any, offsets: Any = None) -> None:
    """Commit what was polled, or these offsets. After a refusal the records come again."""
    try:
        consumer.commit(offsets)
    except KafkaError as refused:
        log("not committed:", refused)


def ignored_future(app: Application) -> None:
    """Never looks at what send() returns.

    spring-attic/spring-integration-kafka#62
    """
    consumer, producer = clients(app, retries=0, enable_idempotence=False)
    for batch in batches(app, consumer):
        sent = [(record, producer.send(app.target, record.value, record.key)) for record in batch]
        producer.flush()
        while app.fixed and (failed := [record for record, future in sent if future.failed()]):
            sent = [(record, producer.send(app.target, record.value, record.key)) for record in failed]
            producer.flush()
        commit(consumer)


def no_flush(app: Application) -> None:
    """Commits, and ends, while records wait in the producer.

    dpkp/kafka-python#524
    """
    consumer, producer = clients(app, linger_ms=20)
    for batch in batches(app, consumer):
        sent = [producer.send(app.target, record.value, record.key) for record in batch]
        if app.fixed:
            for future in sent:
                future.get()
        commit(consumer)
    os._exit(0)


def highest_of_pool(app: Application) -> None:
    """Commits after the highest record that a pool of threads has finished, whatever the others still do.

    confluentinc/confluent-kafka-go#1179
    """
    consumer, producer = clients(app)
    with ThreadPoolExecutor(4) as pool:
        for batch in batches(app, consumer):

            def work(record: Any) -> Any:
                producer.send(app.target, record.value, record.key).get()
                return record

            working = [pool.submit(work, record) for record in batch]
            if app.fixed:
                wait(working)
                commit(consumer)
            else:
                highest: dict[int, int] = {}
                for done in as_completed(working):
                    record = done.result()
                    if record.offset > highest.get(record.partition, -1):
                        highest[record.partition] = record.offset
                        partition = TopicPartition(record.topic, record.partition)
                        commit(consumer, {partition: OffsetAndMetadata(record.offset + 1, "", -1)})


def poll_for_assignment(app: Application) -> None:
    """Polls for its partitions after a rebalance, and throws away what comes with them.

    BigDataDevs/kafka-elasticsearch-consumer#78
    """
    consumer, producer = clients(app, linger_ms=0)
    is_new = False

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            nonlocal is_new
            is_new = True

    consumer.subscribe([app.source], listener=Listener())
    for batch in batches(app, consumer):
        if is_new and not app.fixed:
            is_new = False
            consumer.poll(50)
        for future in [producer.send(app.target, record.value, record.key) for record in batch]:
            future.get()
        commit(consumer)


if __name__ == "__main__":
    run(
        ignored_future=ignored_future,
        no_flush=no_flush,
        highest_of_pool=highest_of_pool,
        poll_for_assignment=poll_for_assignment,
    )
