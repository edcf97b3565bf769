"""Faults: which requests they match, how often they fire, and what effect they have.

A fault is a plain data object whose constructor validates its fields. A FaultError names the invalid field and its
value.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NamedTuple, cast

from minibroker.cluster.errors import OperationError, is_the_callers
from minibroker.cluster.routing.routes import ROUTES
from minibroker.config.documents import read_document
from minibroker.config.names import matcher, suggestion
from minibroker.server.inspection.journal import Entry, error_code, matcher_of_apis
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.endpoints import endpoint, find_endpoint
from minibroker.server.requests.targets import target_fields
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.schema import VersionRange

Corruption = Literal["records", "body", "correlation_id", "length"]

_MAX_HITS: Final = 1000
_NAMES: Final = ("client_id", "topic", "group", "transactional_id")
_TARGETS: Final = ("topic", "partition", "group", "transactional_id")
_WHEN: Final = ("before", "after")
_CORRUPTIONS: Final = ("records", "body", "correlation_id", "length")
ACTIONS: Final = (
    "error",
    "drop",
    "disconnect",
    "late",
    "black_hole",
    "truncate",
    "corrupt",
    "stale_metadata",
    "fetch_bytes",
)
"""A fault has at most one of these. The `_MODIFIERS` can be used alone or with some of them."""
_MODIFIERS: Final = ("delay_ms", "jitter_ms", "throttle_ms", "bytes_per_second", "slice_bytes")
_OF_WHOLE_ANSWERS: Final = ("throttle_ms", "bytes_per_second", "slice_bytes")
_INTEGERS: Final[dict[str, int | None]] = {
    "partition": 0,
    "node": 0,
    "nth": 1,
    "after": 0,
    "times": 1,
    "seed": None,
    "late": 1,
    "truncate": 0,
    "stale_metadata": 1,
    "fetch_bytes": 0,
    "throttle_ms": 1,
    "bytes_per_second": 1,
    "slice_bytes": 1,
}
"""The minimum of each integer field."""
_REGISTRY: Final = "registry"
_OF_REGISTRY: Final = frozenset(
    {"api", "nth", "after", "times", "probability", "seed", "error", "delay_ms", "jitter_ms"}
)
"""The fields that have a meaning for the schema registry."""
_MAX_INTEGER: Final = 2**31 - 1

__tracebackhide__ = is_the_callers


class FaultError(OperationError):
    """An invalid fault. The message begins with the name of the field."""


FaultError.__module__ = "minibroker"  # from which users import it


class RequestContext(NamedTuple):
    """The properties of a request that faults are matched against."""

    api: str
    version: int
    client_id: str | None
    node: int
    targets: tuple[Target, ...]


@dataclass(kw_only=True, eq=False)
class Fault:
    """A fault: its effect, the requests it matches, and how often it fires. `faults.fields` describes each field.

    Attributes:
        fired: The number of requests that the fault has hit.
        hits: The journal entries of the last 1000 requests that the fault hit. They are kept even without a
            journal.
    """

    api: str | None = None
    versions: str | int | None = None
    node: int | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    nth: int | None = None
    after: int | None = None
    times: int | None = None
    probability: float | None = None
    seed: int | None = None
    error: ErrorCode | str | int | None = None
    applied: bool | None = None
    drop: Literal["before", "after"] | None = None
    disconnect: Literal["before", "after"] | None = None
    late: int | None = None
    black_hole: bool | None = None
    truncate: int | None = None
    corrupt: Corruption | None = None
    stale_metadata: int | None = None
    fetch_bytes: int | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    throttle_ms: int | None = None
    bytes_per_second: int | None = None
    slice_bytes: int | None = None

    def __post_init__(self) -> None:
        self.hits: deque[Entry] = deque(maxlen=_MAX_HITS)
        self.fired = 0
        #: Whether `delay_ms` delays the request rather than its response. Chaos sets it.
        self.delays_request = False
        self._matched = 0
        self._check_types()
        #: Whether the fault hits requests to the schema registry, whose API is a method and a path.
        self.is_for_registry = self.api is not None and ("/" in self.api or self.api.lower() == _REGISTRY)
        try:
            self._is_api = None if self.api is None else self._match_api(self.api)
        except OperationError as error:
            raise FaultError(str(error)) from None
        #: The API versions that the fault applies to, or None for all.
        self.version_range = None if self.versions is None else _version_range(self.versions)
        if self.is_for_registry:
            self._check_for_registry()
        else:
            self._check_api()
            self._check_actions()
        self._is_named = {name: None if (text := getattr(self, name)) is None else matcher(text) for name in _NAMES}
        self._random = random.Random(self.seed)  # noqa: S311 - not used for secrets

    def __repr__(self) -> str:
        return f"Fault({', '.join(f'{name}={value!r}' for name, value in self.to_json().items())})"

    def _check_types(self) -> None:
        for name in ("api", *_NAMES):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise FaultError(f"{name}: {value!r} is not a text")
        for name, minimum in _INTEGERS.items():
            _check_integer(name, getattr(self, name), minimum)
        _check_number("probability", self.probability, 1)
        _check_number("delay_ms", self.delay_ms, _MAX_INTEGER)
        _check_number("jitter_ms", self.jitter_ms, _MAX_INTEGER)
        for name, allowed in (("drop", _WHEN), ("disconnect", _WHEN), ("corrupt", _CORRUPTIONS)):
            _check_word(name, getattr(self, name), allowed)
        for name in ("applied", "black_hole"):
            if getattr(self, name) not in {None, True}:
                raise FaultError(f"{name}: {getattr(self, name)!r} is not true")
        if self.nth is not None:
            for name in ("after", "times"):
                if getattr(self, name) is not None:
                    raise FaultError(f"{name}: {getattr(self, name)!r} cannot be given with nth, which is one request")
        if self.seed is not None and self.probability is None and self.jitter_ms is None:
            raise FaultError(f"seed: {self.seed!r} has no meaning without probability or jitter_ms")

    def _match_api(self, pattern: str) -> Callable[[str], bool]:
        if not self.is_for_registry:
            return matcher_of_apis(pattern)
        return matcher("* /*" if "/" not in pattern else f"* {pattern}" if pattern.startswith("/") else pattern)

    def _check_for_registry(self) -> None:
        for name in self.to_json():
            if name not in _OF_REGISTRY:
                raise FaultError(f"{name}: the schema registry has no such fault; give error, delay_ms or jitter_ms")
        if self.error is None and self.delay_ms is None and self.jitter_ms is None:
            raise FaultError("the fault has no effect; give one of error, delay_ms, jitter_ms")
        if self.error is not None and not (isinstance(self.error, int) and self.http_status in range(400, 600)):
            raise FaultError(f"error: {self.error!r} is neither an HTTP status, such as 503, nor a code, such as 40403")

    @property
    def http_status(self) -> int:
        """The HTTP status for `error`, which may be a code of the schema registry. Its first digits are the status."""
        assert isinstance(self.error, int)
        return int(str(int(self.error))[:3])

    def _check_api(self) -> None:
        apis = [route for route in ROUTES if self.is_for(route.message)]
        for name in _TARGETS:
            value = getattr(self, name)
            if value is not None and not any(name in target_fields(endpoint(route.key)) for route in apis):
                raise FaultError(f"{name}: {value!r} never matches, since {self.api} names none")

    def _check_actions(self) -> None:
        actions = [name for name in ACTIONS if getattr(self, name) is not None]
        if not actions and all(getattr(self, name) is None for name in _MODIFIERS):
            raise FaultError(f"the fault has no effect; give one of {', '.join((*ACTIONS, *_MODIFIERS))}")
        if len(actions) > 1:
            raise FaultError(
                f"{actions[1]}: {getattr(self, actions[1])!r} cannot go with the field {actions[0]}; leave one out"
            )
        required_apis = self._required_apis
        if required_apis and (self._is_api is None or not any(map(self._is_api, required_apis))):
            raise FaultError(
                f"{actions[0]}: {getattr(self, actions[0])!r} needs api={required_apis[0]!r}, not {self.api!r}"
            )
        if self.applied and self.error is None:
            raise FaultError(f"applied: {self.applied!r} has no meaning without error")
        is_whole = not actions or actions[0] in {"error", "stale_metadata", "fetch_bytes"}
        for name in _OF_WHOLE_ANSWERS:
            if not is_whole and getattr(self, name) is not None:
                raise FaultError(
                    f"{name}: {getattr(self, name)!r} cannot go with {actions[0]}, which leaves no answer whole"
                )
        if self.error is not None:
            try:
                self.error = error_code(self.error)
            except ValueError as error:
                raise FaultError(str(error)) from None
            if self.error is ErrorCode.NONE:
                raise FaultError("error: NONE is not an error")

    @property
    def _required_apis(self) -> tuple[str, ...]:
        """The APIs that the fault's action is for, or () for all."""
        if self.fetch_bytes is not None:
            return "Fetch", "ShareFetch"
        return ("Fetch",) if self.corrupt == "records" else ("Metadata",) if self.stale_metadata else ()

    @property
    def action(self) -> str | None:
        """The fault's action from `ACTIONS`, or None if it only changes when the response is sent."""
        return next((name for name in ACTIONS if getattr(self, name) is not None), None)

    @property
    def is_partial(self) -> bool:
        """Whether the fault names a topic or a partition, so that the other parts of a request are served."""
        return self.topic is not None or self.partition is not None

    def is_for(self, api: str) -> bool:
        """Return whether the fault applies to requests of this API."""
        return "/" not in api if self._is_api is None else self._is_api(api)

    def applies_to(self, target: Target) -> bool:
        """Return whether the fault applies to this target of a request."""
        if self.partition is not None and target.partition not in {self.partition, None}:
            return False
        if self.partition is not None and target.topic is None:
            return False
        for name in ("topic", "group", "transactional_id"):
            matches = self._is_named[name]
            if matches is not None and ((value := getattr(target, name)) is None or not matches(value)):
                return False
        return True

    def matches(self, context: RequestContext) -> bool:
        """Return whether the fault matches a request, regardless of how often it has fired."""
        return (
            self.is_for(context.api)
            and (self.version_range is None or context.version in self.version_range)
            and (self.node is None or self.node == context.node)
            and ((is_client := self._is_named["client_id"]) is None or is_client(context.client_id or ""))
            and (not self._required_apis or context.api in self._required_apis)
            and (self.partition is None or "partition" in target_fields(find_endpoint(context.api)))
            and any(map(self.applies_to, context.targets))
        )

    def is_due(self, context: RequestContext) -> bool:
        """Return whether the fault hits this request. A matching request is counted even if the fault is not due."""
        if not self.matches(context):
            return False
        self._matched += 1
        if self.nth is not None and self._matched != self.nth:
            return False
        if self.after is not None and self._matched <= self.after:
            return False
        if self.times is not None and self.fired >= self.times:
            return False
        return self.probability is None or self._random.random() < self.probability

    def draw_delay_ms(self) -> float:
        """Return the delay of one response."""
        return (self.delay_ms or 0) + (self._random.uniform(0, self.jitter_ms) if self.jitter_ms else 0)

    def record_hit(self, entry: Entry) -> None:
        """Record a request that the fault hits."""
        self.fired += 1
        self.hits.append(entry)

    def remove_hit(self, entry: Entry) -> None:
        """Undo a recorded hit, because the response contained nothing that the fault could change."""
        self.fired -= 1
        if entry in self.hits:
            self.hits.remove(entry)
        entry.fault = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set. An error is given by name."""
        document = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}
        if isinstance(self.error, ErrorCode):
            document["error"] = self.error.name
        return document

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fault:
        """Create a fault from its fields.

        Raises:
            FaultError: A field is unknown or has an invalid value.
        """
        field_names = {field.name for field in fields(cls)}
        for name in data:
            if name not in field_names:
                hint = suggestion(name, field_names) or f"; there are {', '.join(sorted(field_names))}"
                raise FaultError(f"{name}: there is no such field{hint}")
        return cls(**data)


def _check_integer(name: str, value: object, minimum: int | None) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise FaultError(f"{name}: {value!r} is not an integer")
    if minimum is not None and value < minimum:
        raise FaultError(f"{name}: {value} is below {minimum}")
    if abs(value) > _MAX_INTEGER:
        raise FaultError(f"{name}: {value} is above {_MAX_INTEGER}")


def _check_number(name: str, value: object, maximum: float) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise FaultError(f"{name}: {value!r} is not a number")
    if not 0 < value <= maximum:
        raise FaultError(f"{name}: {value} is out of range; give a number above 0, and at most {maximum}")


def _check_word(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise FaultError(f"{name}: {value!r} is not one of {', '.join(allowed)}")


def _version_range(value: object) -> VersionRange:
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            versions = VersionRange.parse(str(value))
            if 0 <= versions.first <= versions.last:
                return versions
    except ValueError:
        pass
    raise FaultError(f"versions: {value!r} is not a version such as 7, or a range such as '0-3' or '9+'")


def read_faults(path: str) -> list[Fault]:
    """Return the faults in a file: JSON, or YAML if PyYAML is installed.

        {"faults": [{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}, ...]}

    The fields are those of `Fault`. A bare list is accepted, too.

    Raises:
        FaultError: The file is invalid. The message names the file, the fault and the field.
        OSError: The file cannot be read.
    """
    try:
        data = read_document(path)
    except ValueError as error:
        raise FaultError(str(error)) from None
    return parse_faults(data, path)


def parse_faults(data: object, source: str) -> list[Fault]:
    """Return the faults in a document that was read from `source`.

    Raises:
        FaultError: The document is invalid.
    """
    faults = data
    if isinstance(data, Mapping):
        document = cast("Mapping[object, object]", data)
        for name in document:
            if name != "faults":
                raise FaultError(f"{source}: {name}: there is no such field; the only field is faults, a list")
        if not document:
            raise FaultError(f"{source}: it has no faults; write a list of them")
        faults = document["faults"]
    if not isinstance(faults, list):
        raise FaultError(f"{source}: faults: {faults!r} is not a list")
    return [
        _parse_fault(fault, f"{source}: fault {number}")
        for number, fault in enumerate(cast("Sequence[object]", faults), 1)
    ]


def _parse_fault(data: object, source: str) -> Fault:
    if not isinstance(data, Mapping):
        raise FaultError(f"{source}: {data!r} is not a mapping of fields, such as api: Produce, drop: after")
    fields = {str(name): value for name, value in cast("Mapping[object, Any]", data).items()}
    try:
        return Fault.from_json(fields)
    except FaultError as error:
        raise FaultError(f"{source}: {error}") from None
