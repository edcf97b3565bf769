"""Groups, the clock, retention, compaction, resets and snapshots over HTTP."""

from pathlib import Path
from urllib.parse import quote

import pytest

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.operations.members import SHARING, from_the_start, member, polled, sharer
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
        assert only["partitions"] == [{"topic": "given", "partition": partition} for partition in (0, 1)]
        generation = stable["generation"]
        control.post(f"{path}/rebalance", status=204)
        control.post("/requests/wait", {"api": "SyncGroup", "group": group, "count": 2, "timeout": PATIENCE_S})
        assert control.post(f"{path}/wait-until-stable", {"timeout": PATIENCE_S})["generation"] == generation + 1
        control.post("/requests/wait", {"api": "OffsetCommit", "group": group, "count": 2, "timeout": PATIENCE_S})
    lag = control.get(f"{path}/lag")
    assert lag == {
        "total": 0,
        "partitions": [{"topic": "given", "partition": partition, "lag": 0} for partition in (0, 1)],
    }
    assert [partition["offset"] for partition in control.get(f"{path}/committed")["partitions"]] == [1, 1]
    assert control.get("/groups") == {"groups": [group], "next_after": None}
    broker.produce("given", b"three", partition=1)
    assert control.get(f"{path}/lag")["total"] == 1


@pytest.mark.parametrize("group", ["a/lag", "/committed", "%2Flag", "a/lag/committed", "ä/lag", "/"])
def test_a_slash_of_the_id_of_a_group_is_sent_as_2f(control: Control, group: str) -> None:
    path = f"/groups/{quote(group, safe='')}"
    assert (control.get(path)["group_id"], control.get(path.lower())["group_id"]) == (group, group.lower())
    for part in ("lag", "committed"):
        assert control.get(f"{path}/{part}")["partitions"] == []
    for verb in ("wait-until-stable", "wait-until-caught-up"):
        message = control.ask("POST", f"{path}/{verb}", {"timeout": 0}).problem[2]
        assert f"group {group!r}" in message
    message = f"group {group!r} has no members"
    assert control.ask("POST", f"{path}/rebalance").problem == (409, "conflict", message)


def test_a_slash_that_is_sent_as_it_is_parts_where_a_route_fits(control: Control) -> None:
    assert control.get("/groups/a/lag")["total"] == 0
    assert control.get("/groups/a/lag/x")["group_id"] == "a/lag/x"


def test_groups_are_listed_in_pages_by_id(broker: Broker, control: Control) -> None:
    for group in ("c/1", "a b", "b"):
        with member(broker, "reader", group, topic="given"):
            control.post(f"/groups/{quote(group)}/wait-until-stable", {"members": 1, "timeout": PATIENCE_S})
    assert control.get("/groups?limit=2") == {"groups": ["a b", "b"], "next_after": "b"}
    assert control.get("/groups?limit=2&after=b") == {"groups": ["c/1"], "next_after": None}
    assert control.get("/groups?limit=3") == {"groups": ["a b", "b", "c/1"], "next_after": None}
    assert control.ask("GET", "/groups?limit=10001").problem[0] == 400


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
    assert [topic["name"] for topic in control.get("/topics")["topics"]] == ["given"]
    assert control.get("/faults") == {"faults": []}


def test_a_snapshot_brings_records_back_until_it_is_deleted(control: Control, broker: Broker) -> None:
    broker.produce("given", b"kept")
    snapshot_json = control.post("/snapshots", {"name": "seeded"}, 201)
    assert Path(snapshot_json["directory"]).is_dir()
    assert control.ask("POST", "/snapshots", {"name": "seeded"}).problem[:2] == (409, "conflict")
    control.post("/reset", status=204)
    control.post("/snapshots/seeded/restore", status=204)
    assert [record.value for record in broker.records("given")] == [b"kept"]
    assert [snapshot["name"] for snapshot in control.get("/snapshots")["snapshots"]] == ["seeded"]
    control.delete("/snapshots/seeded")
    assert not Path(snapshot_json["directory"]).exists()
    gone = control.ask("POST", "/snapshots/seeded/restore")
    assert gone.problem == (404, "not_found", "there is no snapshot 'seeded'; snapshots: none")


@pytest.mark.parametrize("name", ["a/b", "/restore", "a/restore", "50%2F", "nightly ü?#"])
def test_any_name_of_a_snapshot_restores_and_deletes_it(control: Control, broker: Broker, name: str) -> None:
    broker.produce("given", b"kept")
    assert control.post("/snapshots", {"name": name}, 201)["name"] == name
    control.post("/reset", status=204)
    control.post(f"/snapshots/{quote(name, safe='')}/restore", status=204)
    assert [record.value for record in broker.records("given")] == [b"kept"]
    control.delete(f"/snapshots/{quote(name, safe='')}")
    assert control.get("/snapshots") == {"snapshots": []}


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


def test_a_group_without_members_has_no_share_partitions(control: Control) -> None:
    assert control.get("/groups/g/share-partitions") == {"partitions": []}


def test_what_a_share_group_has_in_flight_is_told_and_measured() -> None:
    with (
        Broker(control="127.0.0.1:0", journal=True, topics=["jobs"], config=SHARING) as broker,
        sharer(broker) as consumer,
    ):
        control = Control(broker.control_url)
        control.post("/groups/g/wait-until-stable", {"members": 1, "timeout": PATIENCE_S})
        from_the_start(broker)
        broker.produce("jobs", b"one")
        (record,) = polled(consumer, 1)
        (share_partition,) = control.get("/groups/g/share-partitions")["partitions"]
        (in_flight,) = share_partition.pop("in_flight")
        assert share_partition == {"topic": "jobs", "partition": 0, "start_offset": 0, "lag": 1, "acquired": 1}
        assert (in_flight["first_offset"], in_flight["state"], in_flight["delivery_count"]) == (0, "ACQUIRED", 1)
        metrics = control.get("/metrics").splitlines()
        for line in (
            'kafka_server_sharepartitionmetrics_inflightmessagecount{group="g",partition="0",topic="jobs"} 1.0',
            'kafka_server_sharesessioncache_sharesessionscount{broker="1"} 1.0',
            'kafka_server_sharesessioncache_sharepartitionscount{broker="1"} 1.0',
            'kafka_server_group_coordinator_metrics_group_count{protocol="share"} 1.0',
            'kafka_consumergroup_lag{consumergroup="g",partition="0",topic="jobs"} 1.0',
            'kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio{group="g",quantile="0.99"} 100.0',
            "kafka_server_sharegroupmetrics_partitionloadtimems_count 1.0",
            'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"} 0.0',
        ):
            assert line in metrics
        consumer.acknowledge(record)
