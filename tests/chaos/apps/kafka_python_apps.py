"""Applications on kafka-python. Each has one bug, which `--fixed` removes."""

import os
from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]  # it has no types
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
        app.source,
        **common,
        group_id=app.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        fetch_max_wait_ms=100,
        max_poll_records=10,
    )
    return consumer, KafkaProducer(**common, **of_producer)


def batches(app: Application, consumer: Any) -> Iterator[list[Any]]:
    """Poll until SIGTERM."""
    while app.is_running:
        yield [record for records in consumer.poll(100).values() for record in records]
    consumer.close()


def commit(consumer: Any) -> None:
    """Commit what was polled. After a refusal the records come again."""
    try:
        consumer.commit()
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


if __name__ == "__main__":
    run(ignored_future=ignored_future, no_flush=no_flush)
