"""kafka-reassign-partitions prints the same as Kafka's tool, on both brokers and on three minibroker nodes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker_tools.commands.reassignment_plans import propose
from tests.command_line_tools.comparing import Comparison, new_topic, write_json
from tests.command_line_tools.runs import run_our_tool, run_tool
from tests.kafka.oracle import Oracle

_TOOL = "kafka-reassign-partitions --bootstrap-server {B}"


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[str]:
    with Broker(brokers=3, config={"minibroker.emulate": "3.9"}) as broker:
        yield broker.bootstrap_servers


def entry(topic: object, partition: object = 0, replicas: object = (1,), **more: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "replicas": replicas, **more}


def test_plans_are_proposed_executed_verified_and_cancelled(
    comparison: Comparison, bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(bootstrap, 2)
    plan = write_json(tmp_path / "plan", {"version": 1, "partitions": [entry(topic, 0), entry(topic, 1)]})
    other = write_json(tmp_path / "other", {"partitions": [entry(topic, 0, [1, 7]), entry(f"{topic}-none")]})
    moved = write_json(tmp_path / "moved", {"partitions": [entry(topic, 0, log_dirs=["/nowhere"])]})
    move = write_json(tmp_path / "move", {"topics": [{"topic": topic}], "version": 1})
    generation = f"--generate --topics-to-move-json-file {move}"
    json_file = "--reassignment-json-file"
    comparison.compare(
        f"{_TOOL} {generation} --broker-list 1",
        f"{_TOOL} {generation} --broker-list 1 --disable-rack-aware",
        f"{_TOOL} {generation} --broker-list 1,9",
        f"{_TOOL} --execute {json_file} {plan}",
        f"{_TOOL} --verify {json_file} {plan}",
        f"{_TOOL} --verify {json_file} {plan} --preserve-throttles",
        f"{_TOOL} --execute {json_file} {plan} --throttle 5000 --replica-alter-log-dirs-throttle 6000 --additional",
        f"{_TOOL} --verify {json_file} {other} --preserve-throttles",
        f"{_TOOL} --verify {json_file} {moved} --preserve-throttles",
        f"{_TOOL} --cancel {json_file} {plan}",
        f"{_TOOL} --cancel {json_file} {plan} --preserve-throttles",
        f"{_TOOL} --execute {json_file} {other}",
    )
    assert comparison.run_ours(f"{_TOOL} --list") == (("No partition reassignments found.",), 0)


def test_wrong_plans_are_refused(comparison: Comparison, bootstrap: str, tmp_path: Path) -> None:
    topic = new_topic(bootstrap, 2)
    plans: list[Any] = [
        {"partitions": []},
        {},
        {"version": 2, "partitions": []},
        {"version": "1", "partitions": []},
        [],
        {"partitions": [1]},
        {"partitions": [{"topic": topic}]},
        {"partitions": [entry(topic, "0")]},
        {"partitions": [entry(3)]},
        {"partitions": [entry(topic, 0, [])]},
        {"partitions": [entry(topic, 0, [1, 1])]},
        {"partitions": [entry(topic, 0), entry(topic, 0)]},
        {"partitions": [entry(topic, 0, [1], log_dirs=["any", "any"])]},
        {"partitions": [entry(topic, 9)]},
        {"partitions": [entry(f"{topic}-none")]},
        {"partitions": [entry(topic, 0, [9])]},
    ]
    paths = [write_json(tmp_path / f"{number}.json", plan) for number, plan in enumerate(plans)]
    calls = [f"{_TOOL} --execute --reassignment-json-file {path}" for path in paths]
    moves: list[Any] = [
        {"topics": [{"topic": topic}] * 2},
        {"topics": [{"topic": f"{topic}-none"}]},
        {"topics": [{}]},
        {"version": 2},
        "{",
    ]
    paths = [write_json(tmp_path / f"topics-{number}.json", move) for number, move in enumerate(moves)]
    generate = f"{_TOOL} --generate --topics-to-move-json-file"
    calls += [f"{generate} {path} --broker-list 1" for path in paths]
    comparison.compare(*calls, f"{generate} {paths[1]} --broker-list 1,1", f"{generate} {paths[1]} --broker-list a")
    for wrong, reason in (("missing.json", "Unable to read file"), ("broken.json", "is not a valid JSON")):
        write_json(tmp_path / "broken.json", "{")
        printed = run_tool(*comparison.words(f"{_TOOL} --verify --reassignment-json-file {tmp_path}/{wrong}"))
        assert (printed.status, printed.err) == (1, "")
        assert reason in printed.out


def test_wrong_command_lines_fail_as_with_kafkas_tool(comparison: Comparison) -> None:
    comparison.compare(
        "kafka-reassign-partitions",
        _TOOL,
        "kafka-reassign-partitions --list",
        "kafka-reassign-partitions --version",
        f"{_TOOL} --list --execute",
        f"{_TOOL} --execute",
        f"{_TOOL} --generate --broker-list 1",
        f"{_TOOL} --generate --topics-to-move-json-file a",
        f"{_TOOL} --verify --reassignment-json-file a --throttle 1",
        f"{_TOOL} --list --timeout 1",
        f"{_TOOL} --cancel --reassignment-json-file a --additional",
        f"{_TOOL} --execute --reassignment-json-file a --throttle 1",
    )


def test_replicas_move_between_nodes_and_throttles_come_and_go(
    oracle: Oracle, three_nodes: str, tmp_path: Path
) -> None:
    comparison = Comparison(oracle, three_nodes)
    topic = new_topic(three_nodes, 2)
    plans = [
        write_json(tmp_path / f"{number}", {"partitions": [entry(topic, 0, replicas), entry(topic, 1, replicas[::-1])]})
        for number, replicas in enumerate(([2, 3], [3, 1]))
    ]
    for path in plans:
        # Move the replicas first, so that both tool families start with the same replicas.
        assert comparison.run_ours(f"{_TOOL} --execute --reassignment-json-file {path}").status == 0
        comparison.compare(
            f"{_TOOL} --execute --reassignment-json-file {path} --throttle 7000 --additional",
            f"{_TOOL} --verify --reassignment-json-file {path} --preserve-throttles",
        )
    config = ("kafka-configs", "--bootstrap-server", three_nodes, "--describe", "--topic", topic)
    assert "leader.replication.throttled.replicas=0:1,0:3,1:1,1:3" in run_tool(*config).out
    comparison.compare(f"{_TOOL} --verify --reassignment-json-file {plans[1]}")
    assert "throttled" not in run_tool(*config).out
    described = run_our_tool("kafka-topics", "--bootstrap-server", three_nodes, "--describe", "--topic", topic).lines
    assert any("Replicas: 3,1" in line for line in described)
    move = write_json(tmp_path / "move", {"topics": [{"topic": topic}]})
    words = comparison.words(f"{_TOOL} --generate --topics-to-move-json-file {move} --broker-list 1,2,3")
    proposed = json.loads(run_tool(*words).out.splitlines()[-1])
    assert [sorted(partition["replicas"]) != [] for partition in proposed["partitions"]] == [True, True]
    assert write_json(tmp_path / "proposed", proposed).exists()
    assert comparison.run_ours(f"{_TOOL} --execute --reassignment-json-file {tmp_path / 'proposed'}").status == 0


def test_proposals_spread_leaders_and_racks() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    proposed = propose(racks, 12, 3)
    assert sorted(replicas[0] for replicas in proposed) == sorted([*racks, *racks])
    assert all(len({racks[node] for node in replicas}) == 3 for replicas in proposed)
    without: dict[int, str | None] = dict.fromkeys(range(4))
    assert all(len(set(replicas)) == 4 for replicas in propose(without, 8, 4))
    assert propose({7: None}, 2, 1) == [[7], [7]]
