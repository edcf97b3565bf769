"""Members of groups, of a real client, that go on by themselves while a test asks the broker about them."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from confluent_kafka import Consumer, Message, ShareConsumer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it names no exports
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from minibroker import Broker
from tests.patience import PATIENCE_S

SHARING = {
    "group.share.min.heartbeat.interval.ms": "50",
    "group.share.heartbeat.interval.ms": "50",
    "group.share.assignment.interval.ms": "0",
}
"""Members of share groups are assigned partitions at once."""


@contextmanager
def member(
    broker: Broker, name: str, group: str = "g", *, topic: str = "orders", **config: str | int
) -> Generator[Consumer]:
    """A member of a group that polls on a thread of its own and commits what it reads.

    `name` is its client id, `config` more of its configuration, with `_` for `.`.
    """
    # A classic member learns of a rebalance by its next heartbeat; the other protocol has the interval from the broker.
    classic = {} if "group_protocol" in config else {"heartbeat.interval.ms": 100}
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **classic,
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


@contextmanager
def sharer(broker: Broker, topic: str = "jobs") -> Generator[ShareConsumer]:
    """A member of the share group "g" that acknowledges each record."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "client.id": "sharer",
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def polled(consumer: ShareConsumer, count: int) -> list[Message]:
    """The next records, of which there are so many."""
    found: list[Message] = []
    while len(found) < count:
        found += consumer.poll(PATIENCE_S)
    assert [each.error() for each in found] == [None] * count
    return found


def from_the_start(broker: Broker, **configs: str) -> None:
    """Have the share group "g" begin with the first records; `configs` as of `group_from_the_start`."""
    group_from_the_start(broker.bootstrap_servers, "g", **configs)


def group_from_the_start(bootstrap: str, group: str, **configs: str) -> None:
    """Have a share group begin with the first records; `configs` is more of its configuration, with `_` for `.`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in {"share_auto_offset_reset": "earliest", **configs}.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(PATIENCE_S)
