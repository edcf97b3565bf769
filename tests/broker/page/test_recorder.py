"""The recorder of the page: what waits on the tape unread, and what it makes of it."""

import asyncio
import itertools
import struct
import time
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibroker.clock import ManualClock
from minibroker.inspection import tape
from minibroker.inspection.tape import MOST_A_SECOND, MOST_KEPT, SHORT, Tap, Tape
from minibroker.page.recorder import Recorder
from minibroker.trace.exchange import Kind

MOST_BYTES = 20_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 2), st.lists(st.sampled_from([0, -1, -1]), max_size=8)),
        st.tuples(st.just("answer"), st.integers(0, 2), st.integers(0, 8), st.integers(0, 900)),
        st.tuples(st.just("close"), st.integers(0, 2)),
        st.tuples(st.just("look")),
    ),
    max_size=60,
)


def with_length(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def produce(correlation_id: int, acks: int) -> bytes:
    return with_length(struct.pack(">hhihhhii", 0, 7, correlation_id, -1, -1, acks, 1000, 0))


class Recorded:
    """A recorder with three connections."""

    def __init__(self) -> None:
        self.recorder = Recorder(MOST_BYTES)
        self.tape = self.recorder.open_tape(ManualClock(), Mock())
        self.taps: list[Tap] = [self.tape.tap((("::1", 9092), ("::1", port)), 0) for port in range(3)]
        self.waiting: list[list[int]] = [[], [], []]
        self.count = 0

    def take(self, step: tuple[Any, ...]) -> None:
        """Have something pass."""
        if step[0] == "look":
            return
        port: int = step[1]
        tap, waiting = self.taps[port], self.waiting[port]
        if step[0] == "ask":
            for acks in step[2]:
                self.count += 1
                ask(tap, produce(self.count, acks))
                if acks:
                    waiting.append(self.count)
            tap.flush()
        elif step[0] == "answer":
            count: int = step[2]
            answered = waiting[:count]
            del waiting[:count]
            tap.sent(bytearray().join(with_length(struct.pack(">i", each) + bytes(step[3])) for each in answered), [])
        else:
            waiting.clear()
            tap.close()

    def kept(self, first: int) -> list[tuple[Any, ...]]:
        self.recorder.catch_up()
        found = self.recorder.between(first, self.recorder.last)
        return [(each.number, each.kind, each.client, each.request, each.response, each.failure) for each in found]


def ask(tap: Tap, frame: bytes) -> None:
    tap.before(Mock())(memoryview(frame)[4:], None)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_what_was_left_unread_reads_the_same_later(steps: list[tuple[Any, ...]]) -> None:
    read, left = Recorded(), Recorded()
    for step in steps:
        read.take(step)
        left.take(step)
        read.recorder.catch_up()
        if step[0] == "look":
            left.recorder.catch_up()
        left.recorder.leave_unread()
        assert left.tape.waiting <= MOST_BYTES
    left.recorder.catch_up()
    assert left.recorder.last == read.recorder.last == read.count
    first = max(left.recorder.first, read.recorder.first)
    assert left.kept(first) == read.kept(first)


def test_the_newest_requests_of_a_flood_are_kept_with_their_responses() -> None:
    recorded = Recorded()
    for _ in range(500):
        recorded.take(("ask", 0, [-1, -1]))
        recorded.take(("answer", 0, 2, 20))
        recorded.recorder.leave_unread()
    found = recorded.kept(1)
    assert recorded.recorder.last == found[-1][0] == 1000
    assert len(found) > 15
    assert all(response for _, _, _, _, response, _ in found)
    assert recorded.recorder.forgotten == 1000 - len(found)


def test_a_token_behind_a_gap_is_no_request() -> None:
    recorded = Recorded()
    token = with_length(b"\0alice\0a password of many letters")
    recorded.take(("ask", 0, [0]))
    for _ in range(200):
        recorded.take(("ask", 1, [0]))
    recorded.recorder.leave_unread()
    for tap in recorded.taps[::2]:
        ask(tap, token)
        tap.flush()
    assert recorded.taps[0].is_torn
    recorded.recorder.catch_up()
    assert [each.kind for each in recorded.recorder.between(202, 203)] == [Kind.TOKEN, Kind.REQUEST]


async def test_nothing_is_read_before_somebody_looks() -> None:
    recorded = Recorded()
    recorded.recorder.start()
    recorded.take(("ask", 0, [-1] * 3))
    for _ in range(3):
        await asyncio.sleep(0)
    assert recorded.recorder.last == 0
    with recorded.recorder.subscribed():
        assert recorded.recorder.last == 3


def test_while_requests_come_the_broker_gets_most_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, loop = Recorded(), Mock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)  # each slice is over after one event
    with recorded.recorder.subscribed():
        recorded.recorder.start()
        look = loop.call_soon.call_args.args[0]
        pauses: list[float] = []
        for count in (3, 2, 0, 0, 0, 0):
            for _ in range(count):
                recorded.take(("ask", 0, [0]))
            look()
            pauses.append(loop.call_later.call_args.args[0])
        assert recorded.recorder.last == 5
    slice_s = 0.001
    assert min(pauses[:2]) > 8 * slice_s
    assert pauses[2:4] == [0, 0]


def test_what_is_read_of_a_flood_stays_bounded_while_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, loop = Recorded(), Mock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)
    with recorded.recorder.subscribed() as subscription:
        recorded.recorder.start()
        for _ in range(50):
            for _ in range(10):
                recorded.take(("ask", 0, [-1]))
                recorded.take(("answer", 0, 1, 20))
            loop.call_soon.call_args.args[0]()
            assert recorded.tape.waiting <= MOST_BYTES
        recorded.recorder.catch_up()
        numbers = asyncio.run(subscription.next(1))
    assert numbers == list(range(recorded.recorder.first, 501))


def test_of_long_frames_that_come_fast_the_beginning_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(tape, "perf_counter", lambda: now)
    room = Tape(ManualClock(), Mock()).room
    whole = MOST_A_SECOND // MOST_KEPT
    assert [room(MOST_KEPT + 1) for _ in range(whole + 9)] == [MOST_KEPT] * whole + [SHORT] * 9
    assert room(SHORT) == SHORT
    now += 1 / whole
    assert [room(MOST_KEPT), room(MOST_KEPT)] == [MOST_KEPT, SHORT]
    now += 100
    assert [room(2 * SHORT) for _ in range(2)] == [2 * SHORT] * 2
