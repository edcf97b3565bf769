"""Responses to waiting members, and their timing. `tests/kafka/test_groups.py` compares both with Kafka."""

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.clock import Clock, ManualClock, Timer
from minibroker.coordinators.groups.deadlines import Deadline
from tests.broker.coordinators.groups.driver import Members, answered, are_waiting
from tests.broker.coordinators.groups.member_requests import CHANGED, REBALANCE_MS, SESSION_MS, join_request
from tests.broker.harness import Harness

REBALANCE_IN_PROGRESS = 27


UNKNOWN_MEMBER_ID = 25


@pytest.fixture
def delayed(configured: Callable[[dict[str, str]], Harness]) -> Members:
    """Return a group whose first rebalance waits for more members for three seconds."""
    return Members(configured({"group.initial.rebalance.delay.ms": "3000"}))


def test_a_rebalance_waits_for_the_longest_rebalance_timeout(members: Members) -> None:
    fields: dict[str, Any] = {"session_ms": 10 * SESSION_MS}
    first = members.alone(rebalance_ms=10_000, **fields)
    second = members.new_id(rebalance_ms=60_000, **fields)
    waiting = members.begin_join(second, rebalance_ms=60_000, **fields)
    members.harness.clock.advance(59_999)
    assert first in members.ids
    members.harness.clock.advance(1)
    members.harness.run_soon()
    assert answered(waiting).leader == second
    assert first not in members.ids


def test_a_rebalance_without_joins_waits_until_the_sessions_end(members: Members) -> None:
    members.alone(instance="one", session_ms=90_000)
    second = members.new_id(session_ms=90_000)
    members.begin_join(second, session_ms=90_000)
    members.leave(second)
    members.harness.clock.advance(89_000)
    assert members.state == "PreparingRebalance"
    members.harness.clock.advance(2_000)
    members.harness.clock.advance(REBALANCE_MS)
    assert members.state == "Empty"


def test_a_rebalance_timeout_of_0_does_not_keep_the_broker_busy(members: Members) -> None:
    members.alone(instance="one", rebalance_ms=0)
    second = members.new_id(rebalance_ms=0)
    members.begin_join(second, rebalance_ms=0)
    members.leave(second)
    members.harness.clock.advance(SESSION_MS - 1)
    assert members.state == "PreparingRebalance"
    members.harness.clock.advance(1)
    assert members.state == "Empty"


def test_a_group_that_loses_its_last_member_is_logged(members: Members, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "minibroker.support.advice")
    members.pair()
    members.harness.clock.advance(SESSION_MS)
    assert members.ids == set()
    (message,) = [record.getMessage() for record in caplog.records if record.name == "minibroker.support.advice"]
    assert "has no members left to read its topics" in message
    assert f"session timeout of {SESSION_MS} ms" in message


def test_every_request_of_a_member_counts_as_a_heartbeat(members: Members) -> None:
    first, second, generation = members.pair()
    members.harness.clock.advance(SESSION_MS - 1)
    members.sync(first, generation)
    members.join(second)  # Answered immediately, because nothing has changed.
    members.heartbeat(second, generation)
    members.harness.clock.advance(SESSION_MS - 1)
    assert members.ids == {first, second}


def test_a_waiting_request_keeps_the_session_open(members: Members) -> None:
    fields: dict[str, Any] = {"session_ms": SESSION_MS, "rebalance_ms": 10 * SESSION_MS}
    first, second, generation = members.pair(**fields)
    waiting = members.begin_join(first, **fields)
    for _ in range(9):
        members.harness.clock.advance(SESSION_MS - 1)
        assert members.heartbeat(second, generation) == REBALANCE_IN_PROGRESS
    assert are_waiting(waiting)
    assert members.ids == {first, second}
    assert members.join(second, **fields).generation_id == generation + 1
    members.harness.clock.advance(SESSION_MS - 1)
    assert members.ids == {first, second}  # Both sessions began with the response.
    members.harness.clock.advance(1)
    assert members.state == "Empty"


def test_a_new_member_without_a_response_times_out_after_five_minutes(members: Members) -> None:
    fields: dict[str, Any] = {"session_ms": 30 * 60_000, "rebalance_ms": 20 * 60_000}
    first = members.alone(**fields)
    waiting = members.begin_join(version=3, rebalance_ms=20 * 60_000)
    members.harness.clock.advance(5 * 60_000 - 1)
    assert are_waiting(waiting)
    members.harness.clock.advance(1)
    members.harness.run_soon()
    assert (answered(waiting).error_code, answered(waiting).member_id) == (UNKNOWN_MEMBER_ID, "")
    assert members.ids == {first}


def test_a_disconnected_client_stays_a_member_until_its_session_ends(members: Members) -> None:
    first, second, generation = members.pair()
    waiting = members.begin_join(second, CHANGED)
    waiting.cancel()
    assert members.ids == {first, second}
    assert members.join(first).generation_id == generation + 1
    assert not waiting.is_answered
    members.sync(first, generation + 1, {})
    members.harness.clock.advance(SESSION_MS)
    assert second not in members.ids


def test_a_scheduled_response_is_dropped_when_the_client_disconnects(members: Members) -> None:
    first, second, _ = members.pair()
    waiting = members.begin_join(second, CHANGED)
    members.harness.accept(join_request("g", first), 9)
    waiting.cancel()
    members.harness.run_soon()
    assert not waiting.is_answered


def test_a_member_that_joins_from_two_connections_is_answered_on_the_second(members: Members) -> None:
    first, second, generation = members.pair()
    waiting = members.begin_join(second, CHANGED)
    again = members.begin_join(second, CHANGED)
    assert answered(waiting).error_code == REBALANCE_IN_PROGRESS
    members.join(first)
    assert answered(again).generation_id == generation + 1


def test_a_member_that_syncs_from_two_connections_is_answered_on_the_second(members: Members) -> None:
    first, second, generation = members.unsynced_pair()
    waiting = members.begin_sync(second, generation)
    again = members.begin_sync(second, generation)
    assert answered(waiting).error_code == REBALANCE_IN_PROGRESS
    members.sync(first, generation, {second: b"2"})
    assert bytes(answered(again).assignment) == b"2"


def test_a_waiting_member_that_is_removed_gets_an_error(members: Members) -> None:
    first, second, generation = members.unsynced_pair()
    syncing = members.begin_sync(second, generation)
    members.leave(second)
    assert answered(syncing).error_code == UNKNOWN_MEMBER_ID
    third = members.new_id()
    joining = members.begin_join(third)
    members.leave(third)
    assert answered(joining).error_code == UNKNOWN_MEMBER_ID
    assert members.join(first).generation_id == generation + 1


def test_the_first_rebalance_of_a_group_waits_for_more_members(delayed: Members) -> None:
    clock = delayed.harness.clock
    waiting = [delayed.begin_join(delayed.new_id())]
    clock.advance(2_999)
    waiting.append(delayed.begin_join(delayed.new_id()))
    clock.advance(2_999)
    waiting.append(delayed.begin_join(delayed.new_id()))
    clock.advance(2_999)
    assert are_waiting(*waiting)
    clock.advance(10)
    clock.advance(3_000)
    delayed.harness.run_soon()
    assert {answered(pending).generation_id for pending in waiting} == {1}
    assert len(answered(waiting[0]).members) == 3


def test_the_first_rebalance_waits_no_longer_than_a_rebalance_timeout(delayed: Members) -> None:
    waiting = [delayed.begin_join(delayed.new_id(), rebalance_ms=8_000)]
    for _ in range(7):
        delayed.harness.clock.advance(1_000)
        waiting.append(delayed.begin_join(delayed.new_id(), rebalance_ms=8_000))
    delayed.harness.clock.advance(999)
    assert are_waiting(*waiting)
    delayed.harness.clock.advance(1)
    delayed.harness.run_soon()
    assert {answered(pending).generation_id for pending in waiting} == {1}


def test_the_initial_delay_of_a_group_that_became_empty_is_not_extended(delayed: Members) -> None:
    first = delayed.new_id()
    delayed.begin_join(first)
    delayed.harness.clock.advance(3_000)
    delayed.leave(first)
    assert delayed.state == "Empty"
    waiting = [delayed.begin_join(delayed.new_id())]
    delayed.harness.clock.advance(2_000)
    waiting.append(delayed.begin_join(delayed.new_id()))
    delayed.harness.clock.advance(1_000)
    delayed.harness.run_soon()
    assert {answered(pending).generation_id for pending in waiting} == {3}


def test_a_returning_static_leader_gets_its_old_id_as_the_leader(members: Members) -> None:
    first = members.alone(instance="one", version=8)
    again = members.join(instance="one", version=8)
    assert (again.error_code, again.leader, list(again.members)) == (0, first, [])


def test_no_timer_fires_after_the_broker_was_closed(members: Members) -> None:
    first, second, _ = members.pair()
    members.new_id()
    waiting = members.begin_join(second, CHANGED)
    members.harness.services.close()
    members.harness.clock.advance(10 * SESSION_MS)
    members.harness.run_soon()
    assert are_waiting(waiting)
    members.harness.start()
    assert members.ids == {first, second}


class Counted(ManualClock):
    """A clock that counts its timers."""

    timers = 0

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, may_wait: bool = False) -> Timer:
        self.timers += 1
        return super().call_later(delay_ms, callback, may_wait=may_wait)


def deadline(clock: Clock) -> tuple[Deadline, list[float]]:
    """Return a deadline, and the times of its calls."""
    calls: list[float] = []
    return Deadline(clock, lambda: calls.append(clock.monotonic_ms())), calls


def test_a_deadline_that_is_often_postponed_needs_few_timers() -> None:
    clock = Counted(0)
    postponed, calls = deadline(clock)
    for _ in range(1000):
        postponed.restart(100)
        clock.advance(1)
    assert clock.timers < 25
    assert calls == []
    clock.advance(98)
    assert calls == []
    clock.advance(1)
    assert calls == [1099]


def test_a_deadline_can_be_moved_to_an_earlier_time() -> None:
    clock = ManualClock(0)
    moved, calls = deadline(clock)
    moved.restart(1000)
    moved.restart(10)
    clock.advance(2000)
    assert calls == [10]
