"""Topics and records over HTTP."""

import threading
from typing import Any

import pytest

from minibroker import Broker
from tests.broker.control.http import Control
from tests.patience import PATIENCE_S


def test_topics_are_made_listed_and_deleted(control: Control) -> None:
    made = control.post("/topics", {"name": "orders", "partitions": 3, "configs": {"retention.ms": 60_000}}, 201)
    assert (made["name"], made["partitions"], made["configs"]) == ("orders", 3, {"retention.ms": "60000"})
    assert control.get("/topics/orders") == made
    assert [topic["name"] for topic in control.get("/topics")["topics"]] == ["given", "orders"]
    control.delete("/topics/orders")
    assert [topic["name"] for topic in control.get("/topics")["topics"]] == ["given"]


def test_topics_are_listed_in_pages_by_name(control: Control) -> None:
    for name in ("c", "a", "b"):
        control.post("/topics", {"name": name}, 201)
    pages: list[list[str]] = []
    query = "limit=2"
    while True:
        page = control.get(f"/topics?{query}")
        pages.append([topic["name"] for topic in page["topics"]])
        if page["next_after"] is None:
            break
        query = f"limit=2&after={page['next_after']}"
    assert pages == [["a", "b"], ["c", "given"]]
    assert control.get("/topics?after=b&limit=1")["next_after"] == "c"
    assert control.get("/topics?after=zzz") == {"topics": [], "next_after": None}
    for limit in (0, 1001):
        assert control.ask("GET", f"/topics?limit={limit}").problem[0] == 400


def test_a_topic_with_a_prefix_has_a_name_that_nobody_has_heard_of(control: Control) -> None:
    names = {control.post("/topics", {"prefix": "orders"}, 201)["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("orders-") for name in names)


@pytest.mark.parametrize("limit", [1, 3, 4, 5, 7, 10])
def test_records_come_in_parts_and_each_of_them_once(control: Control, limit: int) -> None:
    sent = [{"value": f"{number}", "partition": number % 2} for number in range(10)]
    control.post("/topics/given/records", {"records": sent})
    everything = control.get("/topics/given/records")
    assert everything["next_offsets"] == {}
    page = control.get(f"/topics/given/records?limit={limit}")
    records = page["records"]
    next_offsets = dict(page["next_offsets"])
    while next_offsets:
        partition, start = next_offsets.popitem()
        page = control.get(f"/topics/given/records?partition={partition}&start={start}&limit={limit}")
        assert 0 < len(page["records"]) <= limit
        records += page["records"]
        next_offsets |= page["next_offsets"]
    assert sorted(records, key=lambda each: (each["partition"], each["offset"])) == everything["records"]


@pytest.mark.slow
def test_large_records_come_in_smaller_parts(control: Control, broker: Broker) -> None:
    broker.produce("given", *(bytes(900_000) for _ in range(40)), partition=0)
    page = control.get("/topics/given/records")
    assert [record["offset"] for record in page["records"]] == list(range(19))
    assert page["next_offsets"] == {"0": 19}


def test_records_keep_their_bytes_whatever_they_are(control: Control, broker: Broker) -> None:
    sent: list[Any] = [
        "text\n\u00e9",
        {"base64": "/w8="},
        None,
        {"id": 1},
        [1],
        7,
        {"json": "quoted"},
        {"json": {"json": 1}},
    ]
    places = control.post("/topics/given/records", {"records": [{"value": value, "partition": 0} for value in sent]})
    assert [each["offset"] for each in places["records"]] == list(range(len(sent)))
    stored = [record.value for record in broker.records("given")]
    expected = ["text\n\u00e9".encode(), b"\xff\x0f", None, b'{"id":1}', b"[1]", b"7", b'"quoted"', b'{"json":1}']
    assert stored == expected
    text = [each["value"] for each in control.get("/topics/given/records")["records"]]
    assert text == [
        None if each is None else {"base64": "/w8="} if b"\xff" in each else each.decode() for each in stored
    ]
    read = control.get("/topics/given/records?format=json")["records"]
    assert [record["value"] for record in read] == [
        "text\n\u00e9",
        {"base64": "/w8="},
        None,
        {"id": 1},
        [1],
        7,
        "quoted",
        {"json": 1},
    ]
    base64 = control.get("/topics/given/records?format=base64&start=7")["records"]
    assert base64[0]["value"] == {"base64": "eyJqc29uIjoxfQ=="}


@pytest.mark.parametrize("stored", [b"NaN", b'"\\ud800"', b"1" * 5000, b"[" * 5000, b"-Infinity"])
def test_what_is_json_to_python_alone_is_shown_as_text(control: Control, broker: Broker, stored: bytes) -> None:
    broker.produce("given", stored)
    assert control.get("/topics/given/records?format=json")["records"][0]["value"] == stored.decode()


def test_headers_keys_and_times_are_as_they_were_sent(control: Control) -> None:
    record = {
        "key": "a",
        "headers": [["h", "1"], ["h", {"base64": "/w=="}], ["n", None]],
        "timestamp": 5,
        "partition": 1,
    }
    control.post("/topics/given/records", {"records": [record], "codec": "gzip"})
    (stored,) = control.get("/topics/given/records?partition=1")["records"]
    assert stored["headers"] == [
        {"name": "h", "value": "1"},
        {"name": "h", "value": {"base64": "/w=="}},
        {"name": "n", "value": None},
    ]
    assert (stored["key"], stored["value"], stored["timestamp"], stored["codec"]) == ("a", None, 5, "gzip")


def test_records_of_old_formats_are_written_and_told(control: Control) -> None:
    control.post("/topics/given/records", {"records": [{"value": "old"}], "message_format": "v0"})
    (record,) = control.get("/topics/given/records")["records"]
    assert (record["message_format"], record["timestamp"], record["timestamp_type"]) == (0, -1, "NoTimestampType")


def test_waiting_ends_when_the_record_comes(control: Control, broker: Broker) -> None:
    responses: list[Any] = []
    waiting = threading.Thread(
        target=lambda: responses.append(
            control.post(
                "/topics/orders/records/wait?format=json",
                {"count": 2, "matching": {"value": {"state": "new"}, "headers": {"h": "1"}}, "timeout": PATIENCE_S},
            )
        )
    )
    waiting.start()
    broker.produce("orders", {"state": "new", "id": 1}, {"state": "old", "id": 2}, headers={"h": "1"})
    broker.produce("orders", {"state": "new", "id": 3}, headers={"h": "2"})
    broker.produce("orders", {"state": "new", "id": 4}, headers={"h": "1"})
    waiting.join()
    assert [record["value"]["id"] for record in responses[0]["records"]] == [1, 4]


def test_a_record_that_does_not_come_is_a_conflict_that_compares(control: Control, broker: Broker) -> None:
    broker.produce("orders", {"id": 1, "state": "new"})
    expectation = {"value": {"id": 1, "state": "paid"}, "timeout": 0}
    status, word, message = control.ask("POST", "/topics/orders/records/expect", expectation).problem
    assert (status, word) == (409, "timeout")
    assert "value.state: expected 'paid', found 'new'" in message
    waited = control.ask("POST", "/topics/orders/records/wait", {"count": 2, "timeout": 0}).problem
    assert waited[:2] == (409, "timeout")
    assert "expected 2 records in 'orders' within 0 s; found 1" in waited[2]
    assert waited[2].endswith("\n  orders (1 partition), offsets 0: 0..1\ngroups: none\nrequests: none")


def test_the_report_of_a_failure_shows_fifty_topics(control: Control, broker: Broker) -> None:
    for number in range(52):
        broker.create_topic(f"t{number:02}")
    message = control.ask("POST", "/topics/t00/records/expect", {"timeout": 0}).problem[2]
    shown = message.partition("\ntopics:\n")[2].splitlines()
    assert (len(shown), shown[-3:]) == (53, ["  and 3 more", "groups: none", "requests: none"])


def test_null_is_expected_as_null_and_what_is_not_said_is_anything(control: Control, broker: Broker) -> None:
    broker.produce("orders", "a", key="k")
    broker.produce("orders", None, key="k")
    assert control.post("/topics/orders/records/expect", {"key": "k"})["offset"] == 0
    assert control.post("/topics/orders/records/expect", {"value": None})["offset"] == 1
    assert control.post("/topics/orders/records/expect", {"value": {"base64": "YQ=="}})["offset"] == 0
    answer = control.ask("POST", "/topics/orders/records/expect", {"key": None, "timeout": 0})
    assert answer.problem[:2] == (409, "timeout")


def test_that_nothing_was_sent_is_answered_with_nothing_or_with_the_records(control: Control, broker: Broker) -> None:
    control.post("/topics/invoices/records/expect-none", status=204)
    broker.produce("orders", {"id": 1, "state": "new"}, key="k")
    control.post("/topics/orders/records/expect-none", {"value": {"id": 2}}, 204)
    control.post("/topics/orders/records/expect-none", {"value": None, "within": 0.01}, 204)
    for ruled_out in ({"value": {"id": 1}, "within": 60}, {"key": "k"}, {}):
        status, word, message = control.ask("POST", "/topics/orders/records/expect-none", ruled_out).problem
        assert (status, word) == (409, "unexpected")
        assert "found 1 record\n  orders-0@0: key='k'" in message
    answer = control.ask("POST", "/topics/orders/records/expect-none", {"within": -1})
    assert answer.problem[:2] == (400, "bad_request")


def test_a_misspelt_topic_of_expect_none_is_in_the_answer(control: Control, broker: Broker) -> None:
    broker.produce("orders", "a")
    answer = control.post("/topics/ordres/records/expect-none", status=200)
    (warning,) = answer["warnings"]
    assert warning.startswith("expect_none: there is no topic 'ordres'; ")
    assert warning.endswith("did you mean orders?")
    assert control.post("/topics/ordres/records/expect-none", status=200) == answer
    control.post("/topics/invoices/records/expect-none", status=204)
