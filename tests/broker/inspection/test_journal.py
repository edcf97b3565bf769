"""The journal of requests: what it keeps, what it finds again, and how it looks as JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.faults.observed import journal_of
from minibroker.faults.observer import drop_journal, keep_journal
from minibroker.inspection.journal import Journal
from minibroker.inspection.message_json import RecordsSummary, bytes_json, camel_case, detached, to_json
from minibroker.requests.request_path import compose
from minibroker.routing.delayed import UnservedRequestError
from minibroker.routing.routes import ROUTES, Route
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.heartbeat import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.faults.tapped import Line, Tapped
from tests.broker.harness import batch, fetch_request, frame_of, produce_request
from tests.protocol.message_strategies import message_class, messages
from tests.samples import examples

SECRETS = {"authBytes", "hmac", "salt", "saltedPassword"}


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[Tapped]:
    made = Tapped(str(tmp_path / "data"))
    yield made
    made.close()


@pytest.fixture
def journal(tapped: Tapped) -> Journal:
    return keep_journal(tapped.services)


def test_an_entry_tells_who_asked_what_and_was_told_what(tapped: Tapped, journal: Journal) -> None:
    asking = tapped.start_asking(produce_request(batch(b"a", b"b")), 9)
    (entry,) = journal
    assert (entry.number, entry.api, entry.version, entry.correlation_id) == (1, "Produce", 9, 1)
    assert (entry.client_id, entry.client_host) == ("test", "/127.0.0.1")
    assert entry.connection == "127.0.0.1:9092-127.0.0.1:51234"
    assert entry.node == tapped.core.cluster.first.id
    assert entry.time_ms == tapped.clock.now_ms()
    assert entry.bytes_in == 4 + len(frame_of(produce_request(batch(b"a", b"b")), 9))
    assert entry.response == asking.response
    assert (entry.duration_ms, entry.fault, entry.failure) == (0, None, None)
    assert [sorted(each) for each in (entry.topics, entry.groups)] == [["t"], []]
    assert not entry.error_codes


def test_record_bytes_are_not_kept_but_counted(tapped: Tapped, journal: Journal) -> None:
    size = len(batch(b"a", b"b"))
    tapped.produce(batch(b"a", b"b"))
    tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    produced, fetched = journal
    assert produced.request.topic_data[0].partition_data[0].records == RecordsSummary(size, 1, 2)
    assert fetched.response.responses[0].partitions[0].records == RecordsSummary(size, 1, 2)


def test_records_of_old_formats_are_counted(tapped: Tapped, journal: Journal) -> None:
    tapped.produce(batch(b"a", b"b"))
    tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 1)
    records = journal.entries(api="Fetch")[0].response.responses[0].partitions[0].records
    assert (records.batches, records.records) == (2, 2)


def test_a_request_that_waits_has_no_response_until_it_is_answered(tapped: Tapped, journal: Journal) -> None:
    asking = tapped.start_asking(fetch_request(("t", 0, 0), max_wait_ms=400), 12)
    (entry,) = journal
    assert (entry.response, entry.duration_ms, entry.bytes_out) == (None, None, 0)
    tapped.clock.advance(400)
    assert entry.response == detached(asking.response)
    assert entry.to_json()["durationMs"] == 400


def test_a_request_without_acks_has_no_response(tapped: Tapped, journal: Journal) -> None:
    tapped.start_asking(produce_request(batch(b"a"), acks=0), 9)
    assert (journal.entries()[0].response, journal.entries()[0].bytes_out) == (None, 0)


def test_a_failure_tells_why_the_connection_was_closed(tapped: Tapped, journal: Journal) -> None:
    with pytest.raises(UnservedRequestError):
        tapped.start_asking(produce_request(batch(b"a"), "none", acks=0), 9)
    take = compose(tapped.services, None, Line())
    for frame, error in ((b"\0\x03\x7f\xff\0\0\0\x07\0\1c", UnservedRequestError), (b"\0\x01", DecodeError)):
        with pytest.raises(error):
            take(memoryview(frame), tapped.session(client_host="/::1"))
    failed, unserved, cut = journal
    assert failed.failure is not None
    assert failed.failure.startswith("produce with acks=0 failed")
    assert unserved.failure == "METADATA v32767 is not served"
    assert (unserved.api, unserved.version, unserved.client_id, unserved.request) == ("Metadata", 32_767, "c", None)
    assert (cut.api, cut.failure) == ("", "a request header takes 10 bytes, 2 came")
    assert all(json.dumps(each.to_json()) for each in journal)


def test_entries_are_found_by_what_they_are_about(tapped: Tapped, journal: Journal) -> None:
    tapped.produce(batch(b"a"))
    tapped.produce(batch(b"a"), "none")
    beat = HeartbeatRequest(group_id="g1", generation_id=1, member_id="m")
    tapped.start_asking(beat, 3, client_id="other")
    tapped.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)

    def numbers(**filters: str | int) -> list[int]:
        return [each.number for each in journal.entries(**filters)]  # type: ignore[arg-type]  # mixed on purpose

    assert numbers() == [1, 2, 3, 4]
    assert numbers(api="produce") == [1, 2]
    assert numbers(api="M*") == [4]
    assert numbers(topic="t") == [1, 4]
    assert numbers(topic="n?ne", api="PRODUCE") == [2]
    assert numbers(group="g*") == [3]
    assert numbers(client_id="o*") == [3]
    assert numbers(error="UNKNOWN_TOPIC_OR_PARTITION") == [2]
    assert numbers(error=ErrorCode.UNKNOWN_MEMBER_ID) == [3]
    assert numbers(after=2) == [3, 4]
    with pytest.raises(ValueError, match="error: 'NO_SUCH' is neither"):
        numbers(error="NO_SUCH")


def test_the_newest_entries_are_kept(tapped: Tapped) -> None:
    journal = keep_journal(tapped.services, capacity=2)
    for _ in range(5):
        tapped.produce(batch(b"a"))
    assert [each.number for each in journal] == [4, 5]
    assert (len(journal), journal.count) == (2, 5)
    journal.clear()
    tapped.produce(batch(b"a"))
    assert [each.number for each in journal] == [6]
    with pytest.raises(ValueError, match="capacity: 0 is not at least 1"):
        keep_journal(tapped.services, capacity=0)


def test_no_request_is_looked_at_once_the_journal_is_dropped(tapped: Tapped, journal: Journal) -> None:
    assert journal_of(tapped.services) is journal
    drop_journal(tapped.services)
    drop_journal(tapped.services)
    tapped.produce(batch(b"a"))
    assert len(journal) == 0
    assert not tapped.is_tapped()


def test_an_entry_as_json_has_the_field_names_of_kafka(tapped: Tapped, journal: Journal) -> None:
    tapped.produce(batch(b"a"), "none")
    shown = json.loads(json.dumps(journal.entries()[0].to_json()))
    partition = {"index": 0, "records": {"size": len(batch(b"a")), "batches": 1, "records": 1}}
    assert shown["request"] == {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 1000,
        "topicData": [{"name": "none", "partitionData": [partition]}],
    }
    (topic,) = shown["response"]["responses"]
    assert topic["partitionResponses"][0]["errorCode"] == 3
    assert shown["errors"] == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert (shown["api"], shown["clientId"], shown["fault"]) == ("Produce", "test", None)


def without_secrets(shown: Any) -> Any:
    """A message as JSON, without what a journal never keeps."""
    if isinstance(shown, dict):
        return {name: without_secrets(each) for name, each in shown.items() if name not in SECRETS}
    return [without_secrets(each) for each in shown] if isinstance(shown, list) else shown


@pytest.mark.parametrize("kind", ["Request", "Response"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.message)
@examples(10, 3)
@given(data=st.data())
def test_any_message_can_be_kept_and_shown(route: Route, kind: str, data: st.DataObject) -> None:
    version = data.draw(st.integers(route.first, route.last))
    message = data.draw(messages(message_class(route, kind), version))
    kept = detached(message)
    assert without_secrets(to_json(kept, version)) == without_secrets(to_json(message, version))
    assert json.loads(json.dumps(to_json(kept, version))) == to_json(kept, version)


def test_fields_of_other_versions_are_not_shown() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="i")
    assert "groupInstanceId" not in to_json(request, 2)
    assert to_json(request, 3)["groupInstanceId"] == "i"


def test_ids_and_bytes_are_shown_as_texts() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=bytes(15) + b"\xff")])
    assert to_json(request, 12)["topics"] == [{"topicId": "AAAAAAAAAAAAAAAAAAAA_w", "name": None}]
    assert bytes_json(b"caf\xc3\xa9") == "café"
    assert bytes_json(b"") == ""
    assert bytes_json(b"\x00\x01") == {"base64": "AAE="}
    assert bytes_json(b"\xff") == {"base64": "/w=="}
    assert camel_case("v3_and_below_topics") == "v3AndBelowTopics"
