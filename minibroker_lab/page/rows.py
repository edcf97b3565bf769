"""Rows of the request list: short descriptions of exchanges, created when the page shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.server.faults.fault import ACTIONS
from minibroker.server.inspection.exchanges import Kind
from minibroker.server.inspection.journal import Entry
from minibroker_lab.page.events import fault_text
from minibroker_lab.reading import KnownTopics, name_of, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from minibroker.cluster.core import Core
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.reading import Reading

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
