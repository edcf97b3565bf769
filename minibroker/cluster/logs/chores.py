"""Work that a broker does beside its requests: again and again, in slices, so that no request waits long for it.

A chore is a function. One that takes long returns an iterator, each step of which takes no longer than a request would.
The steps run on the event loop, a few milliseconds of them at a time, and a chore rests for its period afterwards.

`Slices` runs steps, too, for requests. It has a queue of its own, so that a request never waits behind a chore, and it
goes on when the chores are stopped: a stop ends the chores first, and requests that are under way with the state. Its
works have a result or an error for their owner; a chore has neither.
"""

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.config.keys import LONG_MAX
from minibroker_storage.descriptors import is_shortage

_SLICE_S: Final = 0.003
_SHORTEST_MS: Final = 10
"""A shorter period is lengthened to this: a chore that never rests would keep an idle broker busy."""
_logger = logging.getLogger(__name__)
_Work = Callable[[], Iterator[None] | None]


class _Chore:
    __slots__ = ("name", "period_ms", "work")

    def __init__(self, name: str, period_ms: int, work: _Work) -> None:
        self.name = name
        self.period_ms = period_ms
        self.work = work


class Chores:
    """The chores of one broker, by name."""

    __slots__ = ("_call_soon", "_chores", "_clock", "_stopped", "_timers")

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._chores: dict[str, _Chore] = {}
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def every(self, name: str, period_ms: int, work: _Work, *, first_ms: int | None = None) -> None:
        """Do `work` after `first_ms`, or after a period if that is shorter, and again whenever a period has passed.

        A period of Java's largest long is never. A chore takes the place of the one with its name.
        """
        if self._stopped or period_ms == LONG_MAX:
            return
        if name in self._timers:
            self._timers[name].cancel()
        chore = self._chores[name] = _Chore(name, max(period_ms, _SHORTEST_MS), work)
        self._rest(chore, chore.period_ms if first_ms is None else min(first_ms, chore.period_ms))

    def _rest(self, chore: _Chore, delay_ms: int) -> None:
        if self._chores.get(chore.name) is chore and not self._stopped:
            self._timers[chore.name] = self._clock.call_later(delay_ms, partial(self._begin, chore), may_wait=True)

    def _begin(self, chore: _Chore) -> None:
        self.run(_steps_of(chore.work), partial(self._rest, chore, chore.period_ms))

    def run(self, steps: Iterator[None], then: Callable[[], None]) -> None:
        """Take all `steps`, the first ones at once, then call `then`. An error is logged and ends them."""
        if self._stopped:
            return
        end = time.perf_counter() + _SLICE_S
        try:
            for _ in steps:
                if time.perf_counter() > end:
                    self._call_soon(partial(self.run, steps, then))
                    return
        except Exception as error:  # a fault of ours costs this round, not the chore
            if is_shortage(error):  # the modules of a chore load with its first round, which takes descriptors
                _logger.error("A chore could not be finished: %s", error)  # noqa: TRY400 - it says all
            else:
                _logger.exception("A chore could not be finished")
        then()

    def stop(self) -> None:
        """Give up all chores, also those that have begun."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()


def _steps_of(work: _Work) -> Iterator[None]:
    """Yield the steps of a chore. The call belongs to the first one, so that its errors are logged, too."""
    yield from work() or ()
