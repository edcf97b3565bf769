"""Rows of the list of requests: an exchange in a few words, made when the page shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.server.faults.fault import ACTIONS
from minibroker.server.inspection.exchanges import Kind
from minibroker.server.inspection.journal import Entry
from minibroker_lab.page.events import fault_words
from minibroker_lab.trace.lines import about_of, outcome_of
from minibroker_lab.trace.reading import KnownTopics, name_of, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from minibroker.cluster.core import Core
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.trace.reading import Reading

_LONGEST: Final = 160
_MOST_APIS: Final = 500
WAITING: Final = "waiting"
_EFFECTS: Final = {*ACTIONS, "delay_ms"}


class Topics(KnownTopics):
    """The names of topics by their ids: from the broker, or from responses."""

    core: Core | None = None

    def with_id(self, topic_id: bytes) -> Any:
        """The topic with this id; None for one that is not known."""
        known = None if self.core is None else self.core.topics.with_id(topic_id)
        return known or super().with_id(topic_id)


class Row(NamedTuple):
    """One line of the list.

    Attributes:
        state: "ok", "error", "waiting" for its response, or "none" for no response.
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
    """A choice of rows.

    Attributes:
        api: the name of an API; empty for all.
        words: texts that all stand somewhere in the row, in any case.
        only_errors: rows whose response has an error.
    """

    api: str = ""
    words: tuple[str, ...] = ()
    only_errors: bool = False

    @property
    def is_open(self) -> bool:
        """Whether all rows pass."""
        return self == Filter()

    def may_pass(self, exchange: Exchange) -> bool:
        """Whether an exchange has to be decoded to find out."""
        return not self.api or exchange.kind is not Kind.REQUEST or name_of(exchange.api_key) == self.api

    def passes(self, row: Row) -> bool:
        """Whether a row is chosen."""
        if (self.api and row.api != self.api) or (self.only_errors and row.state not in {"error", "none"}):
            return False
        if not self.words:
            return True
        text = f"{row.number} {row.api} v{row.version} {row.client_id} {row.client} {row.about} {row.outcome}".lower()
        return all(word in text for word in self.words)


def filter_of(api: str, text: str, *, only_errors: bool) -> Filter:
    """The filter for what a user has typed."""
    return Filter(api, tuple(text.lower().split()), only_errors)


class Rows:
    """Makes rows, and keeps those of exchanges that are over.

    Args:
        core: of the broker, which has the names of topics; None for a proxy.

    Attributes:
        apis: the names of the APIs of all requests.
        topics: the names of topics by their ids.
    """

    def __init__(self, core: Core | None = None) -> None:
        self.apis: set[str] = set()
        self._keys: set[int] = set()
        self.topics = Topics()
        self.topics.core = core
        self._made: dict[int, Row] = {}

    @property
    def core(self) -> Core | None:
        """The broker that knows the names of topics."""
        return self.topics.core

    def meet(self, exchange: Exchange) -> None:
        """An exchange has begun."""
        if exchange.api_key not in self._keys and exchange.kind is Kind.REQUEST and len(self._keys) < _MOST_APIS:
            self._keys.add(exchange.api_key)
            self.apis.add(name_of(exchange.api_key))

    def row(self, exchange: Exchange) -> Row:
        """The row of an exchange."""
        made = self._made.get(exchange.number)
        if made is None:
            made = self._made[exchange.number] = self._make(exchange)
        return made

    def reading(self, exchange: Exchange) -> Reading:
        """An exchange decoded."""
        return read(exchange, self.topics)

    def fault_of(self, exchange: Exchange) -> Mapping[str, Any] | None:
        """The fields of the fault that has hit a request; None for none."""
        fault = exchange.fault if isinstance(exchange, Entry) else None
        return None if fault is None else fault.to_json()

    def forget(self, number: int) -> None:
        """An exchange has changed, or has gone."""
        self._made.pop(number, None)

    def _make(self, exchange: Exchange) -> Row:
        reading = self.reading(exchange)
        duration = None if exchange.ended_ms is None else round(exchange.ended_ms - exchange.began_ms, 3)
        outcome, state = _outcome(exchange, reading)
        if exchange.loss is not None and (fault := self.fault_of(exchange)) is not None:
            effect = {name: value for name, value in fault.items() if name in _EFFECTS}
            outcome = f"{fault_words(effect)} of a fault: {outcome}"  # a narrow list shows the beginning
        return Row(
            exchange.number,
            exchange.time_ms,
            reading.api,
            exchange.version,
            reading.client_id,
            exchange.client,
            exchange.broker,
            _short(about_of(reading)),
            _short(outcome),
            state,
            duration,
            exchange.bytes_in,
            exchange.bytes_out,
        )


def _outcome(exchange: Exchange, reading: Reading) -> tuple[str, str]:
    if exchange.loss is not None:
        return exchange.loss, "none"
    if exchange.kind is Kind.UNREADABLE:
        return "unreadable", "none"
    if not exchange.bytes_out:
        return (WAITING, WAITING) if exchange.expects_response else ("no response asked for", "ok")
    if reading.response is None:
        return "answered", "ok"
    return outcome_of(reading), "error" if reading.errors else "ok"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def row_json(row: Row) -> dict[str, Any]:
    """A row as JSON."""
    return row._asdict()
