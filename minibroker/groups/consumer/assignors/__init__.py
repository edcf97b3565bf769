"""The assignors of the coordinator, as those of Kafka 3.9 (`org.apache.kafka.coordinator.group.assignor`)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minibroker.groups.consumer.assignors.range import assign_ranges
from minibroker.groups.consumer.assignors.spec import GroupSpec
from minibroker.groups.consumer.assignors.uniform import assign_uniformly
from minibroker.groups.consumer.partitions import Partitions

Assignor = Callable[[GroupSpec], dict[str, Partitions]]

_BY_CLASS: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
_BY_NAME: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}


def named(wanted: Iterable[str]) -> dict[str, Assignor]:
    """The assignors of `group.consumer.assignors`, by their names: those of Kafka's classes, or short ones (KIP-1101).

    Others are passed over; what is not there cannot be run here.
    """
    names = [_BY_CLASS.get(each, each) for each in wanted]
    return {name: _BY_NAME[name] for name in names if name in _BY_NAME}


__all__ = ["Assignor", "GroupSpec", "assign_ranges", "assign_uniformly", "named"]
