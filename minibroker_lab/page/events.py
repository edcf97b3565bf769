"""Events of a broker that are not requests: leader changes, faults, chaos, compaction, retention and deletion."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.operations.wording import format_count
from minibroker_storage.log import shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from minibroker.cluster.core import Core
    from minibroker.cluster.hooks import FaultHit
    from minibroker.cluster.partition import Partition
    from minibroker_storage.log import LogShape

MAX_EVENTS: Final = 5_000
"""The number of events that are kept."""
_MAX_SEGMENTS: Final = 16
"""The number of segments kept in the outline of a log, oldest first: retention and compaction start there."""


class BrokerEvent(NamedTuple):
    """An event of the broker.

    Attributes:
        number: Sequence number, starting at 1.
        time_ms: Time by the broker's clock, in milliseconds since the epoch.
        kind: "leader", "fault", "chaos", "cleaning", "retention" or "deletion".
        topic: The name of the affected topic, or "".
        partition: The index of the affected partition, or -1.
        text: A sentence that describes the event.
        facts: For a change to a log, its outlines "before" and "after". Otherwise empty.
    """

    number: int
    time_ms: int
    kind: str
    topic: str
    partition: int
    text: str
    facts: dict[str, Any]


class Events:
    """The newest events, oldest first. The broker's thread adds events, and any thread can read them.

    Attributes:
        last: The number of the newest event, or 0 before the first event.
    """

    def __init__(self) -> None:
        self._kept: deque[BrokerEvent] = deque(maxlen=MAX_EVENTS)
        self.last = 0
        self._core: Core | None = None

    def watch(self, core: Core) -> None:
        """Start collecting the events of a broker."""
        self._core = core
        core.hooks.fault_hit.subscribe(self._fault_hit)
        core.hooks.leader_moved.subscribe(self._leader_moved)
        core.hooks.log_cleaned.subscribe(self._log_cleaned)
        core.hooks.log_shortened.subscribe(self._log_shortened)
        core.hooks.misbehaved.subscribe(self._misbehaved)
        core.hooks.records_deleted.subscribe(self._records_deleted)

    def all(self) -> list[BrokerEvent]:
        """Return all events that are still stored."""
        return list(self._kept)

    def of(self, topic: str, partition: int) -> list[BrokerEvent]:
        """Return the events of one partition."""
        return [event for event in self.all() if (event.topic, event.partition) == (topic, partition)]

    def _add(self, kind: str, partition: Partition | None, text: str, before: LogShape | None = None) -> None:
        """Add an event. For a change to a log, `before` is its shape before the change."""
        assert self._core is not None
        facts: dict[str, Any] = {}
        if before is not None and partition is not None:
            facts = {"before": _outline(before), "after": _outline(shape_of(partition.log))}
        self.last += 1
        name, index = ("", -1) if partition is None else partition.key
        self._kept.append(BrokerEvent(self.last, self._core.clock.now_ms(), kind, name, index, text, facts))

    def _fault_hit(self, hit: FaultHit) -> None:
        client = hit.client_id or "a client without an id"
        self._add("fault", None, f"A fault has hit {hit.api} of {client}: {fault_text(dict(hit.fields()))}.")

    def _misbehaved(self, step: str) -> None:
        self._add("chaos", None, f"Chaos: {step}.")

    def _leader_moved(self, partition: Partition) -> None:
        leader = None if partition.leader is None else partition.leader.id
        name, index = partition.key
        text = f"{name}-{index} has no leader." if leader is None else f"Broker {leader} leads {name}-{index} now."
        self._add("leader", partition, text)

    def _log_cleaned(self, partition: Partition, before: LogShape) -> None:
        name, index = partition.key
        text = f"The cleaner has compacted {name}-{index}: {before.size} bytes before, {partition.log.size} after."
        self._add("cleaning", partition, text, before)

    def _log_shortened(self, partition: Partition, before: LogShape, segments: int) -> None:
        name, index = partition.key
        start = partition.log.log_start_offset
        text = f"Retention has removed {format_count(segments, 'segment')} of {name}-{index}: "
        text += f"the log start offset is {start}, it was {before.start}."
        self._add("retention", partition, text, before)

    def _records_deleted(self, partition: Partition, before: LogShape) -> None:
        name, index = partition.key
        start = partition.log.log_start_offset
        if start > before.start:
            text = f"DeleteRecords has moved the log start offset of {name}-{index} to {start}, it was {before.start}."
            self._add("deletion", partition, text, before)


def fault_text(fault: Mapping[str, object]) -> str:
    """Return the fields of a fault as text: "api=Produce, disconnect=after"."""
    return ", ".join(f"{name}={value}" for name, value in fault.items())


def _outline(shape: LogShape) -> dict[str, Any]:
    segments = [{"base_offset": base, "size": size} for base, size in shape.segments[:_MAX_SEGMENTS]]
    return {"start": shape.start, "size": shape.size, "count": len(shape.segments), "segments": segments}
