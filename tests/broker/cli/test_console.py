"""The output of a broker: requests, advice, a banner, and a line of Kafka's."""

import asyncio
import json
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from minibroker.cli import kafka_lines
from minibroker.cli.console import Console, log_request
from minibroker.clock import ManualClock
from minibroker.cluster.advice import (
    CONNECTIONS,
    LOST_GROUPS,
    MAX_LINES_PER_PERIOD,
    MAX_SUBJECTS,
    MISSING_TOPICS,
    PERIOD_MS,
    AdviceLog,
    check_advertised_host,
    explain_first_bytes,
)
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.server.faults.fault import Fault
from minibroker.server.faults.registry import faults_of
from minibroker.server.inspection.journal import Entry
from minibroker.server.inspection.recording import recording_of
from minibroker.server.inspection.request_lines import fold_repeats, line_of
from minibroker.server.requests.dispatch import compose
from minibroker_protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.faults.tapped import Channel, Tapped
from tests.broker.harness import Harness, batch, fetch_request, frame_of, produce_request


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[Tapped]:
    made = Tapped(str(tmp_path / "data"))
    yield made
    made.close()


@pytest.fixture
def over(tapped: Tapped) -> list[Entry]:
    """Return the completed requests."""
    entries: list[Entry] = []
    recording_of(tapped.services).watch(entries.append)
    return entries


def test_idle_requests_that_repeat_between_others_are_folded(tapped: Tapped, over: list[Entry]) -> None:
    tapped.produce(batch(b"a"))
    over.clear()
    for _ in range(5):
        tapped.ask(fetch_request(("t", 0, 1), max_wait_ms=0), 12)
        tapped.ask(fetch_request(("t", 1, 0), max_wait_ms=0), 12)
    tapped.produce(batch(b"b"))
    tapped.produce(batch(b"b"))
    tapped.ask(fetch_request(("t", 0, 3), max_wait_ms=0), 12)
    folded = [(entry.api, entry.number, times) for entry, times in fold_repeats(over, 20)]
    assert folded == [("Fetch", 10, 5), ("Fetch", 11, 5), ("Produce", 12, 1), ("Produce", 13, 1), ("Fetch", 14, 1)]
    assert [entry.number for entry, _ in fold_repeats(over, 4)] == [11, 12, 13, 14]


def test_a_line_tells_what_was_asked_by_whom_and_how_it_ended(tapped: Tapped, over: list[Entry]) -> None:
    size = len(batch(b"a", b"b"))
    tapped.produce(batch(b"a", b"b"))
    tapped.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    tapped.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    tapped.ask(MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(7)]), 9)
    who = "from test 127.0.0.1:51234"
    assert [line_of(entry) for entry in over] == [
        f"Produce v9 t-0 (2 records, {size} bytes) {who}: ok in 0.0 ms",
        f"Fetch v12 t-0 {who}: ok, 2 records, {size} bytes in 0.0 ms",
        f"Heartbeat v4 group g {who}: UNKNOWN_MEMBER_ID in 0.0 ms",
        f"Metadata v9 t0,t1,t2,t3,t4 and 2 more {who}: ok in 0.0 ms",
    ]


def test_requests_without_an_answer_are_told_too(tapped: Tapped) -> None:
    journal = recording_of(tapped.services).keep_journal(9)
    tapped.start_asking(produce_request(batch(b"a"), acks=0), 9)
    faults_of(tapped.services).add(Fault(api="Metadata", disconnect="before"))
    tapped.start_asking(MetadataRequest(topics=None), 9)
    tapped.start_asking(fetch_request(("t", 0, 1), max_wait_ms=1000), 12)
    assert [line_of(entry).partition(": ")[2] for entry in journal.entries()] == [
        "no answer",
        "fault {'api': 'Metadata', 'disconnect': 'before'}, no answer",
        "no answer yet",
    ]


def test_what_is_no_request_is_told_with_the_reason(tapped: Tapped, over: list[Entry]) -> None:
    frame = bytearray(frame_of(MetadataRequest(topics=None), 9))
    frame[2:4] = b"\0\x63"
    take = compose(tapped.services, None, Channel())
    with pytest.raises(UnservedRequestError):
        take(memoryview(frame), tapped.session())
    (entry,) = over
    assert line_of(entry).startswith("Metadata v99 from test 127.0.0.1:51234: connection closed: ")


def test_logs_are_lines_of_json_on_request(tapped: Tapped, capsys: pytest.CaptureFixture[str]) -> None:
    with Console("json", verbose=True):
        recording_of(tapped.services).watch(log_request)
        tapped.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
        try:
            os.stat("/no/such/file")
        except OSError:
            logging.getLogger("minibroker.server.server").exception("It has %s", "failed")
    request, failure = map(json.loads, capsys.readouterr().err.splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", request["time"])
    assert (request["level"], request["logger"]) == ("INFO", "minibroker.requests")
    assert request["request"]["response"] == {"throttleTimeMs": 0, "errorCode": 25}
    assert (failure["level"], failure["message"]) == ("ERROR", "It has failed")
    assert failure["exception"].endswith("'/no/such/file'")


def test_text_says_who_speaks_and_requests_say_when(tapped: Tapped, capsys: pytest.CaptureFixture[str]) -> None:
    with Console("text", verbose=True):
        recording_of(tapped.services).watch(log_request)
        tapped.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
        logging.getLogger("minibroker").warning("careful")
    request, warning = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} Heartbeat v4 group g .*", request)
    assert warning == "minibroker: careful"
    assert logging.getLogger("minibroker").level == logging.NOTSET


def test_the_banner_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    for log_format, stream, shown in (
        ("text", Terminal(), "\n  data    /d\n  topics  t\n\n"),
        ("text", StringIO(), ""),
        ("json", Terminal(), ""),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        with Console(log_format, verbose=False) as console:
            console.print_banner({"data": "/d", "topics": "t"})
        assert stream.getvalue() == shown


# Tests of advice for users.


@pytest.fixture
def advice(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "minibroker.support.advice")
    return caplog


def test_a_batch_that_is_too_large_is_explained_once_for_each_topic(
    harness: Harness, advice: pytest.LogCaptureFixture
) -> None:
    harness.create("small", max_message_bytes="100")
    for _ in range(2):
        assert harness.produce(batch(b"x" * 200), "small").error_code == 10
    (message,) = advice.messages
    assert "for small was refused: its max.message.bytes is 100" in message


def test_a_topic_that_nobody_may_create_is_named(tmp_path: Path, advice: pytest.LogCaptureFixture) -> None:
    harness = Harness(str(tmp_path / "data"), {"auto.create.topics.enable": "false"})
    for allow in (False, True, True):
        request = MetadataRequest(topics=[MetadataRequestTopic(name="away")], allow_auto_topic_creation=allow)
        assert harness.ask(request, 9).topics[0].error_code == 3
    harness.close()
    (message,) = advice.messages
    assert "the topic 'away', which does not exist" in message


@pytest.mark.parametrize(
    ("start", "word"), [(b"\x16\x03\x01\x02", "TLS"), (b"GET /", "HTTP"), (b"\xff\xff\xff\xff", None), (b"", None)]
)
def test_clients_that_speak_something_else_are_recognised(start: bytes, word: str | None) -> None:
    advice = explain_first_bytes(start)
    assert word in advice if advice is not None and word is not None else advice is word


def test_advice_is_given_once_and_not_kept_without_end(advice: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    advised = AdviceLog(clock)
    for number in range(2 * MAX_SUBJECTS):
        for _ in range(2):
            advised.advise(CONNECTIONS, str(number), f"number {number}")
        if number % MAX_LINES_PER_PERIOD == MAX_LINES_PER_PERIOD - 1:
            clock.advance(PERIOD_MS)
    assert advice.messages == [f"number {number}" for number in range(2 * MAX_SUBJECTS)]
    assert [len(kind.given) for kind in advised._kinds.values()] == [MAX_SUBJECTS]


def test_too_much_advice_of_a_kind_is_counted_and_hides_no_other(advice: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    advised = AdviceLog(clock)
    for number in range(1000):
        advised.advise(MISSING_TOPICS, f"t{number}", f"there is no t{number}")
    advised.advise(LOST_GROUPS, "g", "g is lost")
    assert advice.messages == [*(f"there is no t{number}" for number in range(MAX_LINES_PER_PERIOD)), "g is lost"]
    clock.advance(PERIOD_MS - 1)
    assert len(advice.messages) == MAX_LINES_PER_PERIOD + 1
    clock.advance(1)
    suppressed = 1000 - MAX_LINES_PER_PERIOD
    assert advice.messages[-1] == f"missing topics: {suppressed} more within a minute, which are not listed"
    advised.advise(MISSING_TOPICS, "t999", "there is no t999")
    assert advice.messages[-1] == "there is no t999"
    clock.advance(10 * PERIOD_MS)
    assert advice.messages[-1] == "there is no t999"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_message_is_one_line_of_printable_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log_format: str
) -> None:
    # pytest's own report would also contain the message, and pytest-xdist cannot transfer a lone surrogate.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    name = "a\r\nminibroker: all is well\x1b[2J\x9b\u202e\udc80\N{EURO SIGN}"
    logger = logging.getLogger("minibroker.test")
    with Console(log_format, verbose=True):
        logger.info("topic %s", name)
        try:
            int(name)
        except ValueError:
            logger.exception("it failed")
    lines = capsys.readouterr().err.splitlines()
    assert all(line.isprintable() for line in lines)
    if log_format == "json":
        assert json.loads(lines[0])["message"] == f"topic {name}"
        assert len(lines) == 2
        return
    assert lines[0] == r"minibroker: topic a\r\nminibroker: all is well\x1b[2J\x9b\u202e\udc80" + "\N{EURO SIGN}"
    assert lines[1] == "minibroker: it failed"


def test_an_advertised_host_that_cannot_be_found_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(host: str, port: None) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    check_advertised_host("127.0.0.1")
    assert not caplog.messages
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    check_advertised_host("broker.test")
    assert caplog.messages[0].startswith("the advertised host broker.test has no address on this machine (Name or")


def test_the_line_that_rusts_module_awaits_follows_a_change_of_the_brokers_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harness = Harness(str(tmp_path / "data"))
    monkeypatch.setenv("MINIBROKER_LOG_LINES", "kafka")
    change = IncrementallyAlteredConfig(name="message.max.bytes", config_operation=0, value="1000")
    resource = IncrementallyAlteredResource(resource_type=4, resource_name="1", configs=[change])

    async def change_twice() -> None:
        kafka_lines.schedule_balancing_line(harness.core)
        for _ in range(2):
            answer = harness.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
            assert answer.responses[0].error_code == 0, answer

    asyncio.run(change_twice())
    assert capsys.readouterr().out.count("Checking need to trigger auto leader balancing") == 1
