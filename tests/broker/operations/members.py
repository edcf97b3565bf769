"""Members of groups, of a real client, that go on by themselves while a test asks the broker about them."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from confluent_kafka import Consumer

from minibroker import Broker


@contextmanager
def member(
    broker: Broker, name: str, group: str = "g", *, topic: str = "orders", **config: str | int
) -> Generator[Consumer]:
    """A member of a group that polls on a thread of its own and commits what it reads.

    `name` is its client id, `config` more of its configuration, with `_` for `.`.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )
    consumer.subscribe([topic])
    ending = threading.Event()

    def poll() -> None:
        while not ending.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                consumer.commit(message=message, asynchronous=False)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield consumer
    finally:
        ending.set()
        thread.join()
        consumer.close()
