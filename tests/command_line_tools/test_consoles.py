"""kafka-console-producer and kafka-console-consumer on this broker, also with records from other clients."""

import socket
import uuid

import pytest
from confluent_kafka import Producer

from minibroker import Broker
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.reader import Reader
from minibroker_tools.client.settings import Settings
from minibroker_tools.commands.console_producer import LineReader
from minibroker_tools.failures import ToolError
from tests.clients.contract import TIMEOUT
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.runs import Printed, run_tool
from tests.patience import eventually

_ENDS = ("--timeout-ms", "1500")


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


def produce(broker: str, topic: str, text: bytes, *options: str) -> Printed:
    return run_tool("kafka-console-producer", "--bootstrap-server", broker, "--topic", topic, *options, stdin=text)


def consume(broker: str, topic: str, *options: str) -> Printed:
    ends = (
        () if "--timeout-ms" in options else ("--timeout-ms", "30000")
    )  # If a record is missing, the test fails then.
    return run_tool("kafka-console-consumer", "--bootstrap-server", broker, "--topic", topic, *options, *ends)


def test_lines_become_records_and_come_out_again(broker: str, topic: str) -> None:
    assert produce(broker, topic, b"one\ntwo\r\nthree\rfour\xff\n\nlast") == Printed("", "", 0)
    read = consume(broker, topic, "--from-beginning", "--max-messages", "6")
    assert read.status == 0
    assert read.err.endswith("Processed a total of 6 messages\n")
    assert read.out == "one\ntwo\nthree\nfour\ufffd\n\nlast\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_headers_and_nulls_are_read_and_printed(broker: str, topic: str, codec: str) -> None:
    properties = ("parse.key=true", "key.separator=:", "parse.headers=true", "null.marker=NULL")
    options = [word for setting in properties for word in ("--property", setting)]
    produced = produce(
        broker, topic, b"a=1,b=2\tk:v\nNULL\tNULL:NULL\n", "--compression-codec", codec, *options,
        "--property", "headers.key.separator==",
    )  # fmt: skip
    assert produced.status == 0, produced.err
    shown = ("print.key", "print.headers", "print.partition", "print.offset")
    options = [word for name in shown for word in ("--formatter-property", f"{name}=true")]
    read = consume(broker, topic, "--from-beginning", "--max-messages", "2", *options)
    assert read.out == ("Partition:0\tOffset:0\ta:1,b:2\tk\tv\nPartition:0\tOffset:1\tNO_HEADERS\tnull\tnull\n")


def test_a_line_without_a_separator_ends_the_producer_after_the_lines_before_it(broker: str, topic: str) -> None:
    produced = produce(broker, topic, b"k\tv\nalone\nk\tw\n", "--property", "parse.key=true")
    assert produced.status == 1
    assert produced.err == "org.apache.kafka.common.KafkaException: No key separator found on line number 2: 'alone'\n"
    assert consume(broker, topic, "--from-beginning", *_ENDS).out == "v\n"


def test_a_key_goes_to_the_partition_that_other_clients_choose(broker: str, topic: str) -> None:
    Librdkafka(broker).create_topic(topic, 7)
    other = Producer({"bootstrap.servers": broker, "partitioner": "murmur2_random"})
    keys = [f"key-{number}" for number in range(20)]
    for key in keys:
        other.produce(topic, key=key, value="other")
    other.flush(TIMEOUT)
    lines = "".join(f"{key}:mine\n" for key in keys).encode()
    assert produce(broker, topic, lines, "--property", "parse.key=true", "--property", "key.separator=:").status == 0
    shown = ("--property", "print.partition=true", "--property", "print.key=true")
    read = consume(broker, topic, "--from-beginning", "--max-messages", "40", *shown)
    places = [line.rsplit("\t", 1)[0] for line in read.out.splitlines()]
    assert len(places) == 40
    assert len(set(places)) == 20


def test_a_group_goes_on_where_it_has_stopped(broker: str, topic: str) -> None:
    produce(broker, topic, b"1\n2\n3\n4\n")
    first = consume(broker, topic, "--group", topic, "--from-beginning", "--max-messages", "3")
    second = consume(broker, topic, "--group", topic, "--from-beginning", "--max-messages", "1")
    assert (first.out, second.out) == ("1\n2\n3\n", "4\n")


def test_one_partition_is_read_from_an_offset(broker: str, topic: str) -> None:
    produce(broker, topic, b"1\n2\n3\n")
    read = consume(broker, topic, "--partition", "0", "--offset", "1", "--max-messages", "2")
    assert read.out == "2\n3\n"
    assert consume(broker, topic, "--partition", "0", "--offset", "soon").status == 1


def test_aborted_transactions_are_left_out_of_committed_reads(broker: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    commit, abort = producer.commit_transaction, producer.abort_transaction
    for value, end in (("a", commit), ("b", abort), ("c", commit)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(TIMEOUT)
        end(TIMEOUT)
    committed = consume(broker, topic, "--from-beginning", "--isolation-level", "read_committed", "--max-messages", "2")
    assert committed.out == "a\nc\n"
    assert consume(broker, topic, "--from-beginning", "--max-messages", "3").out == "a\nb\nc\n"


def test_several_topics_are_found_by_an_expression(broker: str, topic: str) -> None:
    for number in (1, 2):
        produce(broker, f"{topic}-{number}", b"%d\n" % number)
    words = ("kafka-console-consumer", "--bootstrap-server", broker, "--include", f"{topic}-.*", "--from-beginning")
    assert sorted(run_tool(*words, "--max-messages", "2").out.split()) == ["1", "2"]


def test_numbers_are_shown_by_their_deserializer(broker: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(topic, (258).to_bytes(8, "big"))
    producer.produce(topic, b"short")
    producer.flush(TIMEOUT)
    long = ("--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer")
    assert consume(broker, topic, "--from-beginning", "--max-messages", "1", *long).out == "258\n"
    refused = consume(broker, topic, "--from-beginning", "--max-messages", "2", *long)
    assert refused.status == 1
    assert "Size of data received by the deserializer is not 8" in refused.err
    skipped = consume(broker, topic, "--from-beginning", "--max-messages", "2", "--skip-message-on-error", *long)
    assert (skipped.status, skipped.out) == (0, "258\n")


def test_separators_that_are_equal_are_refused() -> None:
    for properties, message in (
        ({"headers.separator": "\t"}, "headers.delimiter and headers.separator may not be equal"),
        ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
    ):
        with pytest.raises(ToolError, match=message):
            LineReader.from_properties(properties)


def test_wrong_command_lines_of_the_consoles_end_with_one_message(broker: str, topic: str) -> None:
    for words, message in (
        (("--include", "x"), "Exactly one of --include/--topic is required."),
        (("--offset", "1"), "The partition is required when offset is specified."),
        (("--isolation-level", "none"), "isolation.level: none is not an isolation level"),
        (("--formatter", "org.example.Mine"), "org.example.Mine"),
        (("--key-deserializer", "Mine"), "The deserializer Mine is not one of"),
    ):
        printed = consume(broker, topic, *words)
        assert printed.status == 1
        assert printed.err.startswith(message), printed.err
    assert produce(broker, topic, b"", "--compression-codec", "brotli").err.startswith(
        "compression.type: brotli is not one of none, gzip"
    )


def test_a_consumer_with_a_time_out_ends_well_where_no_broker_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = consume(f"127.0.0.1:{silent.getsockname()[1]}", "t", "--timeout-ms", "1")
    assert (done.status, done.out, "TimeoutException" in done.err) == (0, "", True)


def test_a_partition_is_read_once_it_has_a_leader_again() -> None:
    with Broker(brokers=2, topics=["t:2"]) as broker, Cluster(Settings(broker.bootstrap_servers)) as cluster:
        down = next(partition for partition in (0, 1) if broker.leader("t", partition) == 2)
        broker.brokers[2].stop()
        reader = Reader(cluster)
        reader.assign({("t", 0): 0, ("t", 1): 0})
        assert reader.poll(0) == []
        broker.brokers[2].start()
        broker.produce("t", "late", partition=down)
        eventually(lambda: [each.partition for each in reader.poll(0)] == [down])
