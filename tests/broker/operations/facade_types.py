"""The types of `Broker`'s methods. `test_blocking` checks this file with mypy and pyright; it is never run.

A line with an ignored error must be rejected by the type checker, since both report unnecessary ignores.
"""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_type

from minibroker import AsyncBroker, Broker, BrokerOptions, Fault, Message
from minibroker.operations.blocking import BrokerNode, ConsumerGroup
from minibroker.operations.groups import GroupDescription
from minibroker.operations.producing import RecordMetadata
from minibroker.operations.records import ConsumerRecord, DecodedRecord
from minibroker.operations.schemas import SchemaVersion
from minibroker.operations.share_groups import SharePartitionDescription
from minibroker.operations.snapshots import Snapshot
from minibroker.operations.topics import TopicDescription
from minibroker.pytest_plugin import KafkaFactory
from minibroker.security.authorization.acls import AclBinding
from minibroker.server.inspection.journal import Entry, Journal
from minibroker_storage.data_directory.names import TopicPartition


def returned(kafka: Broker) -> None:
    """Methods return the results of their coroutines."""
    assert_type(kafka.topics(), dict[str, TopicDescription])
    assert_type(kafka.create_topic("t", 3, configs={"retention.ms": 1, "preallocate": True}), TopicDescription)
    assert_type(kafka.fresh_topic(), str)
    assert_type(kafka.topic_config("t"), dict[str, str | None])
    assert_type(kafka.produce("t", "a", b"b", None, Message(1), key="k", codec="gzip"), list[RecordMetadata])
    assert_type(kafka.records("t", partition=1, isolation="read_uncommitted"), list[ConsumerRecord])
    assert_type(kafka.records("t", decode=True), list[DecodedRecord])
    assert_type(kafka.wait_for("t", 2, matching=lambda each: each.offset > 1, timeout=1), list[ConsumerRecord])
    assert_type(kafka.expect("t", {"id": 1}, headers={"h": "v"}), ConsumerRecord)
    assert_type(kafka.allow("User:a", "read", "write", topic="t", prefixed=True), list[AclBinding])
    assert_type(kafka.groups(), list[str])
    assert_type(kafka.leader("t"), int | None)
    assert_type(kafka.requests, Journal)
    assert_type(kafka.wait_for_requests(2, api="Fetch"), list[Entry])
    assert_type(kafka.snapshot(), Snapshot)


def of_handles(kafka: Broker) -> None:
    """Methods of handles are blocking as well."""
    group = kafka.group("g")
    assert_type(group, ConsumerGroup)
    assert_type(group.describe(), GroupDescription)
    assert_type(group.wait_until_stable(2, timeout=1), GroupDescription)
    assert_type(group.lag(), dict[TopicPartition, int])
    assert_type(group.share_partitions(), dict[TopicPartition, SharePartitionDescription])
    assert_type(kafka.schemas.register("t-value", {"type": "int"}, "JSON"), int)
    assert_type(kafka.schemas.latest("t-value"), SchemaVersion)
    assert_type(kafka.clock.now_ms(), int)
    kafka.clock.advance(timedelta(days=1))
    assert_type(kafka.retention.run(), int)
    assert_type([kafka.brokers[broker] for broker in kafka.brokers], list[BrokerNode])
    assert_type(kafka.brokers[0].is_up, bool)
    kafka.brokers[0].stop()
    assert_type(kafka.faults.add(api="Produce"), Fault)
    assert_type(kafka.faults.list(), tuple[Fault, ...])
    with kafka.fault(api="Fetch") as fault:
        assert_type(fault, Fault)


async def on_the_loop(broker: Broker) -> None:
    """`async with` returns the asynchronous broker, whose methods are awaited."""
    async with broker as kafka:
        assert_type(kafka, AsyncBroker)
        assert_type(await kafka.topics(), dict[str, TopicDescription])
        async with kafka.fault(api="Fetch") as fault:
            assert_type(fault, Fault)


def refused(kafka: Broker, names: Sequence[str]) -> None:
    """Type checkers must reject these mistakes."""
    kafka.topics(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - it takes nothing
    kafka.produce(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - a topic is a text
    kafka.produce("t", codec="zip")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - no codec
    kafka.expect("t", time=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - it is `timeout`
    kafka.allow(*names, topics="t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - it is `topic`
    kafka.group("g").committed("t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - it takes nothing


def options(factory: KafkaFactory) -> None:
    """The options of a broker are typed everywhere."""
    broker_options: BrokerOptions = {
        "topics": ["t"],
        "journal": 100,
        "config": {"num.partitions": 3, "log.cleaner.enable": True},
    }
    assert_type(Broker(**broker_options), Broker)
    assert_type(AsyncBroker(listen="127.0.0.1:0", brokers=3), AsyncBroker)
    assert_type(factory(timeout=1, clock=None), Broker)
    Broker(topic="t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - it is `topics`
    Broker("127.0.0.1:0")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - by name alone
    factory(brokers="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - a number
