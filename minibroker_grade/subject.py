"""The broker under test as a check sees it: requests, expectations, and topics of its own."""

import dataclasses
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker_grade.check import CheckFailedError, SkippedError
from minibroker_grade.wire import Address, Exchange, Wire, frame_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import ProtocolError
from minibroker_protocol.messages import key_of
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minibroker_protocol.schema import schema_of

if TYPE_CHECKING:
    from minibroker_grade.process import BrokerProcess

_PAUSE_S: Final = 0.02
_MOST_BYTES: Final = 40
_MOST_TEXT: Final = 400
# fmt: off
_NEWEST: Final = {
    ApiKey.PRODUCE: 9, ApiKey.FETCH: 12, ApiKey.LIST_OFFSETS: 7, ApiKey.METADATA: 9, ApiKey.DELETE_RECORDS: 2,
    ApiKey.CREATE_TOPICS: 4, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_CONFIGS: 1, ApiKey.INCREMENTAL_ALTER_CONFIGS: 1, ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.FIND_COORDINATOR: 3, ApiKey.JOIN_GROUP: 5, ApiKey.SYNC_GROUP: 3, ApiKey.HEARTBEAT: 3, ApiKey.LEAVE_GROUP: 3,
    ApiKey.DESCRIBE_GROUPS: 4, ApiKey.LIST_GROUPS: 2, ApiKey.DELETE_GROUPS: 2, ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7, ApiKey.INIT_PRODUCER_ID: 4, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3, ApiKey.END_TXN: 3,
}
# fmt: on
"""The newest versions that the checks ask in, of those that name topics and that brokers of Kafka 2.8 serve."""
STEP: Final = re.compile(r"(\w+)|\[(\d+)\]")
"""A step of a path to a field: a name, or the index of an element."""


class Subject:
    """A broker during one check.

    Attributes:
        data_dir: the broker's log directory; None when the grader does not know it.
        process: what starts and kills it; None without --start.
        exchanges: all that was sent and received so far.
    """

    def __init__(
        self, address: Address, limit: float, data_dir: str | None = None, process: "BrokerProcess | None" = None
    ) -> None:
        self.address = address
        self.data_dir = data_dir
        self.process = process
        self.exchanges: list[Exchange] = []
        self.deadline = time.monotonic() + limit
        self._wires: list[Wire] = []
        self._wire: Wire | None = None
        self._versions: dict[int, tuple[int, int]] | None = None

    def connect(self) -> Wire:
        """A new connection, which the end of the check closes."""
        wire = Wire(self.address, self.exchanges, self.deadline)
        self._wires.append(wire)
        return wire

    def left(self) -> float:
        """Seconds until the check's limit."""
        return max(self.deadline - time.monotonic(), 0.001)

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()
        self._wires.clear()
        self._wire = None

    @property
    def wire(self) -> Wire:
        """The connection of all that needs none of its own."""
        if self._wire is None:
            self._wire = self.connect()
        return self._wire

    def ask(self, request: Any, version: int | None = None, wire: Wire | None = None) -> Any:
        """The response to a request, in `newest` or this version. Skip the check where the broker does not serve it."""
        version = self.newest(request.__class__) if version is None else version
        if key_of(request.__class__) != ApiKey.API_VERSIONS:
            self.need(key_of(request.__class__), version)
        wire = wire or self.wire
        wire.send(request, version)
        return wire.receive()

    def newest(self, request: type[Any], last: int | None = None) -> int:
        """The newest version that the broker serves, at most `last` or the checks' own; else the check is skipped."""
        key = key_of(request)
        known = schema_of(request).versions
        first, newest = self.versions.get(key, (0, -1))
        version = min(newest, _NEWEST[key] if last is None else last)
        if version < max(first, known.first):
            raise SkippedError(
                f"the broker serves {key.message} {first} to {newest}"
                if newest >= 0
                else f"the broker does not serve {key.message}"
            )
        return version

    def need(self, key: ApiKey, version: int) -> None:
        """Skip the check where the broker does not serve this version."""
        first, last = self.versions.get(key, (0, -1))
        if not first <= version <= last:
            raise SkippedError(f"the broker does not serve {key.message} {version}")

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The first and last version of each API that the broker says it serves."""
        if self._versions is None:
            self.wire.send(ApiVersionsRequest(), 0)
            served = self.wire.receive().api_keys
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in served}
        return self._versions

    @staticmethod
    def frame_of(request: Any, version: int) -> bytes:
        """The bytes of a request, for `send_bytes`."""
        return frame_of(request, version, 0)

    def reaches(self, address: Address) -> bool:
        """Does a process accept connections at this address?"""
        try:
            Wire(address, self.exchanges, self.deadline).close()
        except OSError:
            return False
        return True

    # Expectations.

    def same(self, response: Any, path: str, expected: Any, note: str = "") -> None:
        """The field that the path leads to has this value."""
        value = self.at(response, path)
        if value != expected:
            why = f" ({note})" if note else ""
            raise CheckFailedError(f"{shown(path, expected)}{why}", shown(path, value), response, path, expected)

    def holds(self, truth: object, expected: str, response: Any = None, path: str = "", *, came: str = "") -> None:
        """Something is so, of the field that the path leads to; `came` are the words for what is so instead."""
        if not truth:
            raise CheckFailedError(expected, came or shown(path, self.at(response, path)), response, path)

    def equal(self, value: object, expected: object, subject: str, response: Any = None, path: str = "") -> None:
        """A value that was read out of a response."""
        if value != expected:
            raise CheckFailedError(f"{_brief(expected)} as {subject}", f"{_brief(value)} as {subject}", response, path)

    def attempt(self, act: Callable[[], object], expected: str, response: Any = None, path: str = "") -> None:
        """Something that must not raise an error of the protocol."""
        try:
            act()
        except ProtocolError as error:
            raise CheckFailedError(expected, str(error), response, path) from None

    def at(self, response: Any, path: str) -> Any:
        """The value that a path leads to. CheckFailedError where an array is too short."""
        value = response
        for found in STEP.finditer(path):
            name, index = found.groups()
            if name:
                value = getattr(value, name)
            elif value is None or int(index) >= len(value):
                error = getattr(response, "error_code", 0)
                note = f", and {shown('error_code', error)}" if error else ""
                array = path[: found.start()]
                raise CheckFailedError(
                    f"an element [{index}] in {path}", f"{len(value or ())} elements in {array}{note}", response, array
                )
            else:
                value = value[int(index)]
        return value

    def until(
        self,
        ask: Callable[[], Any],
        is_done: Callable[[Any], object],
        expected: str,
        read: Callable[[Any], str] | None = None,
    ) -> Any:
        """Ask until it is so; returns the last answer.

        CheckFailedError at the check's limit, with the words that `read` has for the last answer.
        """
        while True:
            answer = ask()
            if is_done(answer):
                return answer
            if time.monotonic() > self.deadline:
                came = "another answer" if read is None else read(answer)
                raise CheckFailedError(expected, f"{came}, up to the check's limit", answer)
            time.sleep(_PAUSE_S)

    # Things to work with.

    @staticmethod
    def name(kind: str = "topic") -> str:
        """An unused name."""
        return f"grade-{kind}-{secrets.token_hex(4)}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """The name of a new topic whose leaders are ready; underscores in the keys are dots."""
        name = self.name()
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        created = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30000))
        self.same(created, "topics[0].error_code", 0, "a topic to work with")
        self.wait_for_leaders(name, partitions)
        return name

    def wait_for_leaders(self, name: str, partitions: int = 1) -> None:
        """Until Metadata and the partitions themselves know their leader: Kafka learns of it a moment later."""
        version = self.newest(MetadataRequest, 1)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        self.until(
            lambda: self.ask(request, version),
            lambda answer: (
                len(answer.topics) == 1
                and len(answer.topics[0].partitions) == partitions
                and not any(partition.error_code for partition in answer.topics[0].partitions)
            ),
            f"{partitions} partitions with leaders in Metadata",
            lambda answer: f"{len(answer.topics and answer.topics[0].partitions)} in Metadata",
        )
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        offsets = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=asked)])
        version = self.newest(ListOffsetsRequest, 1)
        self.until(
            lambda: self.ask(offsets, version),
            lambda answer: not any(partition.error_code for partition in answer.topics[0].partitions),
            "offsets from the leaders",
            lambda answer: shown("error_code", max(part.error_code for part in answer.topics[0].partitions)),
        )


def shown(path: str, value: Any) -> str:
    """A field and its value for people; errors get their names."""
    text = _brief(value)
    if path.endswith("error_code") and isinstance(value, int):
        with_name = next((code.name for code in ErrorCode if int(code) == value), "")
        text = f"{value} {with_name}".strip()
    return f"{text} in {path}" if path else text


def _brief(value: Any) -> str:
    """A value in a few words; structures are counted."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(cast("memoryview", value))
        first = data[:_MOST_BYTES]
        text = repr(first) if first.isascii() and first.decode().isprintable() else first.hex(" ")
        return text + (f" ... in {len(data)} bytes" if len(data) > _MOST_BYTES else "")
    if isinstance(value, list):
        elements = cast("list[object]", value)
        if any(dataclasses.is_dataclass(each) for each in elements):
            return f"{len(elements)} element" + ("s" if len(elements) > 1 else "")
    text = repr(cast("object", value))
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} ..."


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """The first place where two byte strings are not the same; None where they are."""
    for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return at
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))
