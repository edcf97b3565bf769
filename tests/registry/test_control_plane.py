"""Records with schemas over the control plane."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from minibroker import Broker
from minibroker.operations.overview import overview
from tests.broker.control.http import Control
from tests.patience import PATIENCE_S
from tests.registry.schemas import V2

UNKNOWN = b"\0\0\0\0\x63\xff"


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    with Broker(control="127.0.0.1:0", journal=True, timeout=PATIENCE_S) as broker:
        yield broker


@pytest.fixture
def control(broker: Broker) -> Control:
    broker.schemas.register("orders-value", V2)
    broker.schemas.register("orders-key", '"string"')
    return Control(broker.control_url)


def produce(control: Control, *records: Any, status: int = 200) -> Any:
    return control.post("/topics/orders/records", {"records": records, "schema": "orders-value"}, status)


def test_records_are_encoded_and_shown_decoded(control: Control, broker: Broker) -> None:
    body = {
        "records": [{"key": "a", "value": {"id": 7, "note": "new"}}, {"key": "b", "value": None}],
        "schema": "orders-value",
        "key_schema": "orders-key",
    }
    control.post("/topics/orders/records", body)
    broker.produce("orders", UNKNOWN, {"plain": 1}, "text")
    shown = control.get("/topics/orders/records?format=json")["records"]
    assert [(record["key"], record["value"]) for record in shown] == [
        ("a", {"id": 7, "note": "new"}),
        ("b", None),
        (None, {"base64": "AAAAAGP/", "reason": "No schema has the id 99"}),
        (None, {"plain": 1}),
        (None, "text"),
    ]
    assert control.get("/topics/orders/records")["records"][2]["value"] == {"base64": "AAAAAGP/"}


def test_expectations_compare_and_return_decoded_values(control: Control) -> None:
    produce(control, {"value": {"id": 7, "note": "new"}}, {"value": {"id": 8, "note": "old"}})
    path = "/topics/orders/records"
    assert control.post(f"{path}/expect?format=json", {"value": {"id": 8}})["value"] == {"id": 8, "note": "old"}
    waited = control.post(f"{path}/wait?format=json", {"matching": {"value": {"note": "new"}}})
    assert [record["value"] for record in waited["records"]] == [{"id": 7, "note": "new"}]
    control.post(f"{path}/expect-none", {"value": {"id": 9}}, 204)
    answer = control.post(f"{path}/expect", {"value": {"id": 9}, "timeout": 0}, 409)
    assert "value={'id': 7, 'note': 'new'}" in answer["message"]


def test_text_is_compared_with_a_decoded_text(control: Control, broker: Broker) -> None:
    broker.produce("names", "Ada", schema="orders-key")
    assert control.post("/topics/names/records/expect", {"value": "Ada"})["offset"] == 0


def test_a_value_that_does_not_fit_is_refused(control: Control) -> None:
    answer = produce(control, {"value": {"id": "x", "note": ""}}, status=400)
    assert "id: 'x'" in answer["message"]


def test_a_reset_can_keep_the_schemas(control: Control, broker: Broker) -> None:
    control.post("/reset", {"keep_schemas": True}, 204)
    assert broker.schemas.subjects() == ["orders-key", "orders-value"]
    control.post("/reset", {"keep_topics": True}, 204)
    assert broker.schemas.subjects() == []


def send_and_read(broker: Broker, *values: bytes) -> None:
    """Write values with one request and read them with another one, as clients do."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    assert len(consumer.consume(len(values), PATIENCE_S)) == len(values)
    consumer.close()


def test_the_journal_and_the_report_show_what_was_sent_and_read(control: Control, broker: Broker) -> None:
    produce(control, {"value": {"id": 7, "note": "new"}})
    (stored,) = broker.records("orders")
    assert stored.value is not None
    broker.reset(keep_schemas=True)
    send_and_read(broker, stored.value, UNKNOWN)
    decoded = [
        {"key": None, "value": {"id": 7, "note": "new"}},
        {"key": None, "value": {"base64": "AAAAAGP/", "reason": "No schema has the id 99"}},
    ]
    for api in ("Produce", "Fetch"):
        entries = control.get(f"/requests?api={api}&topic=orders")["requests"]
        assert [record for entry in entries for record in entry["records"]] == decoded
    lines = [
        "    key=null, value={'id': 7, 'note': 'new'}",
        f"    key=null, value={UNKNOWN!r}, which cannot be decoded: No schema has the id 99",
    ]
    report = broker.wait(overview(broker.services, 1000)).splitlines()
    for api in ("Produce", "Fetch"):
        shown = [number for number, line in enumerate(report) if line.startswith(f"  {api} ") and "record" in line]
        assert [line for number in shown for line in report[number + 1 : number + 3]] == lines


def test_without_schemas_a_journal_shows_no_records(control: Control, broker: Broker) -> None:
    broker.reset()
    send_and_read(broker, b"plain")
    entries = control.get("/requests?topic=orders")["requests"]
    assert {entry["api"] for entry in entries} >= {"Produce", "Fetch"}
    assert [record for entry in entries for record in entry["records"]] == []
