"""Kafka's command line tools for configurations print the same on this broker as on Kafka."""

import uuid
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from minibroker import Broker
from tests.clients.contract import eventually
from tests.clients.operator_tools import Transcript, both
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.kafka.test_configs import OTHERWISE_HERE

CONFIGS: Final = "kafka-configs"
TOPICS: Final = "kafka-topics"
METRICS: Final = "kafka-client-metrics"

Scenario = Callable[[Transcript], None]
Compare = Callable[[Scenario], Transcript]


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """Our broker, configured as the Kafka of the tests is, where topics see it."""
    with Broker(config={"node.id": "1", "log.retention.ms": "-1", "log.segment.delete.delay.ms": "1000"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def compare(oracle: Oracle, ours: str, real_kafka: RealKafka) -> Compare:
    """A function that runs a scenario on both brokers and holds what the tools print against each other."""
    return lambda scenario: both(oracle, ours, real_kafka.bootstrap, f"run-{uuid.uuid4().hex[:8]}", scenario)


def until_told(on: Transcript, tool: str, call: str, text: str, *, is_there: bool = True) -> None:
    """Wait for the brokers of Kafka, which hear of a change some time after it was answered."""
    words = call.replace("{}", on.prefix).split()
    eventually(lambda: (text in on.ask(tool, *words).text()) is is_there)


def test_topics_are_made_described_and_altered_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        on.run_all(
            TOPICS,
            "--create --topic {}-topic --partitions 2 --replication-factor 1 --config retention.ms=1000",
            "--describe --topic {}-topic",
        )
        of_topic = "--entity-type topics --entity-name {}-topic"
        on.run_all(
            CONFIGS,
            f"{of_topic} --describe",
            f"{of_topic} --describe --all",
            f"{of_topic} --alter --add-config cleanup.policy=[compact,delete],segment.ms=60000",
        )
        until_told(on, CONFIGS, f"{of_topic} --describe", "segment.ms")
        on.run_all(
            CONFIGS,
            f"{of_topic} --describe",
            f"{of_topic} --alter --add-config retention.ms=never",
            f"{of_topic} --alter --add-config nonsense=1",
            f"{of_topic} --alter --delete-config segment.ms",
        )
        until_told(on, CONFIGS, f"{of_topic} --describe", "segment.ms", is_there=False)
        on.run_all(
            CONFIGS,
            f"{of_topic} --alter --delete-config segment.ms",
            f"{of_topic} --describe",
            "--topic {}-topic --describe",
            "--topic {}-nowhere --describe",
            "--topic {}-nowhere --alter --add-config retention.ms=1",
        )
        on.run_all(
            TOPICS,
            "--describe --topic {}-topic",
            "--describe --topics-with-overrides --topic {}-topic",
            "--delete --topic {}-topic",
        )

    comparison = compare(scenario)
    assert "retention.ms=1000" in comparison.commands[1].text()
    assert "compact,delete" in comparison.find("--topics-with-overrides").text()


def test_brokers_are_described_and_altered_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        for name in ("--entity-name 1", "--entity-default"):
            of_broker = f"--entity-type brokers {name}"
            on.run_all(CONFIGS, f"{of_broker} --alter --add-config log.roll.ms=7000000,message.max.bytes=2000000")
            until_told(on, CONFIGS, f"{of_broker} --describe", "log.roll.ms")
            on.run_all(
                CONFIGS,
                f"{of_broker} --describe",
                f"{of_broker} --alter --add-config num.partitions=3",
                f"{of_broker} --alter --add-config log.roll.ms=x",
                f"{of_broker} --alter --delete-config log.roll.ms,message.max.bytes",
            )
            until_told(on, CONFIGS, f"{of_broker} --describe", "log.roll.ms", is_there=False)
            on.run_all(CONFIGS, f"{of_broker} --alter --delete-config log.roll.ms", f"{of_broker} --describe")

    comparison = compare(scenario)
    assert "DYNAMIC_BROKER_CONFIG:log.roll.ms=7000000" in comparison.commands[1].text()


def test_loggers_are_altered_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        loggers = "--entity-type broker-loggers --entity-name 1"
        on.run_all(
            CONFIGS,
            f"{loggers} --alter --add-config root=WARN",
            f"{loggers} --alter --add-config root=warn",
            f"{loggers} --alter --add-config no.such.logger=WARN",
            f"{loggers} --alter --delete-config root",
            f"{loggers} --alter --delete-config no.such.logger",
        )

    compare(scenario)


def test_client_metrics_are_described_and_altered_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        subscription = "--entity-type client-metrics --entity-name {}-sub"
        on.run_all(
            CONFIGS,
            f"{subscription} --alter --add-config metrics=[a.,b.],interval.ms=1000",
            f"{subscription} --alter --add-config interval.ms=1",
            f"{subscription} --alter --add-config match=x",
            f"{subscription} --alter --delete-config interval.ms",
        )
        describe = "--describe --name {}-sub"
        on.run_all(METRICS, "--alter --name {}-sub --metrics a. --interval 2000 --match client_id=a.*")
        until_told(on, METRICS, describe, "interval.ms=2000")
        on.run_all(METRICS, describe, "--list", "--delete --name {}-sub")
        until_told(on, METRICS, "--list", on.prefix, is_there=False)
        on.run_all(METRICS, "--list")

    comparison = compare(scenario)
    assert f"{comparison.prefix}-sub" in comparison.commands[-3].text()


def test_every_key_of_a_broker_that_is_not_set_is_printed_as_on_kafka(
    oracle: Oracle, ours: str, real_kafka: RealKafka
) -> None:
    def unset(bootstrap: str) -> dict[str, str]:
        words = ["--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"]
        lines = Transcript(oracle, bootstrap, "").ask(CONFIGS, *words).lines
        return {line.partition("=")[0]: line for line in lines if "sensitive=" in line and "STATIC" not in line}

    here, there = unset(ours), unset(real_kafka.bootstrap)
    assert len(there) > 280
    differing = {name for name in here.keys() & there.keys() if here[name] != there[name]}
    assert differing <= OTHERWISE_HERE.keys()
    assert here["ssl.key.password"] == "ssl.key.password=null sensitive=true synonyms={}"
