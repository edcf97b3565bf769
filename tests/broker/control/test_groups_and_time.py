"""Groups, the clock, retention, compaction, resets and snapshots over HTTP."""

from pathlib import Path
from urllib.parse import quote

import pytest

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.operations.members import member
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("group", ["g", "team/a b"])
def test_a_group_is_waited_for_described_measured_and_pushed(control: Control, broker: Broker, group: str) -> None:
    path = f"/groups/{quote(group)}"
    broker.produce("given", b"one", b"two")
    assert control.get(path)["state"] == "Dead"
    assert control.ask("POST", f"{path}/rebalance").problem == (409, "conflict", f"group {group!r} has no members")
    with member(broker, "reader", group, topic="given", heartbeat_interval_ms=100):
        stable = control.post(f"{path}/wait-until-stable", {"members": 1, "timeout": PATIENCE_S})
        assert (stable["group_id"], stable["state"], stable["is_stable"]) == (group, "Stable", True)
        (only,) = stable["members"]
        assert only["client_id"] == "reader"
        assert only["partitions"] == [{"topic": "given", "partition": each} for each in (0, 1)]
        generation = stable["generation"]
        control.post(f"{path}/rebalance", status=204)
        control.post("/requests/wait", {"api": "SyncGroup", "group": group, "count": 2, "timeout": PATIENCE_S})
        assert control.post(f"{path}/wait-until-stable", {"timeout": PATIENCE_S})["generation"] == generation + 1
        control.post("/requests/wait", {"api": "OffsetCommit", "group": group, "count": 2, "timeout": PATIENCE_S})
    lag = control.get(f"{path}/lag")
    assert lag == {"total": 0, "partitions": [{"topic": "given", "partition": each, "lag": 0} for each in (0, 1)]}
    assert [each["offset"] for each in control.get(f"{path}/committed")["partitions"]] == [1, 1]
    assert control.get("/groups") == {"groups": [group], "next_after": None}
    broker.produce("given", b"three", partition=1)
    assert control.get(f"{path}/lag")["total"] == 1


def test_groups_are_listed_in_pages_by_id(broker: Broker, control: Control) -> None:
    for group in ("c/1", "a b", "b"):
        with member(broker, "reader", group, topic="given"):
            control.post(f"/groups/{quote(group)}/wait-until-stable", {"members": 1, "timeout": PATIENCE_S})
    assert control.get("/groups?limit=2") == {"groups": ["a b", "b"], "next_after": "b"}
    assert control.get("/groups?limit=2&after=b") == {"groups": ["c/1"], "next_after": None}
    assert control.get("/groups?limit=3") == {"groups": ["a b", "b", "c/1"], "next_after": None}
    assert control.ask("GET", "/groups?limit=10001").problem[0] == 400


def test_a_group_that_does_not_become_stable_is_a_conflict_that_tells_where_it_stands(control: Control) -> None:
    answer = control.ask("POST", "/groups/g/wait-until-stable", {"members": 2, "timeout": 0})
    assert answer.problem[:2] == (409, "timeout")
    assert "group 'g' was not stable with 2 members within 0 s: Dead" in answer.problem[2]


def test_a_group_is_waited_for_until_it_has_read_everything(control: Control, broker: Broker) -> None:
    broker.produce("given", b"one", b"two", partition=0)
    with member(broker, "reader", "g", topic="given"):
        committed = {"partitions": [{"topic": "given", "partition": 0, "offset": 2}]}
        assert control.post("/groups/g/wait-until-caught-up", {"timeout": PATIENCE_S}) == committed
        assert control.post("/groups/g/wait-until-caught-up", {"topic": "given", "timeout": PATIENCE_S}) == committed
    broker.produce("given", b"three", partition=1)
    answer = control.ask("POST", "/groups/g/wait-until-caught-up", {"topic": "given", "timeout": 0})
    assert answer.problem[:2] == (409, "timeout")
    assert "given-1: nothing committed, end 1, 1 behind" in answer.problem[2]


def test_the_clock_moves_on_and_retention_follows_it(control: Control, broker: Broker) -> None:
    control.post("/topics", {"name": "brief", "partitions": 1, "configs": {"retention.ms": 60_000}}, 201)
    broker.produce("brief", b"old")
    before = control.get("/clock")["now_ms"]
    after = control.post("/clock/advance", {"seconds": 86_400})["now_ms"]
    assert after - before >= 86_400_000
    control.post("/retention/run")
    assert broker.records("brief") == []
    assert control.post("/retention/run") == {"deleted_segments": 0}


@pytest.mark.parametrize("seconds", [-1, float("inf"), "1", None])
def test_time_goes_on_by_a_finite_number_only(control: Control, seconds: object) -> None:
    answer = control.ask("POST", "/clock/advance", {"seconds": seconds})
    assert answer.problem[:2] == (400, "bad_request")
    assert answer.problem[2].startswith("seconds: ")


def test_a_topic_is_compacted_when_asked(control: Control, broker: Broker) -> None:
    control.post("/topics", {"name": "state", "partitions": 1, "configs": {"cleanup.policy": "compact"}}, 201)
    broker.produce("state", "1", "2", "3", key="k")
    control.post("/compact", {"topic": "state"}, status=204)
    assert [record.value for record in broker.records("state")] == [b"3"]
    answer = control.ask("POST", "/compact", {"topic": "given"})
    assert answer.problem[:2] == (409, "conflict")
    assert "not compacted" in answer.problem[2]


def test_a_reset_leaves_the_topics_of_the_start(control: Control, broker: Broker) -> None:
    broker.produce("orders", b"1")
    broker.produce("given", b"1", partition=0)
    control.post("/faults", {"api": "Fetch", "delay_ms": 1}, 201)
    control.post("/reset", {"keep_topics": True}, status=204)
    assert control.get("/topics/given/records")["records"] == []
    assert broker.produce("given", b"2", partition=0)[0].offset == 1
    control.post("/reset", status=204)
    assert [each["name"] for each in control.get("/topics")["topics"]] == ["given"]
    assert control.get("/faults") == {"faults": []}


def test_a_snapshot_brings_records_back_until_it_is_deleted(control: Control, broker: Broker) -> None:
    broker.produce("given", b"kept")
    taken = control.post("/snapshots", {"name": "seeded"}, 201)
    assert Path(taken["directory"]).is_dir()
    assert control.ask("POST", "/snapshots", {"name": "seeded"}).problem[:2] == (409, "conflict")
    control.post("/reset", status=204)
    control.post("/snapshots/seeded/restore", status=204)
    assert [record.value for record in broker.records("given")] == [b"kept"]
    assert [each["name"] for each in control.get("/snapshots")["snapshots"]] == ["seeded"]
    control.delete("/snapshots/seeded")
    assert not Path(taken["directory"]).exists()
    gone = control.ask("POST", "/snapshots/seeded/restore")
    assert gone.problem == (404, "not_found", "there is no snapshot 'seeded'; snapshots: none")


def test_a_snapshot_in_a_directory_outlives_its_name(control: Control, broker: Broker, tmp_path: Path) -> None:
    broker.produce("given", b"kept")
    directory = str(tmp_path / "snapshot")
    name = control.post("/snapshots", {"directory": directory}, 201)["name"]
    assert control.ask("POST", "/snapshots", {"directory": directory}).problem[:2] == (409, "conflict")
    control.delete(f"/snapshots/{name}")
    control.post("/reset", status=204)
    control.post("/restore", {"directory": directory}, status=204)
    assert [record.value for record in broker.records("given")] == [b"kept"]
    assert control.ask("POST", "/restore", {"directory": str(tmp_path)}).problem[:2] == (404, "not_found")
