"""kafka-transactions prints the same as Kafka's tool, on both brokers."""

import re

import confluent_kafka as rdkafka
import pytest

from tests.clients.contract import TIMEOUT, Message
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.comparing import Comparison, new_topic
from tests.command_line_tools.runs import run_tool
from tests.kafka.oracle import Oracle
from tests.patience import eventually

_TOOL = "kafka-transactions --bootstrap-server {B}"


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = new_topic(bootstrap, 2)
    Librdkafka(bootstrap).produce(name, [Message(b"%d" % n, partition=0) for n in range(5)])
    return name


def start_transaction(bootstrap: str, transactional_id: str, topic: str) -> rdkafka.Producer:
    """Return a producer that has written a record in a transaction."""
    producer = rdkafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=1)
    producer.flush(TIMEOUT)
    return producer


def test_transactions_are_described_and_aborted(
    comparison: Comparison, oracle: Oracle, bootstrap: str, topic: str
) -> None:
    done = start_transaction(bootstrap, f"{topic}-done", topic)
    done.commit_transaction(TIMEOUT)
    words = comparison.words(_TOOL)
    # Kafka responds before it writes the markers.
    eventually(lambda: "CompleteCommit" in run_tool(*words, "describe", "--transactional-id", f"{topic}-done").out)
    producer = start_transaction(bootstrap, f"{topic}-open", topic)
    comparison.compare(
        f"{_TOOL} describe --transactional-id {topic}-done",
        f"{_TOOL} describe --transactional-id {topic}-none",
        f"{_TOOL} describe-producers --topic {topic} --partition 0",
        f"{_TOOL} describe-producers --topic {topic} --partition 1",
        f"{_TOOL} describe-producers --topic {topic} --partition 1 --broker-id 1",
        f"{_TOOL} find-hanging --topic {topic}",
        f"{_TOOL} find-hanging --topic {topic} --partition 1 --max-transaction-timeout 0",
        f"{_TOOL} find-hanging --topic {{}}-none",
        f"{_TOOL} find-hanging --broker-id 1",
        f"{_TOOL} abort --topic {topic} --partition 1 --start-offset 7",
        f"{_TOOL} abort --topic {topic} --partition 1 --producer-id 987654 --producer-epoch 0 --coordinator-epoch -1",
    )
    listed = run_tool(*words, "list")
    kafka_output = oracle.attempt("org.apache.kafka.tools.TransactionsCommand", *words[1:], "list")
    our_lines = [line for line in listed.out.splitlines() if topic in line or line.startswith("TransactionalId")]
    assert set(our_lines) <= set(kafka_output.splitlines())
    assert len(our_lines) == 3
    described = run_tool(*words, "describe", "--transactional-id", f"{topic}-open").out.splitlines()[1].split("\t")
    assert (described[4].strip(), described[8].strip()) == ("Ongoing", f"{topic}-1")
    producers = run_tool(*words, "describe-producers", "--topic", topic, "--partition", "1").out
    (start,) = re.findall(r"\t(\d+) *\t$", producers, re.MULTILINE)
    assert run_tool(*words, "abort", "--topic", topic, "--partition", "1", "--start-offset", start).status == 0
    assert "None" in run_tool(*words, "describe-producers", "--topic", topic, "--partition", "1").out
    producer.abort_transaction(TIMEOUT)


def test_a_transaction_is_terminated_and_its_producer_fenced(bootstrap: str, topic: str) -> None:
    producer = start_transaction(bootstrap, f"{topic}-forced", topic)
    words = _TOOL.replace("{B}", bootstrap).split()
    terminated = run_tool(*words, "forceTerminateTransaction", "--transactionalId", f"{topic}-forced")
    assert terminated == ("", "", 0)
    described = (*words, "describe", "--transactional-id", f"{topic}-forced")
    assert run_tool(*described).out.splitlines()[1].split("\t")[4].strip() == "Empty"
    with pytest.raises(rdkafka.KafkaException) as fenced:
        producer.commit_transaction(TIMEOUT)
    assert fenced.value.args[0].code() == rdkafka.KafkaError._FENCED


def test_wrong_command_lines_fail_as_with_kafkas_tool(comparison: Comparison) -> None:
    comparison.compare(
        f"{_TOOL}",
        f"{_TOOL} describe",
        f"{_TOOL} explain",
        f"{_TOOL} describe-producers --topic a",
        f"{_TOOL} abort --topic a --partition 0",
        f"{_TOOL} abort --topic a --partition 0 --producer-id 1",
        f"{_TOOL} abort --topic a --partition 0 --producer-id 1 --producer-epoch 0",
        f"{_TOOL} find-hanging",
        f"{_TOOL} find-hanging --partition 1 --broker-id 1",
        "kafka-transactions list",
    )
