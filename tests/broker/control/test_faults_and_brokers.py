"""Faults, the journal and brokers over HTTP."""

import socket

import pytest
from confluent_kafka import Producer

from minibroker import Broker
from minibroker.server.faults.fault import Fault
from tests.broker.control.http import Control
from tests.patience import PATIENCE_S


def send(broker: Broker, topic: str = "given") -> None:
    """Produce a record with a client. The result does not matter."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "writer",
            "retry.backoff.ms": 1,
            "topic.metadata.refresh.fast.interval.ms": 1,
        }
    )
    producer.produce(topic, b"one")
    assert producer.flush(PATIENCE_S) == 0


def test_a_fault_tells_how_often_it_has_fired_and_whom_it_has_hit(control: Control, broker: Broker) -> None:
    fields = {"api": "Produce", "topic": "given", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}
    added = control.post("/faults", fields, 201)
    assert (added["fired"], added["fault"]) == (0, fields)
    send(broker)
    path = f"/faults/{added['id']}"
    assert control.get("/faults")["faults"] == [{**added, "fired": 2}]
    hits = control.get(path)["hits"]
    assert [(hit["api"], hit["client_id"], hit["errors"]) for hit in hits] == [
        ("Produce", "writer", ["NOT_LEADER_OR_FOLLOWER"])
    ] * 2
    removed = control.delete(path, 200)
    assert (removed["fired"], removed["hits"]) == (2, hits)
    assert control.get("/faults") == {"faults": []}
    assert control.ask("GET", path).problem[:2] == (404, "not_found")


def test_faults_of_python_have_ids_too_and_ids_are_not_given_twice(control: Control, broker: Broker) -> None:
    first = control.post("/faults", {"api": "Fetch", "delay_ms": 1}, 201)["id"]
    broker.faults.add(Fault(api="Produce", delay_ms=1))
    ids = [fault["id"] for fault in control.get("/faults")["faults"]]
    assert ids[0] == first
    assert len(set(ids)) == 2
    control.delete("/faults")
    assert control.get("/faults") == {"faults": []}
    assert control.post("/faults", {"api": "Fetch", "delay_ms": 1}, 201)["id"] not in ids


def test_requests_are_told_filtered_and_waited_for(control: Control, broker: Broker) -> None:
    send(broker)
    requests = control.post("/requests/wait", {"api": "Produce", "client_id": "wr*", "timeout": PATIENCE_S})["requests"]
    (only,) = control.get("/requests?api=produce&topic=given&client_id=writer")["requests"]
    assert [only] == requests
    assert only["request"]["topicData"][0]["name"] == "given"
    assert only["response"]["responses"][0]["partitionResponses"][0]["errorCode"] == 0
    assert only["duration_ms"] is not None
    everything = control.get("/requests")
    assert everything["count"] >= len(everything["requests"]) > 1
    assert control.get(f"/requests?after={everything['count']}")["requests"] == []
    assert [request["number"] for request in control.get("/requests?limit=1")["requests"]] == [
        max(request["number"] for request in everything["requests"])
    ]
    assert control.get("/requests?error=6")["requests"] == []
    control.delete("/requests")
    assert control.get("/requests")["requests"] == []


def test_a_journal_is_begun_and_ended() -> None:
    with Broker(control="127.0.0.1:0") as quiet:
        control = Control(quiet.control_url)
        assert control.get("/journal") == {"is_kept": False, "count": 0}
        answer = control.ask("GET", "/requests")
        assert answer.problem[:2] == (409, "conflict")
        assert "PUT /journal" in answer.problem[2]
        assert control.put("/journal", {"capacity": 1}) == {"is_kept": True, "count": 0}
        send(quiet, "orders")
        assert len(control.get("/requests")["requests"]) == 1
        control.delete("/journal")
        assert control.get("/journal")["is_kept"] is False


def test_a_broker_that_is_stopped_refuses_clients_until_it_is_started(control: Control, broker: Broker) -> None:
    nodes = control.get("/brokers")["brokers"]
    assert [node["address"] for node in nodes] == broker.bootstrap_servers.split(",")
    second = nodes[1]["node_id"]
    host, port = nodes[1]["address"].split(":")
    stopped = control.post(f"/brokers/{second}/stop")
    assert stopped == {**nodes[1], "is_up": False}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), PATIENCE_S)
    answer = control.ask("PUT", "/topics/given/partitions/0/leader", {"node_id": second})
    assert answer.problem[:2] == (409, "conflict")
    assert control.post(f"/brokers/{second}/start") == nodes[1]
    socket.create_connection((host, int(port)), PATIENCE_S).close()
    assert control.ask("POST", "/brokers/77/stop").problem[:2] == (404, "not_found")


def test_leaders_move(control: Control, broker: Broker) -> None:
    first, second = broker.brokers
    path = "/topics/given/partitions/0/leader"
    other = {first: second, second: first}[control.get(path)["node_id"]]
    assert control.put(path, {"node_id": other}) == {"node_id": other}
    assert control.get(path) == {"node_id": other} == {"node_id": broker.leader("given")}
    assert control.ask("PUT", path, {"node_id": 77}).problem[:2] == (404, "not_found")
    assert control.ask("PUT", "/topics/given/partitions/9/leader", {"node_id": 1}).problem[:2] == (404, "not_found")


def test_a_partition_whose_broker_is_down_has_no_leader(control: Control, broker: Broker) -> None:
    leader = broker.leader("given")
    control.post(f"/brokers/{leader}/stop")
    assert control.get("/topics/given/partitions/0/leader") == {"node_id": None}
