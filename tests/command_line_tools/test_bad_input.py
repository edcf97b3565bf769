"""Bad input for every tool: an unreachable broker, and conflicting options."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.command_line_tools.runs import run_tool
from tests.sweeps import one_in

_CONFIG: Final = "--command-config {C}"
_UNREACHABLE: Final = {
    "kafka-topics": f"--list {_CONFIG}",
    "kafka-broker-api-versions": _CONFIG,
    "kafka-cluster": "cluster-id --config {C}",
    "kafka-get-offsets": _CONFIG,
    "kafka-configs": f"--describe --entity-type topics {_CONFIG}",
    "kafka-delete-records": f"--offset-json-file {{J}} {_CONFIG}",
    "kafka-acls": f"--list {_CONFIG}",
    "kafka-log-dirs": f"--describe {_CONFIG}",
    "kafka-leader-election": "--election-type preferred --all-topic-partitions --admin.config {C}",
    "kafka-features": f"describe {_CONFIG}",
    "kafka-metadata-quorum": f"describe --status {_CONFIG}",
    "kafka-reassign-partitions": f"--list {_CONFIG}",
    "kafka-transactions": f"list {_CONFIG}",
    "kafka-groups": f"--list {_CONFIG}",
    "kafka-client-metrics": f"--list {_CONFIG}",
    "kafka-console-consumer": "--topic a --consumer.config {C}",
}
"""Options of tools that exit with status 1 if no broker can be reached."""
_UNREACHABLE_OTHERWISE: Final = {
    "kafka-console-producer": "--topic a --bootstrap-server {A} --max-block-ms 200",
    "kafka-console-producer.sh": "--topic a --bootstrap-server {A} --producer-property max.block.ms=200",
    "kafka-producer-perf-test": (
        "--topic a --num-records 1 --record-size 1 --throughput -1 "
        "--producer-props bootstrap.servers={A} max.block.ms=200"
    ),
    "kafka-consumer-perf-test": "--bootstrap-server {A} --topic a --messages 1 --timeout 200",
    "kafka-consumer-groups": "--bootstrap-server {A} --list --timeout 200",
    "cub": "kafka-ready -b {A} 1 0.2",
    "ub": "kafka-ready 1 0.2 -b {A}",
    "kcat": "-b {A} -L -m 1",
}
"""Options of tools that have their own option for the timeout."""
_CONFLICTING: Final = {
    "kafka-topics": ("--bootstrap-server a:1 --list --delete", "Command must include exactly one action"),
    "kafka-configs": ("--bootstrap-server a:1 --describe --alter", "Command must include exactly one action"),
    "kafka-consumer-groups": (
        "--bootstrap-server a:1 --list --describe --all-groups",
        "must include exactly one action",
    ),
    "kafka-acls": ("--bootstrap-server a:1 --list --add", "Command must include exactly one action"),
    "kafka-leader-election": (
        "--bootstrap-server a:1 --election-type preferred --all-topic-partitions --topic a",
        "One and only one of the following options is required",
    ),
    "kafka-reassign-partitions": ("--bootstrap-server a:1 --list --verify", "exactly one action"),
    "kafka-transactions": ("--bootstrap-server a:1 describe --topic a", "argument --transactional-id is required"),
    "kafka-groups": ("--bootstrap-server a:1 --list --share --streams", "can't be used with option"),
    "kafka-features": ("--bootstrap-server a:1 upgrade --feature a=1 --feature a=2", "was specified more than once"),
    "kafka-console-consumer": ("--bootstrap-server a:1 --topic a --include b", "Exactly one of"),
}
"""Options that exclude each other, and a part of the message in Kafka's tool."""


@pytest.fixture
def closed_address() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # The socket is bound but does not listen, so the port refuses connections.
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("tool", sorted(_UNREACHABLE))
def test_an_unreachable_broker_ends_the_tool_with_the_address_that_was_tried(
    tool: str, closed_address: str, tmp_path: Path
) -> None:
    config, plan = tmp_path / "client.properties", tmp_path / "plan.json"
    config.write_text("default.api.timeout.ms=200\n")
    plan.write_text('{"partitions": [{"topic": "a", "partition": 0, "offset": 1}]}')
    words = _UNREACHABLE[tool].replace("{C}", str(config)).replace("{J}", str(plan)).split()
    printed = run_tool(tool, *words, "--bootstrap-server", closed_address)
    assert printed.status == 1
    assert f"{closed_address}: Connection refused" in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err


@pytest.mark.parametrize("tool", one_in(2, sorted(_UNREACHABLE_OTHERWISE)))
def test_an_unreachable_broker_ends_the_tool_within_the_time_of_its_own_option(tool: str, closed_address: str) -> None:
    printed = run_tool(tool, *_UNREACHABLE_OTHERWISE[tool].replace("{A}", closed_address).split(), stdin=b"line\n")
    assert printed.status == (tool != "kafka-consumer-groups")  # As in Kafka, this tool returns 0.
    assert f"{closed_address}: Connection refused" in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err


@pytest.mark.parametrize("tool", sorted(_CONFLICTING))
def test_conflicting_options_are_refused_before_a_broker_is_asked(tool: str) -> None:
    words, message = _CONFLICTING[tool]
    printed = run_tool(tool, *words.split())
    assert printed.status == 1
    assert message in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err
