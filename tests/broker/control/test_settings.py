"""Configurations, quotas, access rules, client metrics and warnings over HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.harness import batch, produce_request
from tests.broker.socket_client import SocketClient


def test_keys_of_a_topic_and_of_the_broker_are_altered(control: Control, broker: Broker) -> None:
    control.post("/topics/given/configs", {"configs": {"retention.ms": 60_000}}, 204)
    assert control.get("/topics/given/configs")["configs"]["retention.ms"] == "60000"
    control.post("/configs", {"configs": {"message.max.bytes": 1000}}, 204)
    assert control.get("/topics/given/configs")["configs"]["max.message.bytes"] == "1000"
    control.post("/configs", {"configs": {"message.max.bytes": None}}, 204)
    assert broker.topic_config("given")["max.message.bytes"] == "1048588"
    assert control.ask("POST", "/configs", {"configs": {"node.id": 7}}).problem[0] == 400
    assert control.ask("POST", "/topics/nope/configs", {"configs": {}}).problem[0] == 404


def test_an_unknown_key_of_the_broker_is_in_the_answer(control: Control) -> None:
    answer = control.post("/configs", {"configs": {"message.max.byte": 1000, "message.max.bytes": 2000}}, 200)
    warning = "configure: message.max.byte is not known and has no effect; did you mean message.max.bytes?"
    assert answer == {"warnings": [warning]}
    assert control.get("/topics/given/configs")["configs"]["max.message.bytes"] == "2000"
    control.post("/configs", {"configs": {"message.max.byte": None, "message.max.bytes": None}}, 200)


def test_a_client_is_limited(control: Control, broker: Broker) -> None:
    control.post("/quotas", {"entity": {"client-id": "test"}, "limits": {"producer_byte_rate": 1000}}, 204)
    with SocketClient(("127.0.0.1", broker.address[1])) as client:
        answer = client.ask(produce_request(batch(b"x" * 20_000), "given"), 9)
    assert answer.throttle_time_ms > 10_000
    refused = control.ask("POST", "/quotas", {"entity": {}, "limits": {"producer_byte_rate": 1000}})
    assert refused.problem == (400, "bad_request", "set_quota: Invalid empty client quota entity")


def test_rights_take_an_authorizer(control: Control) -> None:
    status, _, message = control.ask(
        "POST", "/acls", {"principal": "alice", "operations": ["read"], "topic": "t"}
    ).problem
    assert status == 400
    assert "authorizer.class.name" in message


@pytest.fixture
def guarded() -> Iterator[Control]:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with Broker(control="127.0.0.1:0", config={"authorizer.class.name": name}) as broker:
        yield Control(broker.control_url)


def test_rights_are_given_told_and_forgotten(guarded: Control) -> None:
    rule = {"permission": "deny", "principal": "alice", "operations": ["read"], "topic": "orders", "prefixed": True}
    rules = guarded.post("/acls", rule, 201)
    assert rules == guarded.get("/acls")
    assert rules["acls"] == [
        {
            "resource_type": "TOPIC",
            "resource_name": "orders",
            "pattern_type": "PREFIXED",
            "principal": "User:alice",
            "host": "*",
            "operation": "READ",
            "permission": "DENY",
        }
    ]
    guarded.delete("/acls")
    assert guarded.get("/acls") == {"acls": []}


def test_nobody_has_sent_metrics(control: Control) -> None:
    assert control.get("/telemetry") == {"pushes": []}


@pytest.mark.parametrize(
    ("method", "path", "body", "warning"),
    [
        ("POST", "/topics/t/records", {"records": []}, "produce: no value is given"),
        ("GET", "/groups/nobody/lag", None, "there is no group 'nobody'"),
        ("POST", "/faults", {"node": 99, "error": "NETWORK_EXCEPTION"}, "cannot match: node: there is no broker 99"),
    ],
)
def test_the_control_plane_has_warnings_in_its_answers(
    control: Control, method: str, path: str, body: Any, warning: str
) -> None:
    (message,) = control.ask(method, path, body).body["warnings"]
    assert warning in message
    assert "warnings" not in control.ask("POST", "/topics/t/records", {"records": [{"value": "x"}]}).body
