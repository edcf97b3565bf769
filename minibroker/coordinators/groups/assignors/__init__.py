"""The coordinator's assignors, equivalent to Kafka's (`org.apache.kafka.coordinator.group.assignor`)."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from minibroker.config.broker import ASSIGNORS
from minibroker.coordinators.groups.assignors.range import GroupSpec, assign_ranges
from minibroker.coordinators.groups.assignors.uniform import assign_uniform
from minibroker.coordinators.groups.modern.topics import Partitions

Assignor = Callable[[GroupSpec], dict[str, Partitions]]
"""Returns the partitions of each member by member id."""

_BY_NAME: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_ranges}
_BEFORE_4_0: Final[Mapping[str, Assignor]] = {**_BY_NAME, "uniform": partial(assign_uniform, since_4_0=False)}


def find_assignors(requested: Iterable[str], *, since_4_0: bool = True) -> dict[str, Assignor]:
    """Return the assignors listed in `group.consumer.assignors`, by name. Unknown names are ignored.

    If all names are unknown, both assignors are returned. The assignors behave as in Kafka 4, or as in Kafka 3.9 if
    `since_4_0` is false.
    """
    names = [ASSIGNORS[requested_name] for requested_name in requested if requested_name in ASSIGNORS]
    assignors = _BY_NAME if since_4_0 else _BEFORE_4_0
    return {name: assignors[name] for name in names or assignors}


__all__ = ["Assignor", "GroupSpec", "find_assignors"]
