"""The search for a record in all recorded exchanges. A second one goes on where the first one ended."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from minibroker_lab.page.follow.sightings import sightings

if TYPE_CHECKING:
    from minibroker_lab.page.follow.sightings import Sighting, Target
    from minibroker_lab.page.recorder import Recorder

MOST: Final = 200
"""Sightings of a kind that are kept: the oldest ones."""
_MOST_SEARCHES: Final = 16
_SLICE_S: Final = 0.002
_AT_ONCE: Final = 50


class Search:
    """The sightings of one record.

    Attributes:
        began_with: the number of the oldest exchange that it has seen; those before were forgotten.
        found: the sightings of each kind, oldest first; of commits the first one of each group and outcome.
        counts: how many there were of each kind.
    """

    def __init__(self, target: Target, first: int) -> None:
        self._target = target
        self._next = self.began_with = first
        self._waiting: set[int] = set()
        self._lock = asyncio.Lock()
        self.found: dict[str, list[Sighting]] = {}
        self.counts: dict[str, int] = {}

    async def go_on(self, recorder: Recorder) -> None:
        """Look through the exchanges that have come, or have been answered, since the last time."""
        async with self._lock:
            recorder.catch_up()
            last = recorder.last
            for number in sorted(self._waiting):
                self._waiting.discard(number)
                self._look(recorder, number, number)
            began = time.perf_counter()
            while self._next <= last:
                self._next = max(self._next, recorder.first)
                stop = min(self._next + _AT_ONCE - 1, last)
                self._look(recorder, self._next, stop)
                self._next = stop + 1
                if time.perf_counter() - began > _SLICE_S:
                    await asyncio.sleep(0)
                    began = time.perf_counter()

    def _look(self, recorder: Recorder, first: int, last: int) -> None:
        for exchange in recorder.between(first, last):
            if exchange.expects_response and not exchange.bytes_out and exchange.loss is None:
                self._waiting.add(exchange.number)
                continue
            for each in sightings(exchange, self._target):
                self._keep(each)

    def _keep(self, sighting: Sighting) -> None:
        kind = sighting.kind
        self.counts[kind] = self.counts.get(kind, 0) + 1
        found = self.found.setdefault(kind, [])
        if kind == "committed":
            group = sighting.facts["group"], not sighting.error
            if any((each.facts["group"], not each.error) == group for each in found):
                return
        if len(found) < MOST:
            found.append(sighting)


class Searches:
    """The newest searches."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: OrderedDict[Target, Search] = OrderedDict()

    async def look(self, target: Target) -> Search:
        """The search for a record, up to now."""
        search = self._kept.get(target)
        if search is None:
            self._recorder.catch_up()
            search = self._kept[target] = Search(target, self._recorder.first)
            while len(self._kept) > _MOST_SEARCHES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(target)
        await search.go_on(self._recorder)
        return search
