"""Searches all recorded exchanges for a record. A repeated search resumes where the previous one ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from minibroker_lab.page.follow.sightings import sightings
from minibroker_lab.page.recorder import Reader

if TYPE_CHECKING:
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.page.follow.sightings import Sighting, Target
    from minibroker_lab.page.recorder import Recorder

MAX_SIGHTINGS: Final = 200
"""The number of sightings kept of each kind, oldest first."""
_MAX_SEARCHES: Final = 16


class Search:
    """The sightings of one record.

    Attributes:
        began_with: The number of the oldest exchange that was still recorded when the search began.
        found: The sightings by kind, oldest first. Only the first commit of each group and outcome is kept.
        counts: The number of sightings by kind.
    """

    def __init__(self, recorder: Recorder, target: Target) -> None:
        recorder.catch_up()
        self._target = target
        self.began_with = recorder.first
        self.reader = Reader(recorder, self._look, first=self.began_with)
        self.found: dict[str, list[Sighting]] = {}
        self.counts: Counter[str] = Counter()

    def _look(self, exchange: Exchange) -> None:
        for sighting in sightings(exchange, self._target):
            self.counts[sighting.kind] += 1
            kept = self.found.setdefault(sighting.kind, [])
            if sighting.kind == "committed":
                group = sighting.facts["group"], not sighting.error
                if any((earlier.facts["group"], not earlier.error) == group for earlier in kept):
                    continue
            if len(kept) < MAX_SIGHTINGS:
                kept.append(sighting)


class Searches:
    """A cache of the most recent searches."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: dict[Target, Search] = {}  # The least recently used search comes first.

    async def look(self, target: Target) -> Search:
        """Return the search for a record, updated with the newest exchanges."""
        previous = self._kept.pop(target, None)
        search = self._kept[target] = previous or Search(self._recorder, target)
        if len(self._kept) > _MAX_SEARCHES:
            del self._kept[next(iter(self._kept))]
        await search.reader.read_new()
        return search
