"""The journal: requests of clients, and their responses.

A ring of entries, the newest `capacity` of them, and at most `MAX_BYTES` of their messages. It is kept only on request
(`observer.keep_journal`), since it copies every request. It copies bytes, and decodes them when they are read
(`kept`). Of records it shows how many there were
(`message_json.RecordsSummary`); their bytes are kept only within small requests.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from minibroker.errors import OperationError
from minibroker.inspection.kept import (
    PlainRequest,
    decoded_request,
    decoded_response,
    response_of,
    size_of,
    without_records,
)
from minibroker.inspection.message_json import detached, to_json
from minibroker.names import api_matcher, matcher, suggestion, suggestion_by_end
from minibroker.requests.targets import targets_by_name
from minibroker.routing.routes import ROUTES
from minibroker.routing.slices import drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.primitives import WireType
from minibroker_protocol.schema import fields_of

with lazy:
    from minibroker.inspection import request_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from minibroker.core import Core
    from minibroker.requests.call import Call
    from minibroker.requests.declarations import Target
    from minibroker.requests.endpoints import Endpoint
    from minibroker.routing.slices import Steps
    from minibroker_storage.files import LogSlice

Moment = tuple[int, float]
"""A time by `Clock.now_ms` and by `Clock.monotonic_ms`."""

DEFAULT_CAPACITY: Final = 10_000
MAX_BYTES: Final = 64 << 20
"""Memory for messages, by estimate. The newest entry stays, however large it is."""
_MEMORY_PER_BYTE: Final = 8
"""Bytes of memory that a byte of a decoded message takes."""
_STEP: Final = 16
"""Entries that are looked at in one step: some may have to be decoded."""
LENGTH_SIZE: Final = 4
"""Bytes of a frame's length field."""


class AppliedFault(Protocol):
    """A `minibroker.Fault`, as far as the journal knows it."""

    def to_json(self) -> dict[str, Any]:
        """The fields that are given."""
        ...


class Origin:
    """The connection that requests come from, and the clock that they are timed with.

    Attributes:
        connection: both ends, "HOST:PORT-HOST:PORT", ours first.
        node: the id of the broker that is asked.
        client_host: as Kafka writes addresses, "/127.0.0.1".
        opened_after: the number of the last request before the connection's first one.
    """

    __slots__ = ("client_host", "connection", "core", "monotonic_ms", "node", "opened_after")

    def __init__(self, connection: str, node: int, client_host: str, core: Core, opened_after: int = 0) -> None:
        self.connection = connection
        self.node = node
        self.client_host = client_host
        self.opened_after = opened_after
        self.core = core
        self.monotonic_ms = core.clock.monotonic_ms


class Entry:
    """One request and its answer. Messages are decoded when they are read.

    Attributes:
        number: counts the requests since the journal was begun; 0 when none is kept and a fault has hit.
        time_ms: when it came, in ms since the epoch on the broker's clock.
        began_ms: the same on its monotonic time.
        api: the name of the API, "Produce".
        version: of the API, as the client has asked.
        bytes_in: its size, with the length field.
        fault: the fault that has hit it.
        failure: why the connection was closed over it.
        watcher: is called when it is over.
        journal: The journal that has the entry, or None.
        memory: Bytes of memory that its messages take, by estimate.
    """

    __slots__ = (
        "_answer_version",
        "_bytes_out",
        "_duration_ms",
        "_endpoint",
        "_origin",
        "_request",
        "_response",
        "_targets",
        "api",
        "began_ms",
        "bytes_in",
        "client_id",
        "correlation_id",
        "failure",
        "fault",
        "journal",
        "memory",
        "number",
        "time_ms",
        "version",
        "watcher",
    )

    def __init__(self, number: int, came: Moment, origin: Origin, bytes_in: int) -> None:
        self.number = number
        self.time_ms, self.began_ms = came
        self._origin = origin
        self.bytes_in = bytes_in
        self.client_id: str | None = None
        self.api = ""
        self.version = -1
        self.correlation_id = 0
        self._duration_ms: float | None = None
        self._bytes_out = 0
        self.fault: AppliedFault | None = None
        self.failure: str | None = None
        self.watcher: Callable[[Entry], None] | None = None
        self.journal: Journal | None = None
        self.memory = 0
        self._endpoint: Endpoint | None = None
        self._answer_version = 0
        self._request: Any = None
        self._response: Any = None
        self._targets: tuple[Target, ...] | None = ()

    def __str__(self) -> str:
        """The line of the report of a failed test (`inspection.request_lines`)."""
        return request_lines.line_of(self)

    def __repr__(self) -> str:
        return f"<{self}>"

    def keep(
        self, call: Call, version: int, correlation_id: int, request: Any, targets: tuple[Target, ...] | None
    ) -> None:
        """Keep what has come.

        Args:
            call: the request's.
            version: the version in the request. It is not that of the call if it is not served.
            correlation_id: the request's.
            request: in a form of `kept`.
            targets: None for a request that names them all itself.
        """
        self.client_id = call.client_id
        self.version = version
        self.correlation_id = correlation_id
        endpoint = self._endpoint = call.endpoint
        self.api = endpoint.api
        self._answer_version = call.api_version
        self._request = request
        self._targets = targets
        if isinstance(request, bytes):
            self._grow(len(request))
        elif isinstance(request, PlainRequest):
            self._grow(self.bytes_in - request.records_size)
        elif not isinstance(request, tuple):  # tuples have summaries of records
            self._grow(self.bytes_in * _MEMORY_PER_BYTE)

    def drop_records(self, *, copy: bool = False) -> None:
        """Keep a summary of the records, which are in memory that is used again.

        Args:
            copy: leaves the request as it is, for its handler.
        """
        if self._endpoint is not None:
            self._request = without_records(self._endpoint, self._request, copy=copy)

    def _grow(self, memory: int) -> None:
        if self.journal is not None:
            self.memory += memory
            self.journal._grow(memory)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it is our own journal

    def end(self) -> None:
        """The request is over: call the watcher, once."""
        watcher, self.watcher = self.watcher, None
        if watcher is not None:
            watcher(self)

    def fail(self, error: Exception) -> None:
        """The connection is closed over it."""
        self.failure = str(error) or type(error).__name__
        self.end()

    def finish(self, response: Any, frame: bytes, splices: Sequence[tuple[int, LogSlice]] = ()) -> None:
        """It was answered: `frame`, with `splices` of files at their places, has gone to the client.

        `response` is None if only its bytes are there.
        """
        endpoint = self._endpoint
        self._response = detached(response) if endpoint is None else response_of(endpoint, response, frame, splices)
        self._bytes_out = size_of(frame, splices)
        self._grow(len(frame))
        self._duration_ms = self._origin.monotonic_ms() - self.began_ms
        self.end()

    @property
    def duration_ms(self) -> float | None:
        """From the request to the answer, on the broker's clock; None until it was answered."""
        return self._duration_ms

    @duration_ms.setter
    def duration_ms(self, duration_ms: float | None) -> None:
        self._duration_ms = duration_ms

    @property
    def bytes_out(self) -> int:
        """The size of the answer with its length field; 0 when nothing was sent."""
        return self._bytes_out

    @bytes_out.setter
    def bytes_out(self, bytes_out: int) -> None:
        self._bytes_out = bytes_out

    @property
    def connection(self) -> str:
        """Both ends, "HOST:PORT-HOST:PORT", ours first."""
        return self._origin.connection

    @property
    def opened_after(self) -> int:
        """The number of the last request before the first one of this connection."""
        return self._origin.opened_after

    @property
    def node(self) -> int:
        """The id of the broker that was asked."""
        return self._origin.node

    @property
    def client_host(self) -> str:
        """The client's address as Kafka writes it, "/127.0.0.1"."""
        return self._origin.client_host

    @property
    def request(self) -> Any:
        """The request without record bytes; None when it could not be decoded."""
        if self._endpoint is not None:
            self._request = decoded_request(self._endpoint, self._request)
        return self._request

    @property
    def response(self) -> Any:
        """The response without record bytes; None while there is none, and when there will be none."""
        if self._endpoint is not None:
            self._response = decoded_response(self._endpoint, self._answer_version, self._response)
        return self._response

    @response.setter
    def response(self, response: Any) -> None:
        self._response = response

    @property
    def targets(self) -> tuple[Target, ...]:
        """The topics, partitions, groups and transactional ids that it names."""
        targets = self._targets
        if targets is None:
            assert self._endpoint is not None
            targets = self._targets = targets_by_name(self._endpoint.names, self.request, self._origin.core)
        return targets

    @property
    def is_answered(self) -> bool:
        """Has an answer been sent?"""
        return self.bytes_out > 0

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it names."""
        return frozenset(each.topic for each in self.targets if each.topic is not None)

    @property
    def groups(self) -> frozenset[str]:
        """The groups that it names."""
        return frozenset(each.group for each in self.targets if each.group is not None)

    @property
    def error_codes(self) -> frozenset[ErrorCode]:
        """The errors in the response; empty while there is none."""
        return frozenset(ErrorCode(code) for code in error_codes_of(self.response))

    def to_json(self) -> dict[str, Any]:
        """The entry as `json.dumps` takes it; messages have Kafka's own field names."""
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
            "failure": self.failure,
        }


def error_codes_of(message: Any) -> Iterator[int]:
    """Every error code in a message, also those within the elements of its arrays."""
    if message is None:
        return
    codes, arrays = _error_places(message.__class__)
    for name in codes:
        if code := getattr(message, name):
            yield code
    for name in arrays:
        for each in getattr(message, name) or ():
            yield from error_codes_of(each)


@cache
def _error_places(cls: type[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a class's error codes, and of the arrays with such in their elements."""
    names = fields_of(cls)
    codes = tuple(each.name for each in names if each.name.endswith("error_code"))
    return codes, tuple(each.name for each in names if each.is_array and _has_errors(each.kind))


def _has_errors(kind: Any) -> bool:
    return not isinstance(kind, WireType) and any(_error_places(kind))


class Journal:
    """The newest entries, oldest first."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} is not at least 1")
        self._entries: deque[Entry] = deque()
        self._capacity = capacity
        self._memory = 0
        self._count = 0
        self._cleared_after = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    @property
    def count(self) -> int:
        """The number of requests so far, with those that are no longer kept."""
        return self._count

    def add(self, entry: Entry) -> None:
        """Keep an entry, and give it a number.

        The oldest one goes when there is no room.
        """
        self._count = entry.number = self._count + 1
        self._entries.append(entry)
        entry.journal = self
        if len(self._entries) > self._capacity:
            self._drop_oldest()

    def _grow(self, memory: int) -> None:
        """Count the memory of an entry's message; the oldest entries go when there is no room."""
        self._memory += memory
        while self._memory > MAX_BYTES and len(self._entries) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        entry = self._entries.popleft()
        self._memory -= entry.memory
        entry.journal = None

    @property
    def cleared_after(self) -> int:
        """The number of the last request before the last `clear`; 0 if there was none."""
        return self._cleared_after

    def clear(self) -> None:
        """Forget the entries; numbers go on."""
        while self._entries:
            self._drop_oldest()
        self._cleared_after = self._count

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
        """The entries that fit all that is given; names may have the wildcards * and ?.

        `after` leaves out those up to a number. ValueError for an error, and OperationError for an API, that Kafka does
        not have.
        """
        fitting = self.find(api=api, client_id=client_id, topic=topic, group=group, error=error, after=after)
        return drain(fitting)

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
        """`entries` in steps, for a server with other clients."""
        is_api = None if api is None else matcher_of_apis(api)
        is_client, is_topic, is_group = (None if each is None else matcher(each) for each in (client_id, topic, group))
        code = None if error is None else error_code(error)
        found: list[Entry] = []
        for count, each in enumerate(tuple(self._entries), 1):
            if (
                each.number > after
                and (is_api is None or is_api(each.api))
                and (is_client is None or is_client(each.client_id or ""))
                and (is_topic is None or any(map(is_topic, each.topics)))
                and (is_group is None or any(map(is_group, each.groups)))
                and (code is None or code in each.error_codes)
            ):
                found.append(each)
            if not count % _STEP:
                yield
        return found


def matcher_of_apis(pattern: str) -> Callable[[str], bool]:
    """A test for names of APIs. OperationError for a pattern that none of those that are served fits."""
    is_api = api_matcher(pattern)
    known = [route.message for route in ROUTES]
    if not any(map(is_api, known)):
        hint = suggestion(pattern, known) or f"; there are {', '.join(known)}"
        raise OperationError(f"api: {pattern!r} is not an API of Kafka{hint}")
    return is_api


def error_code(error: object) -> ErrorCode:
    """An error by its name or number. ValueError for one that Kafka does not have."""
    try:
        if isinstance(error, str):
            return ErrorCode[error]
        if isinstance(error, int) and not isinstance(error, bool):
            return ErrorCode(error)
    except (KeyError, ValueError):
        pass
    hint = ""
    if isinstance(error, str):
        names = [each.name for each in ErrorCode]
        hint = suggestion(error.upper(), names) or suggestion_by_end(error.upper(), names)
    raise ValueError(f"error: {error!r} is neither the name nor the number of one of Kafka's errors{hint}")
