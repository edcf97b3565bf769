"""kafka-producer-perf-test and kafka-consumer-perf-test print statistics in the format of Kafka's tools."""

import re
from pathlib import Path

from tests.command_line_tools.comparing import Comparison, new_topic
from tests.command_line_tools.runs import run_tool
from tests.kafka.oracle import Oracle
from tests.patience import eventually

_ONE = ("--transaction-duration-ms", "90000")
"""Options that send all records in one transaction."""
_DIGITS = re.compile(r"\d+")


def hide_numbers(text: str) -> str:
    """Return the text with N for each number."""
    return _DIGITS.sub("N", text)


def test_figures_have_the_form_of_kafkas_tools(oracle: Oracle, bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    sends = ("--topic", topic, "--num-records", "500", "--record-size", "100", "--throughput", "-1")
    props = ("--producer-props", f"bootstrap.servers={bootstrap}", "acks=1")
    kafka_output = oracle.attempt("org.apache.kafka.tools.ProducerPerformance", *sends, *props)
    printed = run_tool("kafka-producer-perf-test", *sends, *props)
    assert printed.status == 0, printed.err
    assert hide_numbers(printed.out.strip()) == hide_numbers(kafka_output.splitlines()[0])
    assert printed.out.startswith("500 records sent, ")
    reads = ("--bootstrap-server", bootstrap, "--topic", topic, "--messages", "1000")
    kafka_output = oracle.attempt("org.apache.kafka.tools.ConsumerPerformance", *reads)
    printed = run_tool("kafka-consumer-perf-test", *reads)
    assert printed.status == 0, printed.err
    lines = printed.out.splitlines()
    assert lines[0] == kafka_output.splitlines()[0]
    assert hide_numbers(lines[1]) == hide_numbers(kafka_output.splitlines()[1])
    assert lines[1].split(", ")[2::2][:2] == ["0.0954", "1000"]  # 100,000 bytes
    detailed = run_tool("kafka-consumer-perf-test", *reads, "--show-detailed-stats", "--reporting-interval", "1")
    their_header = "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
    assert detailed.out.splitlines()[0].startswith(their_header)
    assert len(detailed.out.splitlines()[-1].split(", ")) == 10


def test_values_come_from_a_file_or_count(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_text("one|two|")
    for options, expected in (
        (("--payload-file", str(file), "--payload-delimiter", "|"), {"one", "two"}),
        (("--payload-monotonic",), {str(number) for number in range(20)}),
    ):
        topic = new_topic(bootstrap)
        words = ("--topic", topic, "--num-records", "20", "--throughput", "2000", "--bootstrap-server", bootstrap)
        sent = run_tool("kafka-producer-perf-test", *words, *options)
        assert sent.status == 0, sent.err
        read = run_tool("kcat", "-m", "60", "-b", bootstrap, "-C", "-t", topic, "-e", "-q").out.split()
        assert (len(read), set(read) <= expected) == (20, True)
        assert ("Number of messages read: 2" in sent.out) == ("--payload-file" in options)


def test_keys_count_or_come_by_chance(bootstrap: str) -> None:
    def send_keys(distribution: str) -> list[str]:
        topic = new_topic(bootstrap)
        words = ("--topic", topic, "--num-records", "12", "--throughput", "-1", "--bootstrap-server", bootstrap)
        chosen = ("--key-distribution", distribution, "--record-key-range", "3", "--random-seed", "5")
        sent = run_tool("kafka-producer-perf-test", *words, "--record-size", "5", *chosen)
        assert sent.status == 0, sent.err
        return run_tool("kcat", "-m", "60", "-b", bootstrap, "-C", "-t", topic, "-e", "-q", "-f", "%k ").out.split()

    assert send_keys("range") == ["0", "1", "2"] * 4
    random = send_keys("random")
    assert set(random) == {"0", "1", "2"}
    assert send_keys("random") == random != send_keys("range"), "the seed makes them the same each time"


def test_records_are_sent_in_transactions(bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    sends = ("--topic", topic, "--num-records", "40", "--record-size", "1000", "--bootstrap-server", bootstrap)
    name = f"{topic}-id"
    # The low throughput makes four batches. The second batch ends after the duration of the first transaction.
    for rate, more in (("130", ("--transactional-id", name, "--transaction-duration-ms", "1")), ("-1", _ONE)):
        sent = run_tool("kafka-producer-perf-test", *sends, "--throughput", rate, *more)
        assert (sent.status, sent.out.startswith("40 records sent, ")) == (0, True), sent.err
    reads = ("-b", bootstrap, "-C", "-t", topic, "-e", "-q", "-X", "isolation.level=read_committed", "-f", "%o\n")
    offsets = [int(line) for line in run_tool("kcat", *reads).out.split()]
    assert len(offsets) == 80
    assert offsets[39] > 40  # The markers of several transactions lie between the records.
    assert offsets[79] - offsets[40] == 39
    describe = ("kafka-transactions", "--bootstrap-server", bootstrap, "describe", "--transactional-id", name)
    eventually(lambda: "CompleteCommit" in run_tool(*describe).out)
    large = ("--topic", topic, "--num-records", "9", "--record-size", "2000000", "--throughput", "-1")
    failed = run_tool("kafka-producer-perf-test", *large, "--bootstrap-server", bootstrap, "--transactional-id", name)
    assert (failed.status, failed.out, failed.err.count("RecordTooLargeException")) == (1, "", 1), failed.err
    eventually(lambda: "CompleteAbort" in run_tool(*describe).out)
    refused = run_tool("kafka-producer-perf-test", *sends, "--throughput", "-1", *_ONE, "--producer-props", "acks=1")
    assert (refused.status, refused.err.startswith("Must set acks to all")) == (1, True)


def test_all_topics_are_read_whose_names_match(bootstrap: str) -> None:
    topics = [new_topic(bootstrap) for _ in range(2)]
    for topic in topics:
        sends = ("--topic", topic, "--num-records", "3", "--record-size", "1", "--throughput", "-1")
        assert run_tool("kafka-producer-perf-test", *sends, "--bootstrap-server", bootstrap).status == 0
    reads = ("--bootstrap-server", bootstrap, "--num-records", "6", "--hide-header", "--include")
    read = run_tool("kafka-consumer-perf-test", *reads, "|".join(topics), "--command-property", "client.id=reader")
    assert read.out.split(", ")[4] == "6"
    refused = run_tool("kafka-consumer-perf-test", *reads, "a(")
    assert (refused.status, refused.err.startswith("a( is an invalid regular expression")) == (1, True)


def test_a_reader_of_too_few_records_ends_in_its_time(bootstrap: str) -> None:
    reads = ("--bootstrap-server", bootstrap, "--topic", new_topic(bootstrap), "--messages", "5", "--timeout", "300")
    short = run_tool("kafka-consumer-perf-test", *reads, "--hide-header")
    assert short.status == 0
    assert short.out.startswith(
        "WARNING: Exiting before consuming the expected number of messages: timeout (300 ms) exceeded. "
    )
    assert short.out.splitlines()[1].split(", ")[4] == "0"


def test_wrong_command_lines_are_refused(comparison: Comparison, bootstrap: str) -> None:
    reads = "kafka-consumer-perf-test --bootstrap-server {B}"
    comparison.compare(
        f"{reads} --messages 1",
        f"{reads} --topic t",
        "kafka-consumer-perf-test --topic t --messages 1",
        f"{reads} --topic t --messages 1 --nothing",
    )
    sends = ("kafka-producer-perf-test", "--topic", "t", "--num-records", "1", "--throughput", "-1")
    for words, message in (
        (sends, "producer-performance: error: exactly one of the arguments"),
        ((*sends, "--record-size", "1"), "producer-performance: error: Either --producer-props or"),
        ((*sends, "--record-size", "0", "--bootstrap-server", bootstrap), "--record-size must be at least 1"),
        ((*sends, "--payload-file", "/nowhere", "--bootstrap-server", bootstrap), "File does not exist or empty"),
        ((*sends, "--record-size", "1", "--producer-props", "acks"), "Invalid property: acks"),
        ((*sends, "--record-size", "1", "--producer-props", "acks=7"), "Invalid value 7 for configuration acks"),
        (("kafka-producer-perf-test", "--topic", "t"), "producer-performance: error: argument --num-records"),
    ):
        refused = run_tool(*words)
        assert (refused.status, refused.err.startswith(message)) == (1, True), refused.err
