"""The search for a record in all recorded exchanges. A repeated search resumes where the previous one ended."""

from __future__ import annotations

from collections import OrderedDict
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
        began_with: The number of the oldest exchange that was searched. Earlier exchanges were no longer recorded.
        found: The sightings by kind, oldest first. For commits, only the first of each group and outcome is kept.
        counts: The number of sightings by kind.
    """

    def __init__(self, recorder: Recorder, target: Target) -> None:
        recorder.catch_up()
        self._target = target
        self.began_with = recorder.first
        self.reader = Reader(recorder, self._look, first=self.began_with)
        self.found: dict[str, list[Sighting]] = {}
        self.counts: dict[str, int] = {}

    def _look(self, exchange: Exchange) -> None:
        for sighting in sightings(exchange, self._target):
            self._keep(sighting)

    def _keep(self, sighting: Sighting) -> None:
        kind = sighting.kind
        self.counts[kind] = self.counts.get(kind, 0) + 1
        sightings = self.found.setdefault(kind, [])
        if kind == "committed":
            group = sighting.facts["group"], not sighting.error
            if any((earlier.facts["group"], not earlier.error) == group for earlier in sightings):
                return
        if len(sightings) < MAX_SIGHTINGS:
            sightings.append(sighting)


class Searches:
    """A cache of the most recent searches."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: OrderedDict[Target, Search] = OrderedDict()

    async def look(self, target: Target) -> Search:
        """Return the search for a record, updated with the newest exchanges."""
        search = self._kept.get(target)
        if search is None:
            search = self._kept[target] = Search(self._recorder, target)
            while len(self._kept) > _MAX_SEARCHES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(target)
        await search.reader.read_new()
        return search
