"""Group members with a real client that keep running while a test queries the broker."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from confluent_kafka import Consumer, Message, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]  # it names no exports

from minibroker import Broker
from tests.patience import PATIENCE_S

SHARING = {
    "group.share.min.heartbeat.interval.ms": "50",
    "group.share.heartbeat.interval.ms": "50",
    "group.share.assignment.interval.ms": "0",
}
"""Configuration under which members of share groups are assigned partitions immediately."""


@contextmanager
def member(
    broker: Broker, name: str, group: str = "g", *, topic: str = "orders", **config: str | int
) -> Generator[Consumer]:
    """Start a group member that polls on its own thread and commits what it reads.

    `name` is its client id. `config` has further configuration keys, with `_` for `.`.
    """
    # A classic member detects a rebalance with its next heartbeat. In the other protocol the broker sets the interval.
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
    """Start a member of the share group "g" that acknowledges each record."""
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
    """Poll until `count` records have arrived, and return them."""
    records: list[Message] = []
    while len(records) < count:
        records += consumer.poll(PATIENCE_S)
    assert [item.error() for item in records] == [None] * count
    return records


def from_the_start(broker: Broker, **configs: str) -> None:
    """Let the share group "g" begin with the first records; `configs` is passed to `group_from_the_start`."""
    group_from_the_start(broker.bootstrap_servers, "g", **configs)


def group_from_the_start(bootstrap: str, group: str, **configs: str) -> None:
    """Let a share group begin with the first records. `configs` has further configuration keys, with `_` for `.`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in {"share_auto_offset_reset": "earliest", **configs}.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(PATIENCE_S)
