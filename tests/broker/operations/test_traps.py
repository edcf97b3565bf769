"""Input without an effect is reported once, at the line that gave it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from minibroker import Broker, MinibrokerWarning
from minibroker.cli.container_variables import find_unread_variables


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        ({"log.dirs": "/var/lib/kafka"}, "log.dirs=/var/lib/kafka has no effect: data_dir names"),
        ({"log.dir": "/var/lib/kafka"}, "log.dir=/var/lib/kafka has no effect: data_dir names"),
        ({"listeners": "PLAINTEXT://:29092"}, "listeners=PLAINTEXT://:29092 has no effect: Broker"),
        (
            {"advertised.listeners": "EXTERNAL://kafka:9092"},
            "EXTERNAL://kafka:9092 has no effect: none is named PLAINTEXT",
        ),
        ({"metric.reporters": "com.acme.Reporter"}, "metric.reporters: com.acme.Reporter is a Java class"),
        ({"zookeeper.connect": "zk:2181"}, "zookeeper.connect: zk:2181 has no effect: minibroker needs no ZooKeeper"),
        ({"inter.broker.protocol.version": "2.8"}, "inter.broker.protocol.version: 2.8 has no effect"),
        ({"remote.log.storage.system.enable": "true"}, "there is no tiered storage"),
    ],
)
def test_a_setting_without_effect_is_named(config: dict[str, str], warning: str) -> None:
    with pytest.warns(MinibrokerWarning, match=re.escape(warning)) as caught:
        Broker(config=config)
    assert [each.filename for each in caught] == [__file__]


def test_settings_with_an_effect_are_not(tmp_path: Any) -> None:
    """Warnings are errors here."""
    Broker(data_dir=tmp_path, config={"log.dirs": str(tmp_path), "advertised.listeners": "PLAINTEXT://kafka:9092"})
    Broker(listen="127.0.0.1:29092", config={"listeners": "PLAINTEXT://:29092"})
    Broker(config={"metric.reporters": "", "remote.log.storage.system.enable": "false"})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"api": "Produce", "versions": "90+"}, "versions: '90+' are versions that no API of this fault is served in"),
        ({"node": 7}, "node: there is no broker 7; ids of brokers: 1"),
        (
            {"topic": "orders", "partition": 3},
            "partition: topic 'orders' has no partition 3; it has 2 partitions",
        ),
        ({"topic": "or ders"}, "topic: 'or ders' is not a name that a topic can have"),
        ({"topic": "ordres"}, "topic: there is no topic 'ordres'"),
    ],
)
def test_a_fault_that_cannot_match_is_named(fields: dict[str, Any], reason: str) -> None:
    with Broker(topics=["orders:2"]) as broker:
        with pytest.warns(MinibrokerWarning, match=f"cannot match: {re.escape(reason)}") as caught:
            broker.faults.add(error="NETWORK_EXCEPTION", **fields)
        assert [warning.filename for warning in caught] == [__file__]


def test_a_fault_that_may_match_is_not_named() -> None:
    with Broker(topics=["orders:2"]) as broker:
        broker.faults.add(
            error="NETWORK_EXCEPTION", api="Produce", versions="3-90", topic="orders", partition=1, node=1
        )
        broker.faults.add(error="NETWORK_EXCEPTION", topic="later")
        broker.faults.add(error="NETWORK_EXCEPTION", topic="ord*", partition=9)


def test_a_fault_whose_block_ends_without_a_hit_is_named() -> None:
    with Broker() as broker:
        with (
            pytest.warns(MinibrokerWarning, match="has hit no request in its `with` block") as caught,
            broker.fault(api="Produce", error="NETWORK_EXCEPTION"),
        ):
            pass
        assert [warning.filename for warning in caught] == [__file__]
        with pytest.raises(LookupError), broker.fault(api="Produce", error="NETWORK_EXCEPTION"):
            raise LookupError  # This error is more informative than a warning.


@pytest.mark.parametrize(
    ("call", "warning"),
    [
        (lambda broker: broker.produce("t"), "produce: no value is given for 't', so nothing is written"),
        (lambda broker: broker.group("nobody").lag(), "there is no group 'nobody'"),
    ],
)
def test_a_call_that_does_nothing_is_named(call: Callable[[Broker], Any], warning: str) -> None:
    with Broker() as broker, pytest.warns(MinibrokerWarning, match=re.escape(warning)) as caught:
        assert not call(broker)
    assert [each.filename for each in caught] == [__file__]


def test_retention_on_a_clock_that_was_moved_is_named() -> None:
    with Broker(
        topics=["orders", "brief:1:retention.ms=1000"], config={"log.retention.check.interval.ms": 1000}
    ) as broker:
        broker.produce("orders", "x")
        broker.produce("brief", "x")
        broker.clock.advance(1)
        with pytest.warns(MinibrokerWarning, match="retention has deleted records of 'orders'") as caught:
            broker.clock.advance(8 * 24 * 3600)
        assert broker.records("brief") == []
        assert [warning.filename for warning in caught] == [__file__]


def test_retention_that_was_asked_for_is_not_named() -> None:
    with Broker(topics=["orders"], config={"log.retention.check.interval.ms": 2**62}) as broker:
        broker.produce("orders", "x")
        broker.clock.advance(8 * 24 * 3600)
        broker.retention.run()
        assert broker.records("orders") == []


def test_variables_of_kafkas_images_are_named() -> None:
    environment = {"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_CFG_NODE_ID": "1"}
    assert find_unread_variables(environment) == (
        "KAFKA_CFG_NODE_ID, KAFKA_LISTENERS: minibroker reads no such variable outside of its container image; "
        "write --set node.id=1"
    )
    assert find_unread_variables({"KAFKA_HEAP_OPTS": "-Xmx1g", "HOME": "/"}) is None
    assert find_unread_variables({"KAFKA_LISTENERS": "PLAINTEXT://:9092", "MINIBROKER_LOG_LINES": "1"}) is None
