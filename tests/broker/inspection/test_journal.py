"""The journal of requests: what it keeps, how entries are found, and their JSON.

It is one file, since most tests follow an entry from the request to its JSON.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker import Broker
from minibroker.cluster.routing.outcomes import Answer, Waiting
from minibroker.cluster.routing.routes import ROUTES, Route, UnservedRequestError
from minibroker.server.inspection import recording
from minibroker.server.inspection.journal import Entry, Journal
from minibroker.server.inspection.message_forms import MAX_FRAME_BYTES
from minibroker.server.inspection.message_json import RecordsSummary, detach, summary, to_json
from minibroker.server.inspection.recording import (
    BrokerConnection,
    RecordedRequest,
    Recording,
    journal_of,
    recording_of,
)
from minibroker.server.inspection.slow_requests import log_slow_requests
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.dispatch import call_of, compose, encode_answers
from minibroker.server.requests.endpoints import endpoint
from minibroker.server.requests.session import Session
from minibroker.server.requests.targets import targets_by_name
from minibroker_lab.page.recorder import Recorder
from minibroker_protocol.codec import decode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.json_values import bytes_json, camel_case
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest
from minibroker_protocol.messages.scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_storage.files import FileHandle, FilePool, LogSlice
from tests.broker.faults.tapped import Channel, Tapped
from tests.broker.harness import batch, bytes_of, fetch_request, frame_of, produce_request
from tests.broker.socket_client import SocketClient
from tests.protocol.message_strategies import message_class, messages
from tests.sweeps import few_examples, one_in

CORE = Mock(topics=MagicMock(**{"with_id.return_value": None}), **{"clock.monotonic_ms.return_value": 0.0})
"""The core of a broker without topics."""
SERVICES = Mock(core=CORE, served=None, chain_version=0)
SECRETS = {"authBytes", "hmac", "salt", "saltedPassword"}


@pytest.fixture
def journal(tapped: Tapped) -> Journal:
    return recording_of(tapped.services).keep_journal()


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
    assert [sorted(names) for names in (entry.topics, entry.groups)] == [["t"], []]
    assert not entry.error_codes
    line = f"Produce v9 t-0 (2 records, {len(batch(b'a', b'b'))} bytes) from test 127.0.0.1:51234: ok in 0.0 ms"
    assert (str(entry), repr([entry])) == (line, f"[<{line}>]")


def test_a_journal_that_is_called_names_its_method(journal: Journal) -> None:
    with pytest.raises(TypeError, match=r"`requests.entries\(api='Fetch'\)` returns what matches"):
        journal(api="Fetch")


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
    assert entry.response == detach(asking.response)
    assert entry.to_json()["durationMs"] == 400


def test_a_request_without_acks_has_no_response(tapped: Tapped, journal: Journal) -> None:
    tapped.start_asking(produce_request(batch(b"a"), acks=0), 9)
    assert (journal.entries()[0].response, journal.entries()[0].bytes_out) == (None, 0)


def test_a_failure_tells_why_the_connection_was_closed(tapped: Tapped, journal: Journal) -> None:
    with pytest.raises(UnservedRequestError):
        tapped.start_asking(produce_request(batch(b"a"), "none", acks=0), 9)
    take = compose(tapped.services, None, Channel())
    for frame, error in ((b"\0\x03\x7f\xff\0\0\0\x07\0\1c", UnservedRequestError), (b"\0\x01", DecodeError)):
        with pytest.raises(error):
            take(memoryview(frame), tapped.session(client_host="/::1"))
    failed, unserved, cut = journal
    assert failed.failure is not None
    assert failed.failure.startswith("produce with acks=0 failed")
    assert unserved.failure == "METADATA v32767 is not served"
    assert (unserved.api, unserved.version, unserved.client_id, unserved.request) == ("Metadata", 32_767, "c", None)
    assert (cut.api, cut.failure) == ("", "a request header takes 10 bytes, 2 came")
    assert all(json.dumps(entry.to_json()) for entry in journal)


def test_entries_are_found_by_what_they_are_about(tapped: Tapped, journal: Journal) -> None:
    tapped.produce(batch(b"a"))
    tapped.produce(batch(b"a"), "none")
    beat = HeartbeatRequest(group_id="g1", generation_id=1, member_id="m")
    tapped.start_asking(beat, 3, client_id="other")
    tapped.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)

    def numbers(**filters: str | int) -> list[int]:
        return [entry.number for entry in journal.entries(**filters)]  # type: ignore[arg-type]  # mixed on purpose

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
    journal = recording_of(tapped.services).keep_journal(capacity=2)
    for _ in range(5):
        tapped.produce(batch(b"a"))
    assert [entry.number for entry in journal] == [4, 5]
    assert (len(journal), journal.count) == (2, 5)
    journal.clear()
    tapped.produce(batch(b"a"))
    assert [entry.number for entry in journal] == [6]
    with pytest.raises(ValueError, match="capacity: 0 is not at least 1"):
        recording_of(tapped.services).keep_journal(capacity=0)


def test_no_request_is_looked_at_once_the_journal_is_dropped(tapped: Tapped, journal: Journal) -> None:
    assert journal_of(tapped.services) is journal
    recording_of(tapped.services).drop_journal()
    recording_of(tapped.services).drop_journal()
    tapped.produce(batch(b"a"))
    assert len(journal) == 0
    assert not tapped.is_tapped()


def test_an_entry_as_json_has_the_field_names_of_kafka(tapped: Tapped, journal: Journal) -> None:
    tapped.produce(batch(b"a"), "none")
    document = json.loads(json.dumps(journal.entries()[0].to_json()))
    partition = {"index": 0, "records": {"size": len(batch(b"a")), "batches": 1, "records": 1}}
    assert document["request"] == {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 1000,
        "topicData": [{"name": "none", "partitionData": [partition]}],
    }
    (topic,) = document["response"]["responses"]
    assert topic["partitionResponses"][0]["errorCode"] == 3
    assert document["errors"] == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert (document["api"], document["clientId"], document["fault"]) == ("Produce", "test", None)


def without_secrets(document: Any) -> Any:
    """Return a message as JSON, without the fields that the journal never keeps."""
    return json.loads(
        json.dumps(document),
        object_hook=lambda fields: {name: field for name, field in fields.items() if name not in SECRETS},
    )


@pytest.mark.parametrize("kind", ["Request", "Response"])
@pytest.mark.parametrize("route", one_in(2, ROUTES), ids=lambda route: route.message)
@few_examples
@given(data=st.data())
def test_any_message_can_be_kept_and_shown(route: Route, kind: str, data: st.DataObject) -> None:
    version = data.draw(st.integers(route.first, route.last))
    message = data.draw(messages(message_class(route, kind), version))
    copy = detach(message)
    assert without_secrets(to_json(copy, version)) == without_secrets(to_json(message, version))
    assert json.loads(json.dumps(to_json(copy, version))) == to_json(copy, version)


def recorded(frame: bytes, request: Any) -> RecordedRequest:
    """Return an entry as the recording creates it, for a broker that serves nothing."""
    recording = Recording(SERVICES)
    recording.keep_journal(1)
    view = memoryview(bytearray(frame))
    call = call_for(frame)
    entry = RecordedRequest(recording, BrokerConnection((None, None), 0, "", CORE), view, (0, 0.0), call)
    entry.keep(call, view, request)
    return entry


def call_for(frame: bytes) -> Call:
    """Return the call of a request to a broker that serves nothing."""
    return call_of(
        memoryview(frame), Session(SERVICES, Mock(**{"fetch_sessions.get.return_value": None}), advertised=("", 0))
    )[0]


@pytest.mark.parametrize("route", one_in(2, ROUTES), ids=lambda route: route.message)
@few_examples
@given(data=st.data())
def test_a_message_decoded_when_read_is_the_same_as_one_decoded_at_once(route: Route, data: st.DataObject) -> None:
    version = data.draw(st.integers(route.first, route.last))
    served = endpoint(route.key)
    frame = frame_of(data.draw(messages(served.request, version)), version)
    body = read_request_header(memoryview(frame)).body + (version in served.flexible)
    request, _ = decode(served.request, memoryview(frame), version, body)
    response = data.draw(messages(served.response, version))
    flexible = served.has_flexible_response_header(version)
    entry = recorded(frame, request)
    call = call_for(frame)
    sent = bytes_of(Answer(response, call, 1))
    encode_answers([Answer(response, call, 1, entry)])
    assert entry.request == detach(request)
    decoded, _ = decode(served.response, memoryview(sent), version, 8 + flexible)
    assert entry.response == detach(decoded)
    assert entry.bytes_out == len(sent)
    assert entry.targets == targets_by_name(served.names, request, CORE)


def held_by(entry: Entry) -> str:
    """Return everything that an entry keeps, as text."""
    return repr([value for name, value in vars(entry).items() if name not in {"_call", "_recording", "origin"}])


def test_no_secret_is_kept_before_anybody_reads_the_journal(tapped: Tapped, journal: Journal) -> None:
    login = SaslAuthenticateRequest(auth_bytes=b"\0u\0S3CRET")
    frame = frame_of(login, 2)
    entry = recorded(frame, login)
    credential = ScramCredentialUpsertion(
        name="u", mechanism=1, iterations=4096, salt=b"S3CRET", salted_password=b"S3CRET"
    )
    tapped.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential]), 0)
    for journal_entry in (entry, *journal):
        assert "S3CRET" not in held_by(journal_entry)
        assert "hidden" in held_by(journal_entry)


@pytest.mark.parametrize("size", [1, MAX_FRAME_BYTES])
def test_what_is_kept_shares_nothing_with_the_receive_buffer(tapped: Tapped, journal: Journal, size: int) -> None:
    session = tapped.session()
    take = compose(tapped.services, None, Channel())
    beat: Any = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    for _ in range(4):
        for request, version in ((produce_request(batch(b"R3C0RD" * size)), 9), (beat, 4)):
            frame = bytearray(frame_of(request, version))
            outcome = take(memoryview(frame), session)
            tapped.core.writes.commit()
            assert outcome is not None
            assert not isinstance(outcome, Waiting)
            encode_answers([outcome])
            frame[:] = bytes(len(frame))
    if size > 1:  # Small requests are kept unchanged.
        assert "R3C0RD" not in "".join(map(held_by, journal))
    documents: list[dict[str, Any]] = [{**entry.to_json(), "number": 0} for entry in journal]
    assert "R3C0RD" not in str(documents)
    assert [document["api"] for document in documents] == ["Produce", "Heartbeat"] * 4
    assert documents[1::2] == [documents[1]] * 4
    assert [document["request"] for document in documents[::2]] == [documents[0]["request"]] * 4
    offsets = [
        document["response"]["responses"][0]["partitionResponses"][0]["baseOffset"] for document in documents[::2]
    ]
    assert offsets == [0, 1, 2, 3]
    assert {target for entry in journal.entries(api="Produce") for target in entry.targets} == {Target("t", 0)}


def test_a_repeated_fetch_of_a_session_is_about_all_its_partitions(tapped: Tapped, journal: Journal) -> None:
    tapped.create("u")
    session = tapped.session()
    take = compose(tapped.services, None, Channel())

    def fetched(epoch: int, session_id: int, topic: str) -> Any:
        request = fetch_request((topic, 0, 0), max_wait_ms=0, session_id=session_id, session_epoch=epoch)
        outcome = take(memoryview(bytearray(frame_of(request, 12))), session)
        assert isinstance(outcome, Answer)
        return outcome.response

    session_id = fetched(0, 0, "t").session_id
    for epoch in range(1, 5):
        fetched(epoch, session_id, "u")
    _, *entries = journal.entries(api="Fetch")
    assert [set(entry.targets) for entry in entries] == [{Target("t", 0), Target("u", 0)}] * 4


def test_a_long_request_is_kept_without_bytes_that_belong_to_no_field(tapped: Tapped, journal: Journal) -> None:
    frame = frame_of(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3) + b"junk" * MAX_FRAME_BYTES
    compose(tapped.services, None, Channel())(memoryview(bytearray(frame)), tapped.session())
    (entry,) = journal
    assert "junk" not in held_by(entry)
    assert entry.request.group_id == "g"


def test_targets_by_id_are_those_at_the_time_of_the_request(tapped: Tapped, journal: Journal) -> None:
    tapped.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=tapped.topic().id)]), 12)
    tapped.delete("t")
    tapped.ask(MetadataRequest(topics=None), 12)
    by_id, _, of_all = journal
    assert by_id.topics == {"t"}
    assert not of_all.topics


@pytest.mark.parametrize("size", [10, 50, 3000, 70_000])
def test_records_of_a_file_are_counted_without_reading_all_of_it(tmp_path: Path, size: int) -> None:
    batches = [batch(*[b"x" * size] * (1 + number % 3)) for number in range(60)]
    data = b"".join(batches)
    path = tmp_path / "0.log"
    path.write_bytes(data)
    with closing(FileHandle(FilePool(1), str(path))) as handle:
        for cut in (0, 1, 30, 60, 62, 100):
            range_summary = summary(LogSlice(handle, 0, len(data) - cut))
            assert range_summary == summary(data[: len(data) - cut])
    assert summary(data) == RecordsSummary(len(data), 60, 120)


def fetched_records(entry: Entry) -> Any:
    return entry.response.responses[0].partitions[0].records


def test_many_batches_of_a_file_are_counted_when_somebody_asks(tapped: Tapped, journal: Journal) -> None:
    for _ in range(100):
        tapped.produce(batch(b"a", b"b"))
    journal.clear()
    frame = frame_of(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    answer = compose(tapped.services, None, Channel())(memoryview(bytearray(frame)), tapped.session())
    assert isinstance(answer, Answer)
    with patch.object(LogSlice, "read", side_effect=AssertionError), patch("os.pread", side_effect=AssertionError):
        encode_answers([answer])
    (entry,) = journal
    size = 100 * len(batch(b"a", b"b"))
    with ThreadPoolExecutor(1) as others:  # The thread of a test is not that of the broker.
        assert others.submit(fetched_records, entry).result() == RecordsSummary(size, 100, 200)
    tapped.delete("t")
    assert fetched_records(entry) == RecordsSummary(size, 100, 200)


@pytest.mark.parametrize("size", [10, 5_000, 200_000])
def test_records_of_a_file_are_told_for_their_own_partitions(tapped: Tapped, journal: Journal, size: int) -> None:
    tapped.create("u", 3)
    tapped.produce(batch(b"x" * size))
    tapped.produce(batch(b"a", b"b"), "u", 1)
    journal.clear()
    tapped.ask(fetch_request(("u", 0, 0), ("u", 1, 0), ("u", 2, 0), ("t", 0, 0), max_wait_ms=0), 12)
    (entry,) = journal
    records = {
        (topic.topic, part.partition_index): part.records
        for topic in entry.response.responses
        for part in topic.partitions
    }
    assert records == {
        ("u", 0): RecordsSummary(0, 0, 0),
        ("u", 1): RecordsSummary(len(batch(b"a", b"b")), 1, 2),
        ("u", 2): RecordsSummary(0, 0, 0),
        ("t", 0): RecordsSummary(len(batch(b"x" * size)), 1, 1),
    }


def test_only_the_size_is_known_of_many_batches_whose_file_has_gone(tapped: Tapped, journal: Journal) -> None:
    for count in (1, 100):
        for _ in range(count):
            tapped.produce(batch(b"a", b"b"))
        tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    tapped.delete("t")
    few, many = (fetched_records(entry) for entry in journal.entries(api="Fetch"))
    size = len(batch(b"a", b"b"))
    assert few == RecordsSummary(size, 1, 2)
    assert many == RecordsSummary(101 * size, None, None)
    assert json.dumps(many._asdict()) == f'{{"size": {101 * size}, "batches": null, "records": null}}'


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


def test_memory_is_bounded_in_bytes(tapped: Tapped, journal: Journal) -> None:
    """A request of 800,000 bytes counts with its decoded size. The newest request always stays."""
    topics = [DeleteTopicState(name=f"{number:0200}") for number in range(4000)]
    ring = recording_of(tapped.services).ring
    assert ring is not None
    ring.max_bytes = 20 << 20
    for _ in range(5):
        tapped.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6)
    assert [entry.number for entry in journal] == [3, 4, 5][-len(journal) :]
    assert 1 <= len(journal) <= 3
    for _ in range(3):
        tapped.produce(batch(b"a" * 900_000))  # Only a summary of the records is kept.
    assert len(journal) >= 4
    journal.clear()
    tapped.produce(batch(b"a"))
    assert len(journal) == 1


@pytest.mark.parametrize("action", ["drop", "disconnect", "truncate"])
def test_responses_that_a_fault_holds_back_count_as_memory(tapped: Tapped, journal: Journal, action: str) -> None:
    topics = [MetadataRequestTopic(name=f"{number:050}") for number in range(200)]
    ring = recording_of(tapped.services).ring
    assert ring is not None
    tapped.fault(api="Metadata", **{action: 1 if action == "truncate" else "after"})
    tapped.start_asking(MetadataRequest(topics=topics), 12)
    (entry,) = journal
    assert ring.memory > entry.bytes_in + sum(len(topic.name) for topic in entry.response.topics)
    ring.max_bytes = ring.memory + 1
    tapped.start_asking(MetadataRequest(topics=topics), 12)
    assert [entry.number for entry in journal] == [2]


def test_a_page_takes_nothing_from_a_journal(tapped: Tapped) -> None:
    ring = recording_of(tapped.services).keep_frames()
    tapped.produce(batch(b"a"))
    journal = recording_of(tapped.services).keep_journal(capacity=15)
    ring.max_bytes = 5 << 20
    for _ in range(20):
        tapped.produce(batch(bytes(700_000)))
    assert [entry.number for entry in journal] == list(range(7, 22))
    assert all(entry.response.responses for entry in journal)
    recorder = Recorder(ring)
    on_page = recorder.between(1, recorder.last)
    assert 7 < recorder.first < 21
    assert [entry.number for entry in on_page] == list(range(recorder.first, 22))
    assert all(len(entry.request_frame) > 700_000 and entry.response_frame for entry in on_page)
    assert recorder.find(recorder.first - 1) is None
    assert sum(entry.memory for entry in journal) == ring.memory <= 5 << 20


@pytest.mark.parametrize("capacity", [5, 10, 20])
def test_a_journal_and_a_page_keep_as_many_requests_as_they_are_to_keep(
    tapped: Tapped, monkeypatch: pytest.MonkeyPatch, capacity: int
) -> None:
    monkeypatch.setattr(recording, "MAX_EXCHANGES", 10)
    ring = recording_of(tapped.services).keep_frames()
    journal = recording_of(tapped.services).keep_journal(capacity)
    for _ in range(25):
        tapped.produce(batch(b"a"))
    assert len(journal) == capacity
    journal.clear()
    assert len(journal) == 0
    assert len(ring.between(1, 25)) == max(10, capacity)
    recording_of(tapped.services).drop_journal()
    tapped.produce(batch(b"a"))
    assert len(ring.between(1, 26)) == 10


@pytest.mark.parametrize("has_page", [False, True])
def test_the_number_of_requests_is_that_of_the_newest(tapped: Tapped, *, has_page: bool) -> None:
    if has_page:
        recording_of(tapped.services).keep_frames()
    for _ in range(2):
        tapped.produce(batch(b"a"))
        journal = recording_of(tapped.services).keep_journal()
        before = journal.count
        tapped.produce(batch(b"a"))
        assert [entry.number for entry in journal] == [before + 1] == [journal.count]
        assert len(journal.entries(after=before)) == 1


@pytest.mark.parametrize("kind", [bytes, tuple])
def test_reading_large_entries_keeps_none_of_what_is_read(tapped: Tapped, journal: Journal, kind: type[Any]) -> None:
    """Readers of a journal own the copies, and the entries do not grow."""
    topics = [MetadataRequestTopic(name=f"{number:050}") for number in range(50 if kind is bytes else 2000)]
    tapped.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
    (entry,) = journal
    before = {name: id(value) for name, value in vars(entry).items()}
    assert len(entry.request.topics) == len(entry.response.topics) == len(entry.targets) == len(topics)
    assert entry.error_codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert entry.to_json()["errors"] == ["UNKNOWN_TOPIC_OR_PARTITION"]
    after = {name: id(value) for name, value in vars(entry).items() if name != "_error_codes"}
    assert after == before


@pytest.fixture
def slow(tapped: Tapped) -> Tapped:
    """Return a broker that logs requests that take more than 100 ms."""
    log_slow_requests(tapped.services, 100)
    return tapped


def test_a_slow_request_is_logged(slow: Tapped, caplog: pytest.LogCaptureFixture) -> None:
    slow.produce(batch(b"a"))
    slow.fault(api="Produce", delay_ms=100, times=1)
    slow.start_asking(produce_request(batch(b"a")), 9)
    slow.clock.advance(100)
    assert not caplog.messages
    slow.fault(api="Produce", delay_ms=101, times=1)
    slow.start_asking(produce_request(batch(b"a")), 9)
    slow.clock.advance(101)
    assert caplog.messages == ["Slow request: Produce v9 from test 127.0.0.1:9092-127.0.0.1:51234 took 101.0 ms"]


def test_a_fetch_that_waits_for_records_is_not_slow(slow: Tapped, caplog: pytest.LogCaptureFixture) -> None:
    slow.start_asking(fetch_request(("t", 0, 0), max_wait_ms=400), 12)
    slow.clock.advance(400)
    assert not caplog.messages
    slow.fault(api="Fetch", delay_ms=150)
    slow.start_asking(fetch_request(("t", 0, 0), max_wait_ms=400), 12)
    slow.clock.advance(400)
    slow.clock.advance(150)
    (line,) = caplog.messages
    assert line.endswith("took 550.0 ms, 400.0 ms of them waiting for other clients")


def test_a_slow_request_without_a_response_is_logged(slow: Tapped, caplog: pytest.LogCaptureFixture) -> None:
    slow.fault(api="Produce", delay_ms=200, drop="after")
    slow.start_asking(produce_request(batch(b"a")), 9)
    slow.clock.advance(200)
    (line,) = caplog.messages
    assert line.endswith("took 200.0 ms, and was not answered")


@pytest.mark.parametrize("slow_ms", [-1, 0])
def test_slow_requests_are_logged_if_a_limit_is_set(slow_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(config={"minibroker.slow.request.ms": str(slow_ms)}) as broker, SocketClient(broker.address) as client:
        assert client.ask(MetadataRequest(topics=None), 9).brokers
        assert (broker.services.recording is not None) == (slow_ms == 0)
        assert journal_of(broker.services) is None
    lines = [line for line in caplog.messages if line.startswith("Slow request: Metadata v9 from ")]
    assert bool(lines) == (slow_ms == 0)
