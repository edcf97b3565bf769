"""The journal: the newest requests of clients with their responses, for tests and people.

It is a view of the ring of exchanges that `inspection.recording` fills: the newest `capacity` exchanges, with
at most 64 MiB of their messages. Messages are decoded on demand. Records are summarized
(`message_json.RecordsSummary`). Only small requests keep the bytes of records.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from minibroker.cluster.errors import OperationError
from minibroker.cluster.routing.routes import ROUTES
from minibroker.cluster.routing.slices import drain
from minibroker.config.names import api_matcher, matcher, suggestion, suggestion_by_end
from minibroker.server.inspection.exchanges import Exchange, Kind
from minibroker.server.inspection.message_forms import decode_request, decode_response, kept_records
from minibroker.server.inspection.message_json import to_json
from minibroker.server.requests.targets import targets_by_name
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.primitives import WireType
from minibroker_protocol.schema import fields_of

with lazy:
    from minibroker.server.inspection import request_lines
    from minibroker_protocol.records import batch as record_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from minibroker.cluster.routing.slices import Steps
    from minibroker.server.inspection.exchanges import Ring
    from minibroker.server.inspection.recording import BrokerConnection
    from minibroker.server.requests.declarations import Target
    from minibroker_protocol.records.record import Record

DEFAULT_CAPACITY: Final = 10_000
_MAX_KEPT_TARGETS: Final = 16
"""The maximum number of targets that an entry caches. Others are read from the request each time."""
_ENTRIES_PER_STEP: Final = 16
"""The number of entries checked in one step, since some may have to be decoded."""


class Entry(Exchange):
    """One request and its response. `inspection.recording` sets the attributes.

    Each access to a message decodes it again. The memory of such copies is not limited.

    Attributes:
        number: The number of the request since the start of the journal. On a broker with a page all requests are
            counted, and the page shows the same numbers. A fault's hit without a journal has the number of the
            request since the first fault.
        client_id: The client id that the client sent.
        bytes_in: The size of the request, with the length field.
        bytes_out: The size of the response with the length field, or 0 if none was sent.
        fault: The fault that hit the request.
        chaos: The step of chaos at the request.
        failure: The reason why the request closed the connection, or None.
    """

    origin: BrokerConnection  # pyright: ignore[reportIncompatibleVariableOverride]  # every entry has this type
    fault: Any = None  # The type is Fault, which belongs to a higher layer and cannot be imported here.
    chaos: Any = None  # The type is Step, for the same reason.
    _endpoint: Any = None  # The type is Endpoint, which belongs to a higher layer and cannot be imported here.
    client_id: str | None = None
    _request_form: Any = None
    _response_form: Any = None
    _targets: tuple[Target, ...] | None = None
    _error_codes: frozenset[ErrorCode] | None = None

    def __str__(self) -> str:
        """Return the entry as a line in the report of a failed test (`inspection.request_lines`)."""
        return request_lines.line_of(self)

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def api(self) -> str:
        """The name of the API, such as "Produce", or empty for a request without a header."""
        if self._endpoint is not None:
            return str(self._endpoint.api)
        try:
            return ApiKey(self.api_key).message
        except ValueError:
            return "" if self.api_key < 0 else str(self.api_key)

    @property
    def duration_ms(self) -> float | None:
        """The time from the request to the response on the broker's clock, or None before the response."""
        return None if self.ended_ms is None else self.ended_ms - self.began_ms

    @property
    def connection(self) -> str:
        """Both ends of the connection as "HOST:PORT-HOST:PORT", the broker's end first."""
        return f"{self.origin.address}-{self.origin.client}"

    @property
    def opened_after(self) -> int:
        """The number of the last request before the connection's first one."""
        return self.origin.opened_after

    @property
    def node(self) -> int:
        """The id of the broker that received the request."""
        return self.origin.node

    @property
    def client_host(self) -> str:
        """The client's address in Kafka's format, such as "/127.0.0.1"."""
        return self.origin.client_host

    @property
    def request(self) -> Any:
        """The request without record bytes, or None if it could not be decoded."""
        return None if self._endpoint is None else decode_request(self._endpoint, self._request_form)

    @property
    def response(self) -> Any:
        """The response without record bytes, or None if there is none."""
        return None if self._endpoint is None else decode_response(self._endpoint, self.version, self._response_form)

    def records(self) -> Iterator[Record]:
        """Yield the records of a small request, and those of its response if the broker has schemas."""
        if self._endpoint is None:
            return
        with contextlib.suppress(DecodeError):  # A client may send anything.
            for data in kept_records(self._endpoint, self._request_form, self._response_form):
                for batch in record_batch.iter_batches(data):
                    if not batch.header.is_control:
                        yield from batch

    @property
    def targets(self) -> tuple[Target, ...]:
        """The topics, partitions, groups and transactional ids that the request names."""
        targets = self._targets
        if targets is not None or self._endpoint is None:
            return targets or ()
        targets = targets_by_name(self._endpoint.names, self.request, self.origin.core)
        if len(targets) <= _MAX_KEPT_TARGETS:
            self._targets = targets
        return targets

    @property
    def is_answered(self) -> bool:
        """Whether a response was sent."""
        return self.bytes_out > 0

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the request names."""
        return frozenset(target.topic for target in self.targets if target.topic is not None)

    @property
    def groups(self) -> frozenset[str]:
        """The groups that the request names."""
        return frozenset(target.group for target in self.targets if target.group is not None)

    @property
    def error_codes(self) -> frozenset[ErrorCode]:
        """The errors in the response, empty without a response."""
        codes = self._error_codes
        if codes is None:
            codes = frozenset(ErrorCode(code) for code in error_codes_of(self.response))
            if self.is_answered:
                self._error_codes = codes
        return codes

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a value for `json.dumps`. Messages have Kafka's own field names."""
        return {
            "number": self.number,
            "time": self.time_ms,
            "connection": self.connection,
            "node": self.node,
            "clientHost": self.client_host,
            "clientId": self.client_id,
            "api": self.api,
            "version": self.version,
            "correlationId": self.correlation_id,
            "request": to_json(self.request, self.version),
            "response": to_json(self.response, self.version),
            "errors": sorted(code.name for code in self.error_codes),
            "durationMs": self.duration_ms,
            "bytesIn": self.bytes_in,
            "bytesOut": self.bytes_out,
            "fault": None if self.fault is None else self.fault.to_json(),
            "chaos": None if self.chaos is None else str(self.chaos),
            "failure": self.failure,
        }


def error_codes_of(message: Any) -> Iterator[int]:
    """Yield every error code in a message, including those in the elements of its arrays."""
    if message is None:
        return
    codes, arrays = _error_fields(message.__class__)
    for name in codes:
        if code := getattr(message, name):
            yield code
    for name in arrays:
        for element in getattr(message, name) or ():
            yield from error_codes_of(element)


@cache
def _error_fields(cls: type[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a class's error code fields, and of its array fields whose elements contain error codes."""
    fields = fields_of(cls)
    codes = tuple(field.name for field in fields if field.name.endswith("error_code"))
    return codes, tuple(field.name for field in fields if field.is_array and _has_errors(field.kind))


def _has_errors(kind: Any) -> bool:
    return not isinstance(kind, WireType) and any(_error_fields(kind))


class Journal:
    """The newest requests, oldest first.

    Args:
        ring: The ring of exchanges. Exchanges from before the start of the journal are ignored.
        capacity: The maximum number of entries.
        owns_ring: False if the ring belongs to a page.

    Attributes:
        cleared_after: The number of the last request before the last `clear`, or 0 if there was none.
    """

    def __init__(self, ring: Ring[Entry], capacity: int, *, owns_ring: bool) -> None:
        self._ring = ring
        self._capacity = capacity
        self._owns_ring = owns_ring
        self._begins_after = ring.last
        self.cleared_after = 0

    def __len__(self) -> int:
        return len(self._entries())

    def __call__(self, *_: object, **criteria: object) -> NoReturn:
        """Raise TypeError, with the method that filters."""
        given = ", ".join(f"{name}={value!r}" for name, value in criteria.items()) or "api='Produce'"
        raise TypeError(f"the journal is no function: `requests.entries({given})` returns what matches")

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries())

    def find_first_number(self) -> int:
        """Return the smallest number that an entry can have. That entry may have been dropped already."""
        return max(self._begins_after, self.cleared_after, self._ring.last - self._capacity) + 1

    def _entries(self) -> list[Entry]:
        exchanges = self._ring.between(self.find_first_number(), self._ring.last)
        return [entry for entry in exchanges if entry.kind is not Kind.TOKEN]

    @property
    def count(self) -> int:
        """The number of the newest request. Requests whose entries were dropped are counted, too."""
        return self._ring.last

    def clear(self) -> None:
        """Drop all entries. Numbering continues."""
        self.cleared_after = self._ring.last
        if self._owns_ring:
            self._ring.clear()

    def entries(
        self,
        *,
        api: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        error: ErrorCode | str | int | None = None,
        after: int = 0,
    ) -> list[Entry]:
        """Return the entries that match all given criteria. Names may have the wildcards * and ?.

        `after` excludes entries up to this number.

        Raises:
            ValueError: Kafka has no such error.
            OperationError: Kafka has no such API.
        """
        return drain(self.find(api=api, client_id=client_id, topic=topic, group=group, error=error, after=after))

    def find(
        self,
        *,
        api: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        error: ErrorCode | str | int | None = None,
        after: int = 0,
    ) -> Steps[list[Entry]]:
        """Like entries(), but in steps, so that a server can serve other clients in between."""
        is_api = None if api is None else matcher_of_apis(api)
        is_client, is_topic, is_group = (None if name is None else matcher(name) for name in (client_id, topic, group))
        code = None if error is None else error_code(error)
        matches: list[Entry] = []
        for count, entry in enumerate(self._entries(), 1):
            if (
                entry.number > after
                and (is_api is None or is_api(entry.api))
                and (is_client is None or is_client(entry.client_id or ""))
                and (is_topic is None or any(map(is_topic, entry.topics)))
                and (is_group is None or any(map(is_group, entry.groups)))
                and (code is None or code in entry.error_codes)
            ):
                matches.append(entry)
            if not count % _ENTRIES_PER_STEP:
                yield
        return matches


def matcher_of_apis(pattern: str) -> Callable[[str], bool]:
    """Return a predicate that matches the names of APIs.

    Raises:
        OperationError: The pattern matches no served API.
    """
    is_api = api_matcher(pattern)
    api_names = [route.message for route in ROUTES]
    if not any(map(is_api, api_names)):
        hint = suggestion(pattern, api_names) or f"; there are {', '.join(api_names)}"
        raise OperationError(f"api: {pattern!r} is not an API of Kafka{hint}")
    return is_api


def error_code(error: object) -> ErrorCode:
    """Return an error code by its name or number.

    Raises:
        ValueError: Kafka has no such error.
    """
    try:
        if isinstance(error, str):
            return ErrorCode[error]
        if isinstance(error, int) and not isinstance(error, bool):
            return ErrorCode(error)
    except (KeyError, ValueError):
        pass
    hint = ""
    if isinstance(error, str):
        names = [code.name for code in ErrorCode]
        hint = suggestion(error.upper(), names) or suggestion_by_end(error.upper(), names)
    raise ValueError(f"error: {error!r} is neither the name nor the number of one of Kafka's errors{hint}")
