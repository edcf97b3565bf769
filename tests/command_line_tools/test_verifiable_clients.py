"""kafka-verifiable-producer, kafka-verifiable-consumer and kafka-dump-log."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.cli.main import main
from tests.command_line_tools.runs import run_tool
from tests.kafka import jvm
from tests.patience import PATIENCE_S
from tests.programs import module_command, run_to_success


def parse_events(text: str) -> list[dict[str, Any]]:
    """Parse the events in a tool's output, without their timestamps."""
    events = [json.loads(line) for line in text.splitlines()]
    assert all(event.pop("timestamp") > 0 for event in events)
    return events


def test_what_is_produced_is_consumed_and_committed() -> None:
    with Broker(topics=["t"]) as broker:
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        words = ("--topic", "t", "--max-messages", "3", "--repeating-keys", "2", "--value-prefix", "7")
        produced = parse_events(run_tool("kafka-verifiable-producer", *servers, *words).out)
        assert [event["name"] for event in produced] == [
            "startup_complete", *["producer_send_success"] * 3, "shutdown_complete", "tool_data",
        ]  # fmt: skip
        sent = {"name": "producer_send_success", "key": "1", "value": "7.1", "topic": "t", "partition": 0, "offset": 1}
        assert produced[2] == sent
        assert (produced[-1]["sent"], produced[-1]["acked"], produced[-1]["target_throughput"]) == (3, 3, -1)
        partition = {"topic": "t", "partition": 0}
        call = ("--topic", "t", "--group-id", "g", "--max-messages", "3", "--verbose")
        consumed = parse_events(run_tool("kafka-verifiable-consumer", *servers, *call).out)
        assert [event["name"] for event in consumed] == [
            "startup_complete", "partitions_assigned", *["record_data"] * 3, "records_consumed", "offsets_committed",
            "partitions_revoked", "shutdown_complete",
        ]  # fmt: skip
        assert consumed[1]["partitions"] == [partition]
        assert consumed[3] == {"name": "record_data", "key": "1", "value": "7.1", **partition, "offset": 1}
        assert consumed[5]["partitions"] == [{**partition, "count": 3, "minOffset": 0, "maxOffset": 2}]
        assert consumed[6] == {"name": "offsets_committed", "offsets": [{**partition, "offset": 3}], "success": True}


@pytest.mark.torture
def test_programs_of_kafkas_system_tests_end_well(kafka_libs: Path) -> None:
    def run(name: str, *words: str) -> list[dict[str, Any]]:
        command = [*jvm.command(kafka_libs), f"org.apache.kafka.tools.{name}", *words]
        done = run_to_success(command)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    with Broker(topics=["in", "out"], config={"minibroker.emulate": "3.9"}) as broker:
        server = ("--bootstrap-server", broker.bootstrap_servers)
        produced = run("VerifiableProducer", *server, "--topic", "in", "--max-messages", "20")
        assert (produced[-1]["sent"], produced[-1]["acked"]) == (20, 20)
        places = ("--input-topic", "in", "--input-partition", "0", "--output-topic", "out")
        ids = ("--transactional-id", "id", "--consumer-group", "copier")
        sizes = ("--max-messages", "20", "--transaction-size", "5")
        copied = run("TransactionalMessageCopier", "--broker-list", broker.bootstrap_servers, *places, *ids, *sizes)
        assert (copied[-1]["totalProcessed"], copied[-1]["remaining"]) == (20, 0)
        options = ("--topic", "out", "--group-id", "reader", "--max-messages", "20", "--reset-policy", "earliest")
        consumed = run("VerifiableConsumer", *server, *options)
        assert sum(event.get("count", 0) for event in consumed if event["name"] == "records_consumed") == 20
        assert consumed[-1]["name"] == "shutdown_complete"


def test_a_refused_record_is_an_event() -> None:
    with Broker(topics=["t:1:max.message.bytes=10"]) as broker:
        words = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--max-messages", "1")
        events = parse_events(run_tool("kafka-verifiable-producer", *words).out)
        (refused,) = [event for event in events if event["name"] == "producer_send_error"]
        assert refused["exception"] == "class org.apache.kafka.common.errors.RecordTooLargeException"


def test_a_signal_ends_the_consumer_in_good_order() -> None:
    with Broker(topics=["t"], journal=True) as broker:
        words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--group-id", "g"]
        program = [*module_command("minibroker_tools"), "kafka-verifiable-consumer", *words]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert "startup_complete" in child.stdout.readline()
            assert "partitions_assigned" in child.stdout.readline()
            child.terminate()
            output, _ = child.communicate(timeout=PATIENCE_S)
        assert ("shutdown_complete" in output, child.returncode) == (True, 0)
        assert [request.api for request in broker.requests][-1] == "LeaveGroup"


@pytest.mark.parametrize(
    ("tool", "words", "message"),
    [
        ("producer", "--message-create-time 5", "--message-create-time is not supported"),
        ("producer", "--acks 2", "--acks 2: it is none of"),
        (
            "consumer",
            "--group-id g --group-protocol consumer",
            "--group-protocol consumer is not supported; classic is",
        ),
        ("consumer", "--group-id g --assignment-strategy a.B", "--assignment-strategy a.B is not supported"),
        ("consumer", "", 'Missing required argument "[group-id]"'),
    ],
)
def test_options_that_cannot_be_served_are_named(tool: str, words: str, message: str) -> None:
    refused = run_tool(f"kafka-verifiable-{tool}", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", *words.split())
    assert (refused.status, refused.err.startswith(message)) == (1, True), refused.err


def test_files_are_dumped_with_the_options_of_kafka(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Broker(topics=["t"], data_dir=tmp_path / "data") as broker:
        broker.produce("t", "hello")
    log = str(tmp_path / "data" / "t-0" / "00000000000000000000.log")
    assert main(["dump", "--print-data-log", log]) == 0
    plain = capfd.readouterr().out
    assert "payload: hello" in plain
    decoder = "kafka.serializer.StringDecoder"
    words = ["--files", log, "--print-data-log", "--value-decoder-class", decoder, "--max-message-size=100"]
    for tool in (["kafka-dump-log"], ["kafka-run-class", "kafka.tools.DumpLogSegments"]):
        printed = run_tool(*tool, *words)
        assert printed.status == 0
        # A child of the tool prints, to this process's output if the tool runs here.
        assert printed.out + capfd.readouterr().out == plain
    assert main(["dump", "--files", f"{log},{log}"]) == 0
    assert capfd.readouterr().out.count("Dumping ") == 2


def test_a_dump_says_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        ((), "This tool helps to parse a log file"),
        (("--print-data-log",), 'Missing required argument "[files]"'),
        (("--files", "x", "--cluster-metadata-decoder"), "--cluster-metadata-decoder is not supported"),
        (("--files", "x", "--key-decoder-class", "a.B"), "--key-decoder-class a.B is not supported"),
        (("--files", "x", "--none"), "none is not a recognized option"),
    ):
        refused = run_tool("kafka-dump-log", *words)
        assert (refused.status, refused.err.startswith(message)) == (1, True), refused.err
    with pytest.raises(SystemExit):
        main(["dump"])
    assert "required: FILE" in capsys.readouterr().err
