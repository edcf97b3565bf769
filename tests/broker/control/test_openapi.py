"""The OpenAPI document of the control plane matches the Python API and the documentation."""

import functools
import inspect
from pathlib import Path
from typing import Any

from minibroker.operations import asynchronous, asynchronous_handles, asynchronous_trials
from minibroker.server.faults.fault import Fault
from minibroker_control.plane import make_app
from minibroker_control.reference import render_requests, replace_tables
from tests.broker.control.http import Control

PAGE = Path(__file__).parents[3] / "docs" / "control-plane.md"

HANDLES = {
    "AsyncConsumerGroup": "group",
    "AsyncBrokerClock": "clock",
    "AsyncRetention": "retention",
    "AsyncBrokers": "brokers",
    "AsyncBrokerNode": "brokers",
    "AsyncChaos": "chaos",
    "AsyncCheck": "check",
    "AsyncFaults": "faults",
}
WITHOUT_METHODS = {"AsyncFaultContext", "AsyncSchemas", "Handle"}
"""The `with` block of `fault`, what the registry serves itself, and the base class of the handles."""
WITHOUT_A_ROUTE = {
    "services": "what lies behind the door",
    "make_topics": "what a reset calls",
    "check": "a handle, whose methods share a route",
    "group": "a handle, each of whose methods has a route",
    "schemas": "the registry has an HTTP interface of its own",
    "clock": "the same",
    "retention": "the same",
}


def operations() -> set[str]:
    """Return every public method of `AsyncOperations` and its handles under the name used by routes."""
    methods: set[str] = set()
    for module in (asynchronous, asynchronous_handles, asynchronous_trials):
        for name, each in inspect.getmembers(module, inspect.isclass):
            if each.__module__ != module.__name__ or name in WITHOUT_METHODS:
                continue
            prefix = "" if name == "AsyncOperations" else f"{HANDLES[name]}."
            methods |= {f"{prefix}{method}" for method in vars(each) if not method.startswith("_")}
    return methods


@functools.cache
def documented() -> dict[str, Any]:
    return make_app(None).openapi()


def test_everything_that_python_offers_can_be_asked_for() -> None:
    routed = {
        method
        for item in documented()["paths"].values()
        for operation in item.values()
        for method in operation["x-python"]
    }
    assert routed - operations() - {"brokers"} == set()
    assert operations() - routed == set(WITHOUT_A_ROUTE)


def test_every_route_is_documented_and_has_an_id_of_its_own() -> None:
    documented_operations = [operation for item in documented()["paths"].values() for operation in item.values()]
    assert [operation["operationId"] for operation in documented_operations if not operation.get("description")] == []
    ids = [operation["operationId"] for operation in documented_operations]
    assert len(ids) == len(set(ids)) > 35
    assert all(
        {"4XX", "5XX"} <= operation["responses"].keys() and "422" not in operation["responses"]
        for operation in documented_operations
    )


def test_the_fields_of_a_fault_are_those_that_there_are() -> None:
    operation = documented()["paths"]["/faults"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert sorted(schema["properties"]) == sorted(field for field in Fault.__dataclass_fields__)
    assert schema["properties"]["drop"]["enum"] == ["before", "after"]
    assert schema["properties"]["times"]["type"] == "integer"


def test_it_is_served_and_names_no_foreign_host(control: Control) -> None:
    served = control.get("/openapi.json")
    assert served["paths"].keys() == documented()["paths"].keys()
    assert "http" not in {server["url"].partition(":")[0] for server in served.get("servers", [])}
    assert control.ask("GET", "/docs").problem[0] == 404


def test_the_reference_is_the_one_that_the_code_makes() -> None:
    page = PAGE.read_text()
    assert replace_tables(page, render_requests()) == page, "run python -m minibroker_control.reference docs"


def test_the_reference_writes_methods_as_they_are_called_and_properties_as_they_are_read() -> None:
    page = render_requests()
    assert "Python: `clock.now_ms()`" in page
    assert "Python: `requests`." in page
    assert "`brokers`, `brokers.is_up`, `brokers.node_id`" in page


def test_what_there_is_not_is_told_with_where_to_look(control: Control) -> None:
    status, word, message = control.ask("GET", "/nope").problem
    assert (status, word) == (404, "not_found")
    assert message == "there is no GET /nope; GET /openapi.json lists all paths"
    assert control.ask("PATCH", "/topics").problem[:2] == (405, "method_not_allowed")


def test_an_integer_that_may_not_fit_into_an_int32_has_a_format() -> None:
    """Client generators treat an integer without a format as an int32."""
    small = {
        "attempt",
        "capacity",
        "chaos",
        "controller",
        "correlation_id",
        "count",
        "deleted_segments",
        "delivery_count",
        "error",
    }
    small |= {"generation", "members", "message_format", "node", "node_id", "parameters"}
    small |= {"partition", "partitions", "replication_factor"}
    plain = {
        name
        for schema in documented()["components"]["schemas"].values()
        for name, given in schema.get("properties", {}).items()
        for each in (given, *given.get("anyOf", ()), given.get("additionalProperties"))
        if isinstance(each, dict) and each.get("type") == "integer" and "format" not in each
    }
    assert plain == small
