"""Faults that hit requests to the registry."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker, FaultError, MinibrokerWarning
from minibroker.clock import ManualClock
from minibroker.server.faults.fault import Fault
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.control.http import Control
from tests.broker.socket_client import SocketClient
from tests.clients.broker_process import BrokerProcess
from tests.registry.rest import Rest
from tests.registry.schemas import V1


def test_requests_fail_with_the_status_as_often_as_asked(broker: Broker, rest: Rest) -> None:
    with broker.fault(api="registry", error=503, times=2) as fault:
        assert [rest.ask("GET", "/subjects").status for _ in range(3)] == [503, 503, 200]
    assert fault.fired == 2


@pytest.mark.parametrize(
    ("error", "status"), [(409, 409), (422, 422), (42201, 422), (500, 500), (50004, 500), (40403, 404), (429, 429)]
)
def test_a_fault_hits_the_requests_that_it_names(broker: Broker, rest: Rest, error: int, status: int) -> None:
    id_ = rest.register("orders-value", V1)
    with broker.fault(api="GET /schemas/ids/*", error=error) as fault:
        assert rest.refusal("GET", f"/schemas/ids/{id_}?subject=orders-value") == (status, error)
        assert rest.register("other", V1) == id_
    assert fault.fired == 1
    assert rest.get(f"/schemas/ids/{id_}") == {"schema": V1}


def test_a_path_alone_stands_for_each_method(broker: Broker, rest: Rest) -> None:
    with broker.fault(api="/subjects/*", nth=2, error=500) as fault:
        statuses = [rest.ask(method, "/subjects/a/versions", {}).status for method in ("POST", "GET", "POST")]
    assert statuses == [422, 500, 422]
    assert fault.fired == 1


def test_faults_of_kafka_and_of_the_registry_are_apart(broker: Broker, rest: Rest) -> None:
    broker.faults.add(error="UNKNOWN_SERVER_ERROR")
    assert rest.get("/subjects") == []
    fault = broker.faults.add(api="registry", error=503)
    with SocketClient(broker.address) as client:
        client.send(MetadataRequest(topics=None), 9)
        client.receive()
    assert fault.fired == 0
    assert rest.ask("GET", "/subjects").status == 503


def test_a_reset_ends_faults(broker: Broker, rest: Rest) -> None:
    broker.faults.add(api="registry", error=500)
    broker.reset()
    assert rest.get("/subjects") == []


def test_a_delay_goes_by_the_clock_of_the_broker() -> None:
    with (
        Broker(registry=True, clock=ManualClock()) as broker,
        ThreadPoolExecutor(1) as pool,
        Rest(broker.registry_url) as rest,
        Rest(broker.registry_url) as other,
        broker.fault(api="GET /subjects", delay_ms=30_000, error=503) as fault,
    ):
        asking = pool.submit(rest.ask, "GET", "/subjects")
        while not fault.fired:
            assert other.get("/config") == {"compatibilityLevel": "BACKWARD"}
        assert not asking.done()
        broker.clock.advance(30)
        assert asking.result().status == 503


def test_a_fault_without_effect_is_named(broker: Broker) -> None:
    with pytest.warns(MinibrokerWarning, match="has hit no request"), broker.fault(api="registry", error=503):
        pass
    with Broker() as plain, pytest.warns(MinibrokerWarning, match="this broker has no schema registry"):
        plain.faults.add(api="GET /subjects", delay_ms=1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"topic": "orders", "error": 500}, "topic: the schema registry has no such fault"),
        ({"disconnect": "after"}, "disconnect: the schema registry has no such fault"),
        ({}, "the fault has no effect"),
        ({"error": "NOT_CONTROLLER"}, "error: 'NOT_CONTROLLER' is neither an HTTP status"),
        ({"error": 200}, "error: 200 is neither"),
        ({"error": True}, "error: True is neither"),
    ],
)
def test_a_fault_that_means_nothing_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(FaultError, match=words):
        Fault.from_json({"api": "registry", **fields})


def test_a_file_and_the_control_plane_install_the_same_faults(
    broker_process: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("- {api: GET /subjects, error: 50004, times: 1}\n")
    served = broker_process("--registry", "127.0.0.1:0", "--control", "127.0.0.1:0", "--faults", str(path))
    control = Control(served.words["control"])
    assert control.get("/")["registry_url"] == served.words["registry"]
    with Rest(served.words["registry"]) as rest:
        assert rest.refusal("GET", "/subjects") == (500, 50004)
        assert rest.get("/subjects") == []
        fields = {"api": "POST /subjects/*/versions", "error": 42201, "after": 1}
        added = control.post("/faults", fields, 201)
        assert added["fault"] == fields
        assert rest.register("a", V1) == 1
        assert rest.refusal("POST", "/subjects/a/versions", {"schema": V1}) == (422, 42201)
        assert [fault["fired"] for fault in control.get("/faults")["faults"]] == [1, 1]
        control.delete(f"/faults/{added['id']}", 200)
        assert rest.register("a", V1) == 1
        control.post("/faults", {"api": "registry", "error": 503}, 201)
        assert rest.ask("GET", "/subjects").status == 503
    assert "neither an HTTP status" in control.ask("POST", "/faults", {"api": "registry", "error": 7}).body["message"]
