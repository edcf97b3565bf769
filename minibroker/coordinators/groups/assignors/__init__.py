"""The assignors of the coordinator, as those of Kafka 3.9 (`org.apache.kafka.coordinator.group.assignor`)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minibroker.config.broker import ASSIGNORS
from minibroker.coordinators.groups.assignors.range import assign_ranges
from minibroker.coordinators.groups.assignors.spec import GroupSpec
from minibroker.coordinators.groups.assignors.uniform import assign_uniformly
from minibroker.coordinators.groups.modern.partitions import Partitions
from minibroker.support.slices import Steps

Assignor = Callable[[GroupSpec], Steps[dict[str, Partitions]]]
"""Yields about every millisecond; the result has the partitions of each member, by member id."""

_BY_NAME: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}


def named(requested: Iterable[str]) -> dict[str, Assignor]:
    """The assignors of `group.consumer.assignors`, by their names; unknown ones are skipped.

    Without any that can, both are there.
    """
    names = [ASSIGNORS[each] for each in requested if each in ASSIGNORS]
    return {name: _BY_NAME[name] for name in names or _BY_NAME}


__all__ = ["Assignor", "GroupSpec", "assign_ranges", "assign_uniformly", "named"]
