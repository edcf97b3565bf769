"""The Do view without a browser: its forms and lines. Each line is run and has the same effect as its form."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.server.faults.fields import HOW_OFTEN, MATCH, WHAT
from minibroker_lab.page import actions
from tests.broker.control.http import Control
from tests.broker.page.action_cases import CASES, IDS, Case, cleared
from tests.clients.kafka_python_client import KafkaConsumer, poll_until
from tests.command_line_tools.newest_jars import KAFKA_TOOLS
from tests.kafka import jvm
from tests.patience import PATIENCE_S
from tests.programs import run_to_success
from tests.sweeps import one_in

WITH_TOOL = [case for case in CASES if case.has_tool]
TOOLS = (
    "kafka-topics",
    "kafka-console-producer",
    "kafka-console-consumer",
    "kafka-reassign-partitions",
    "kafka-leader-election",
)
CLASSES = {**KAFKA_TOOLS, "kafka-console-producer": "kafka.tools.ConsoleProducer"}


def prepared(page: Control, name: str, fields: dict[str, str]) -> Any:
    return page.post(f"/data/actions/{name}", {"fields": fields})


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with Kafka's tools under the names that users have on their PATH."""
    folder = tmp_path_factory.mktemp("tools")
    program = Path(sys.executable).with_name("minibroker-tools")
    for name in TOOLS:
        (folder / f"{name}.sh").symlink_to(program)
    return folder


@pytest.fixture(scope="session")
def kafkas_tools(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same folder with the tools of Apache Kafka."""
    folder = tmp_path_factory.mktemp("kafkas-tools")
    java = shlex.join(jvm.command(kafka_libs, heap="256m"))
    for name in TOOLS:
        path = folder / f"{name}.sh"
        path.write_text(f'#!/bin/sh\nexec {java} {CLASSES[name]} "$@"\n')
        path.chmod(0o755)
    return folder


def run(line: str, tools: Path) -> str:
    """Run a shell line and return its output.

    Raises:
        AssertionError: The line fails.
    """
    assert shutil.which("curl"), "curl"
    result = run_to_success(["sh", "-c", line], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
    return result.stdout


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("way", one_in(3, ["request", "python", "curl", "tool"]))
def test_each_line_does_the_same(
    cluster: Broker, tools: Path, tmp_path: Path, way: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "PATIENCE_MS", 3000)
    page = Control(cluster.page_url)
    cleared(cluster)
    case.before(cluster)
    fields = case.filled(tmp_path / "snapshot")
    action = prepared(page, case.name, fields)
    assert (action["lines"]["tool"] is not None) is case.has_tool
    if way == "request":
        request = action["request"]
        answer = page.ask(request["method"], f"/control{request['path']}", request["body"])
        assert answer.status < 300, answer
        output = str(answer.body)
    elif way == "python":
        output = repr(eval(action["lines"]["python"], {"broker": cluster}))
    elif action["lines"][way] is None:
        assert action["no_tool"].endswith(".")
        return
    else:
        output = run(action["lines"][way], tools)
        assert '"message":' not in output
    assert case.after(cluster, output, tmp_path / "snapshot") == case.expected


@pytest.mark.parametrize("case", one_in(len(WITH_TOOL), WITH_TOOL))
def test_kafkas_own_tools_do_it_with_the_same_line(
    cluster: Broker, kafkas_tools: Path, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "PATIENCE_MS", int(PATIENCE_S * 1000))
    cleared(cluster)
    case.before(cluster)
    fields = {"limit": "3", **case.fields} if case.name == "read_records" else case.fields  # The limit ends it.
    line = prepared(Control(cluster.page_url), case.name, fields)["lines"]["tool"]
    output = run(line, kafkas_tools)
    assert case.after(cluster, output, Path()) == case.expected


def test_a_group_is_rebalanced_by_each_line(cluster: Broker, tools: Path) -> None:
    cleared(cluster)
    page = Control(cluster.page_url)
    lines = prepared(page, "rebalance", {"group_id": "a/b c"})["lines"]
    assert lines["tool"] is None
    consumer = KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers, group_id="a/b c")
    try:
        for way in ("python", "curl"):
            poll_until(consumer, lambda: cluster.group("a/b c").describe().state == "Stable")
            if way == "python":
                eval(lines["python"], {"broker": cluster})
            else:
                assert run(lines["curl"], tools) == ""
            assert cluster.group("a/b c").describe().state == "PreparingRebalance"
    finally:
        consumer.close()


def test_a_partition_that_there_is_not_cannot_be_moved_by_a_tool(cluster: Broker) -> None:
    cleared(cluster)
    page = Control(cluster.page_url)
    fields = {"topic": "none", "partition": "0", "node_id": "2"}
    assert prepared(page, "move_leader", fields)["no_tool"] == "The broker does not know this partition."
    fields = {"topic": "orders", "partition": "7", "node_id": "2"}
    assert prepared(page, "move_leader", fields)["lines"]["tool"] is None


def test_the_form_of_a_fault_has_the_fields_of_the_table(page: Control) -> None:
    (form,) = [action for action in page.get("/data/actions")["actions"] if action["name"] == "add_fault"]
    rows = (*MATCH, *HOW_OFTEN, *WHAT)
    assert {field["name"]: field["meaning"] for field in form["fields"]} == {row.name: row.meaning for row in rows}
    (drop,) = [field for field in form["fields"] if field["name"] == "drop"]
    assert (drop["kind"], drop["choices"]) == ("choice", ["before", "after"])


def test_each_field_has_a_meaning(page: Control) -> None:
    for action in page.get("/data/actions")["actions"]:
        assert action["meaning"]
        assert all(field["meaning"] for field in action["fields"]), action


@pytest.mark.parametrize(
    ("name", "fields", "error"),
    [
        ("create_topic", {"name": ""}, "name: a value is needed"),
        ("create_topic", {"name": "a", "configs": "retention.ms"}, "configs: 'retention.ms' is not NAME=VALUE"),
        ("create_topic", {"naame": "a"}, "naame: there is no such field; did you mean name?"),
        ("restore_snapshot", {"name": "none"}, "there is no snapshot 'none'; snapshots: none"),
    ],
)
def test_a_form_that_cannot_be_sent_says_why(page: Control, name: str, fields: dict[str, str], error: str) -> None:
    assert prepared(page, name, fields) == {"error": error}


def test_the_control_plane_says_what_is_wrong_with_a_value(page: Control) -> None:
    request = prepared(page, "produce", {"topic": "orders", "partition": "two"})["request"]
    status, word, message = page.ask(request["method"], f"/control{request['path']}", request["body"]).problem
    assert (status, word) == (400, "bad_request")
    assert message.startswith("records.0.partition: ")
    assert "'two'" in message


def test_an_unknown_action_is_404(page: Control) -> None:
    problem = page.ask("POST", "/data/actions/fly", {"fields": {}}).problem
    assert problem == (404, "not_found", "there is no action 'fly'")


def test_records_that_a_line_of_the_console_producer_cannot_hold_have_none(page: Control) -> None:
    for fields in ({"value": "a\tb"}, {"value": "a\nb"}, {"key": "NULL"}, {"value": "a", "headers": "a=1,2"}):
        assert prepared(page, "produce", {"topic": "orders", **fields})["lines"]["tool"] is None, fields


def test_a_header_that_comes_twice_is_sent_twice(page_broker: Broker, page: Control) -> None:
    action = prepared(page, "produce", {"topic": "orders", "value": "1", "headers": "a=1\na=2"})
    page.post(f"/control{action['request']['path']}", action["request"]["body"])
    eval(action["lines"]["python"], {"broker": page_broker})
    assert [record.headers for record in page_broker.records("orders")] == [(("a", b"1"), ("a", b"2"))] * 2


def test_with_a_token_the_line_of_curl_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(page=True, control_token="it's") as broker:
        page = Control(broker.page_url)
        headers = {"Authorization": "Bearer it's"}
        answer = page.ask("POST", "/data/actions/create_topic", {"fields": {"name": "made"}}, headers)
        monkeypatch.setenv("MINIBROKER_CONTROL_TOKEN", "it's")
        assert '"error"' not in run(answer.body["lines"]["curl"], tmp_path)
        assert "made" in broker.topics()


def test_forms_offer_what_the_broker_has(cluster: Broker) -> None:
    cleared(cluster)
    cluster.faults.add(api="Fetch", delay_ms=1)
    cluster.brokers[3].stop()
    choices = Control(cluster.page_url).get("/data/choices")
    assert choices["topics"] == ["orders"]
    assert choices["brokers"][2] == {"node_id": 3, "is_up": False}
    assert choices["faults"] == [{"fired": 0, "fault": {"api": "Fetch", "delay_ms": 1}}]
    assert "Produce" in choices["apis"]
    assert "NOT_LEADER_OR_FOLLOWER" in choices["errors"]
    cleared(cluster)
