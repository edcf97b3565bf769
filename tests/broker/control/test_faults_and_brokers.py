"""Faults, the journal and brokers over HTTP."""

import socket
from typing import Any

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


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"api": "Produce"}, "nothing happens: give one of "),
        ({"api": "Prod", "delay_ms": 1}, "api: 'Prod' is not an API of Kafka"),
        ({"api": "Produce", "eror": 1}, "eror: there is no such field; did you mean error?"),
        ({"api": "Produce", "error": "OOPS"}, "error: 'OOPS' is neither the name nor the number of one of Kafka's"),
        ([], "body: Input should be a valid dictionary"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_the_field(control: Control, fields: Any, complaint: str) -> None:
    status, word, message = control.ask("POST", "/faults", fields).problem
    assert (status, word) == (400, "bad_request")
    assert message.startswith(complaint)


def test_requests_are_told_filtered_and_waited_for(control: Control, broker: Broker) -> None:
    send(broker)
    found = control.post("/requests/wait", {"api": "Produce", "client_id": "wr*", "timeout": PATIENCE_S})["requests"]
    (only,) = control.get("/requests?api=produce&topic=given&client_id=writer")["requests"]
    assert [only] == found
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


def test_requests_that_do_not_come_are_a_conflict_that_tells_what_came(control: Control) -> None:
    answer = control.ask("POST", "/requests/wait", {"api": "Produce", "error": "CORRUPT_MESSAGE", "timeout": 0})
    assert answer.problem[:2] == (409, "timeout")
    assert "expected 1 request (api='Produce', error='CORRUPT_MESSAGE')" in answer.problem[2]


@pytest.mark.parametrize("error", ["OOPS", "9999"])
def test_an_error_that_kafka_does_not_have_is_refused(control: Control, error: str) -> None:
    complaint = "is neither the name nor the number of one of Kafka's errors"
    listed = control.ask("GET", f"/requests?error={error}").problem
    assert (listed[0], complaint in listed[2]) == (400, True)
    waited = control.ask("POST", "/requests/wait", {"error": error}).problem
    assert (waited[0], complaint in waited[2]) == (400, True)


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
