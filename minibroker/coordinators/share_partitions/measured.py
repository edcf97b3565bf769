"""Numbers of share groups for metrics (Kafka's `ShareGroupMetrics`): noted once for a request or a batch."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from minibroker.coordinators.share_partitions.acknowledging import Acknowledgement

_KEPT: Final = 1028
"""So many values tell how all are spread, as in Kafka's histograms, which take a sample of that size."""


class Spread:
    """The spread of some values.

    Attributes:
        count: the number of values so far.
        values: the last ones.
    """

    __slots__ = ("count", "values")

    def __init__(self) -> None:
        self.count = 0
        self.values: deque[float] = deque(maxlen=_KEPT)

    def add(self, value: float) -> None:
        """Note a value."""
        self.count += 1
        self.values.append(value)

    def quantile(self, share: float) -> float:
        """The value that a share of the last values does not exceed; 0 without any."""
        ordered = sorted(self.values)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0


@dataclass(slots=True)
class FetchesOfGroup:
    """ShareFetch requests of a group.

    Attributes:
        ratio: the percentage of a request's partitions that it could acquire records of.
        acquire_ms: the time until it could.
    """

    ratio: Spread = field(default_factory=Spread)
    acquire_ms: Spread = field(default_factory=Spread)


class Measured:
    """All of a process.

    Attributes:
        acknowledged: type of acknowledgement -> the number of records.
        load_ms: the time that it took to load a share-partition.
        fetches: group id -> its requests.
    """

    def __init__(self) -> None:
        self.acknowledged: Counter[int] = Counter()
        self.load_ms = Spread()
        self.fetches: dict[str, FetchesOfGroup] = {}

    def acknowledge(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Note records that a member was allowed to acknowledge."""
        for first, last, types in acknowledgements:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                self.acknowledged.update(types)

    def of_group(self, group_id: str) -> FetchesOfGroup:
        """The fetches of a group."""
        known = self.fetches.get(group_id)
        if known is None:
            known = self.fetches[group_id] = FetchesOfGroup()
        return known
