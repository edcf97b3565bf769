"""Rows of the page's lists: short descriptions of exchanges, created when they are shown, and the broker's events."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.operations.wording import format_count
from minibroker.server.faults.fault import ACTIONS
from minibroker.server.inspection.exchanges import Kind
from minibroker.server.inspection.journal import Entry
from minibroker_lab.reading import KnownTopics, name_of, read
from minibroker_storage.log import shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from minibroker.cluster.core import Core
    from minibroker.cluster.hooks import FaultHit
    from minibroker.cluster.partition import Partition
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.reading import Reading
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


_LONGEST: Final = 160
_MAX_APIS: Final = 500
WAITING: Final = "waiting"
_EFFECTS: Final = {*ACTIONS, "delay_ms"}


class Topics(KnownTopics):
    """The names of topics by id, from the broker or from recorded responses."""

    def __init__(self, core: Core | None) -> None:
        super().__init__()
        self.core = core

    def with_id(self, topic_id: bytes) -> Any:
        """Return the topic with this id, or None if it is unknown."""
        known_topic = None if self.core is None else self.core.topics.with_id(topic_id)
        return known_topic or super().with_id(topic_id)


class Row(NamedTuple):
    """One line of the request list.

    Attributes:
        state: "ok", "error", "waiting" for a response, or "none" if there is no response.
    """

    number: int
    time: int
    api: str
    version: int
    client_id: str | None
    client: str
    broker: str
    about: str
    outcome: str
    state: str
    duration_ms: float | None
    bytes_in: int
    bytes_out: int


class Filter(NamedTuple):
    """A filter of the request list.

    Attributes:
        api: The name of an API, or an empty string for all APIs.
        words: Words that must all occur in the row, ignoring case.
        only_errors: Whether to show only rows without a response or with an error in it.
    """

    api: str = ""
    words: tuple[str, ...] = ()
    only_errors: bool = False

    @property
    def accepts_all(self) -> bool:
        """Whether the filter accepts every row."""
        return self == Filter()

    def can_match(self, exchange: Exchange) -> bool:
        """Return False if an exchange can be ruled out without decoding it."""
        return not self.api or exchange.kind is not Kind.REQUEST or name_of(exchange.api_key) == self.api

    def matches(self, row: Row) -> bool:
        """Return whether a row matches."""
        if (self.api and row.api != self.api) or (self.only_errors and row.state not in {"error", "none"}):
            return False
        if not self.words:
            return True
        text = f"{row.number} {row.api} v{row.version} {row.client_id} {row.client} {row.about} {row.outcome}".lower()
        return all(word in text for word in self.words)


class Rows:
    """Makes the rows of exchanges, and caches the rows of completed exchanges.

    Args:
        core: The broker's core, which has the names of topics, or None for a proxy.

    Attributes:
        api_keys: The API keys of all requests, at most 500.
        topics: The names of topics by id.
    """

    def __init__(self, core: Core | None = None) -> None:
        self.api_keys: set[int] = set()
        self.topics = Topics(core)
        self._made: dict[int, Row] = {}

    def add_api(self, exchange: Exchange) -> None:
        """Record the API of a new exchange."""
        if exchange.kind is Kind.REQUEST and len(self.api_keys) < _MAX_APIS:
            self.api_keys.add(exchange.api_key)

    def row(self, exchange: Exchange) -> Row:
        """Return the row of an exchange."""
        row = self._made.get(exchange.number)
        if row is None:
            row = self._made[exchange.number] = self._make(exchange)
        return row

    def reading(self, exchange: Exchange) -> Reading:
        """Return the decoded exchange."""
        return read(exchange, self.topics)

    def fault_of(self, exchange: Exchange) -> Mapping[str, Any] | None:
        """Return the fields of the fault that hit a request, or None."""
        fault = exchange.fault if isinstance(exchange, Entry) else None
        return None if fault is None else fault.to_json()

    def forget(self, number: int) -> None:
        """Discard the cached row of an exchange that has changed or was dropped."""
        self._made.pop(number, None)

    def _make(self, exchange: Exchange) -> Row:
        reading = self.reading(exchange)
        duration = None if exchange.ended_ms is None else round(exchange.ended_ms - exchange.began_ms, 3)
        outcome, state = _describe_outcome(exchange, reading)
        if exchange.loss is not None and (fault := self.fault_of(exchange)) is not None:
            effect = {name: value for name, value in fault.items() if name in _EFFECTS}
            # The fault comes first, because narrow lists cut off the end of the text.
            outcome = f"{fault_text(effect)} of a fault: {outcome}"
        return Row(
            exchange.number,
            exchange.time_ms,
            reading.api,
            exchange.version,
            reading.client_id,
            exchange.client,
            exchange.broker,
            _shorten(reading.about),
            _shorten(outcome),
            state,
            duration,
            exchange.bytes_in,
            exchange.bytes_out,
        )


def _describe_outcome(exchange: Exchange, reading: Reading) -> tuple[str, str]:
    if exchange.loss is not None:
        return exchange.loss, "none"
    if exchange.kind is Kind.UNREADABLE:
        return "unreadable", "none"
    if not exchange.bytes_out:
        return (WAITING, WAITING) if exchange.expects_response else ("no response asked for", "ok")
    if reading.response is None:
        return "answered", "ok"
    return reading.outcome, "error" if reading.errors else "ok"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
