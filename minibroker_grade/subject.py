"""The broker as seen by a check: requests, expectations, and topics created for the check."""

import dataclasses
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker_grade.check import CheckFailedError, SkippedError
from minibroker_grade.wire import Address, Exchange, Wire
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
_MAX_BYTES: Final = 40
_MAX_TEXT: Final = 400
# fmt: off
_NEWEST_VERSIONS: Final = {
    ApiKey.PRODUCE: 9, ApiKey.FETCH: 12, ApiKey.LIST_OFFSETS: 7, ApiKey.METADATA: 9, ApiKey.DELETE_RECORDS: 2,
    ApiKey.CREATE_TOPICS: 4, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_CONFIGS: 1, ApiKey.INCREMENTAL_ALTER_CONFIGS: 1, ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.FIND_COORDINATOR: 3, ApiKey.JOIN_GROUP: 5, ApiKey.SYNC_GROUP: 3, ApiKey.HEARTBEAT: 3, ApiKey.LEAVE_GROUP: 3,
    ApiKey.DESCRIBE_GROUPS: 4, ApiKey.LIST_GROUPS: 2, ApiKey.DELETE_GROUPS: 2, ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7, ApiKey.INIT_PRODUCER_ID: 4, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3, ApiKey.END_TXN: 3,
}
# fmt: on
"""The newest versions used by the checks. They identify topics by name and are supported by Kafka 2.8 brokers."""
STEP: Final = re.compile(r"(\w+)|\[(\d+)\]")
"""A step of a field path: a field name, or an array index."""


class Subject:
    """The broker during one check.

    Attributes:
        data_dir: The broker's log directory, or None if unknown.
        process: The broker's process, or None without --start.
        exchanges: All requests and responses so far.
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
        """Return a new connection that is closed at the end of the check."""
        wire = Wire(self.address, self.exchanges, self.deadline)
        self._wires.append(wire)
        return wire

    def remaining_s(self) -> float:
        """Return the seconds until the check's time limit."""
        return max(self.deadline - time.monotonic(), 0.001)

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()
        self._wires.clear()
        self._wire = None

    @property
    def wire(self) -> Wire:
        """The connection shared by all requests that do not need a separate one."""
        if self._wire is None:
            self._wire = self.connect()
        return self._wire

    def ask(self, request: Any, version: int | None = None, wire: Wire | None = None) -> Any:
        """Send a request and return its response.

        By default, the request is sent in the `newest` version. If the broker does not serve the version, the check is
        skipped.
        """
        version = self.newest(request.__class__) if version is None else version
        if key_of(request.__class__) != ApiKey.API_VERSIONS:
            self.require(key_of(request.__class__), version)
        wire = wire or self.wire
        wire.send(request, version)
        return wire.receive()

    def newest(self, request: type[Any], last: int | None = None) -> int:
        """Return the newest version that the broker serves, limited to `last` or the checks' own newest version.

        Raises:
            SkippedError: The broker serves no such version.
        """
        key = key_of(request)
        supported = schema_of(request).versions
        first, newest = self.versions.get(key, (0, -1))
        version = min(newest, _NEWEST_VERSIONS[key] if last is None else last)
        if version < max(first, supported.first):
            raise SkippedError(
                f"the broker serves {key.message} {first} to {newest}"
                if newest >= 0
                else f"the broker does not serve {key.message}"
            )
        return version

    def require(self, key: ApiKey, version: int) -> None:
        """Check that the broker serves this version of an API.

        Raises:
            SkippedError: The broker does not serve it.
        """
        first, last = self.versions.get(key, (0, -1))
        if not first <= version <= last:
            raise SkippedError(f"the broker does not serve {key.message} {version}")

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The first and last version of each API in the broker's ApiVersions response."""
        if self._versions is None:
            self.wire.send(ApiVersionsRequest(), 0)
            served = self.wire.receive().api_keys
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in served}
        return self._versions

    def same(self, response: Any, path: str, expected: Any, note: str = "") -> None:
        """Check that the field at this path has the expected value."""
        value = self.value_at(response, path)
        if value != expected:
            why = f" ({note})" if note else ""
            raise CheckFailedError(
                f"{field_text(path, expected)}{why}", field_text(path, value), response, path, expected
            )

    def holds(self, truth: object, expected: str, response: Any = None, path: str = "", *, actual: str = "") -> None:
        """Check a condition on the field at this path. `actual` describes the actual value."""
        if not truth:
            raise CheckFailedError(expected, actual or field_text(path, self.value_at(response, path)), response, path)

    def equal(self, value: object, expected: object, subject: str, response: Any = None, path: str = "") -> None:
        """Check a value computed from a response."""
        if value != expected:
            raise CheckFailedError(
                f"{_shorten_value(expected)} as {subject}", f"{_shorten_value(value)} as {subject}", response, path
            )

    def attempt(self, act: Callable[[], object], expected: str, response: Any = None, path: str = "") -> None:
        """Call `act`, and fail the check if it raises a `ProtocolError`."""
        try:
            act()
        except ProtocolError as error:
            raise CheckFailedError(expected, str(error), response, path) from None

    def value_at(self, response: Any, path: str) -> Any:
        """Return the value at this path.

        Raises:
            CheckFailedError: An array is too short.
        """
        value = response
        for step in STEP.finditer(path):
            name, index = step.groups()
            if name:
                value = getattr(value, name)
            elif value is None or int(index) >= len(value):
                error = getattr(response, "error_code", 0)
                note = f", and {field_text('error_code', error)}" if error else ""
                array = path[: step.start()]
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
        """Repeat a request until `is_done` accepts the response, and return that response.

        Raises:
            CheckFailedError: The check's time limit expired. The message describes the last response, using `read`.
        """
        while True:
            answer = ask()
            if is_done(answer):
                return answer
            if time.monotonic() > self.deadline:
                actual = "another answer" if read is None else read(answer)
                raise CheckFailedError(expected, f"{actual}, up to the check's limit", answer)
            time.sleep(_PAUSE_S)

    @staticmethod
    def name(kind: str = "topic") -> str:
        """Return an unused name."""
        return f"grade-{kind}-{secrets.token_hex(4)}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic, wait for its leaders, and return its name. Underscores in config keys become dots."""
        name = self.name()
        topic = creatable_topic(name, partitions, **configs)
        created = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30000))
        self.same(created, "topics[0].error_code", 0, "a topic to work with")
        self.wait_for_leaders(name, partitions)
        return name

    def metadata(self, *names: str, create: bool = False, version: int | None = None) -> Any:
        """Return the metadata of these topics, which are created only if `create` is set."""
        topics = [MetadataRequestTopic(name=name) for name in names]
        return self.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)

    def wait_for_leaders(self, name: str, partitions: int = 1) -> None:
        """Wait until Metadata and the partitions report a leader. In Kafka, the partitions do so slightly later."""
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
        list_partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        offsets = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=list_partitions)])
        version = self.newest(ListOffsetsRequest, 1)
        self.until(
            lambda: self.ask(offsets, version),
            lambda answer: not any(partition.error_code for partition in answer.topics[0].partitions),
            "offsets from the leaders",
            lambda answer: field_text("error_code", max(part.error_code for part in answer.topics[0].partitions)),
        )


def creatable_topic(name: str, partitions: int = 1, factor: int = 1, /, **configs: str) -> CreatableTopic:
    """Return a topic for a CreateTopics request. Underscores in config keys become dots."""
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=settings)


def field_text(path: str, value: Any) -> str:
    """Return a field's path and value as text, with the names of error codes."""
    text = _shorten_value(value)
    if path.endswith("error_code") and isinstance(value, int):
        with_name = next((code.name for code in ErrorCode if int(code) == value), "")
        text = f"{value} {with_name}".strip()
    return f"{text} in {path}" if path else text


def _shorten_value(value: Any) -> str:
    """Return a short text for a value. Lists of structures are replaced by their length."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(cast("memoryview", value))
        first = data[:_MAX_BYTES]
        text = repr(first) if first.isascii() and first.decode().isprintable() else first.hex(" ")
        return text + (f" ... in {len(data)} bytes" if len(data) > _MAX_BYTES else "")
    if isinstance(value, list):
        elements = cast("list[object]", value)
        if any(dataclasses.is_dataclass(element) for element in elements):
            return f"{len(elements)} element" + ("s" if len(elements) > 1 else "")
    text = repr(cast("object", value))
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..."


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Return the first position at which two byte strings differ, or None if they are equal."""
    for index, (left_byte, right_byte) in enumerate(zip(left, right, strict=False)):
        if left_byte != right_byte:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))
