"""Wake-ups of delayed fetches: the first few immediately, the others later, and their errors."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from minibroker.cluster.logs.write_group import Wakeups, WriteGroup


class Loop(list[Callable[[], None]]):
    """The calls that an event loop makes in its next turn."""

    def turn(self) -> None:
        calls, self[:] = tuple(self), []
        for call in calls:
            call()


def test_looks_that_are_awaited_need_a_turn_of_the_event_loop_only_where_there_are_many() -> None:
    loop, looked = Loop(), list[int]()
    wakeups = Wakeups(loop.append)
    for count, turns in ((3, 0), (6, 1), (1, 0)):
        looked.clear()
        wakeups.are_awaited = True
        for number in range(count):
            wakeups.add(partial(looked.append, number))
        wakeups.are_awaited = False
        wakeups.call_first()
        assert (len(looked), len(loop)) == (min(count, 4), turns)
        loop.turn()
        assert looked == list(range(count))
    wakeups.add(partial(looked.append, 7))
    loop.turn()
    assert looked == [0, 7]


def test_a_commit_that_fails_lets_those_look_that_it_has_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, looked = Loop(), list[int]()
    writes = WriteGroup(loop.append)
    writes.stage(cast("Any", None), cast("Any", None))

    def commit(group: WriteGroup) -> None:
        group.wakeups.add(partial(looked.append, 1))
        raise ZeroDivisionError

    monkeypatch.setattr(WriteGroup, "commit", commit)
    with pytest.raises(ZeroDivisionError):
        writes.commit_and_wake()
    assert looked == [1]
    writes.wakeups.add(partial(looked.append, 2))
    loop.turn()
    assert looked == [1, 2]


def test_an_error_is_raised_in_the_event_loop_and_keeps_nobody_from_looking() -> None:
    loop, looked = Loop(), list[int]()
    wakeups = Wakeups(loop.append)
    wakeups.add(lambda: looked.append(1 // 0))
    wakeups.add(partial(looked.append, 2))
    wakeups.call_first()
    assert looked == [2]
    with pytest.raises(ZeroDivisionError):
        loop.turn()
