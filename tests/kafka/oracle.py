"""Kafka's own classes, asked from Python: Oracle.java in a JVM that lives as long as the tests need it.

A call takes many cases and answers them in one round trip, so that ten thousand cases take seconds. A case that Kafka
refuses is answered with a `Refusal`.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final, NamedTuple, TypeVar

from tests.kafka.line_oracle import JavaOracle

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]

_SOURCE: Final = Path(__file__).with_name("Oracle.java")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_REQUEST: Final = Struct(">ibi")
_DESCRIPTION: Final = Struct(">bbbqqqhi??iq")
_NEW_RECORD: Final = Struct(">qq")
_BATCH: Final = Struct(">bbb?qiqqqiqhi??q")
_RECORD: Final = Struct(">qq")
_CONVERSION: Final = Struct(">bq")
_POLICY: Final = Struct(">bbb?qqiqq")
_RESULT: Final = Struct(">qqq")


class Operation(IntEnum):
    """Places in the table of Oracle.java."""

    BUILD = 0
    READ = 1
    DOWN_CONVERT = 2
    VALIDATE = 3
    RUN_TOOL = 4


class Refusal(NamedTuple):
    """Kafka threw: the class and the message of its exception, and lines for the records that it blames."""

    text: str


class RecordLine(NamedTuple):
    """One record; its timestamp is in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Description(NamedTuple):
    """A batch or message set of Kafka's MemoryRecordsBuilder. `timestamp_type` is -1 for format v0."""

    magic: int
    records: Sequence[RecordLine]
    codec: int = 0
    timestamp_type: int = 0
    base_offset: int = 0
    log_append_time: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    partition_leader_epoch: int = -1
    delete_horizon_ms: int = -1


class BatchLine(NamedTuple):
    """Kafka's view of one batch, or of one entry of a message set.

    `timestamp_type` is -1 in format v0. Of an invalid one `base_offset` is -1, and the records are left out.
    """

    magic: int
    codec: int
    timestamp_type: int
    is_valid: bool
    checksum: int
    size_in_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int
    records: tuple[RecordLine, ...] | Refusal = ()


class Conversion(NamedTuple):
    """Records to be converted for a reader that knows no format above `magic`, and the offset that it asked for."""

    magic: int
    first_offset: int
    data: bytes


class Append(NamedTuple):
    """Produced records, and the topic that they are appended to. `codec` -1 keeps the producer's; times are in ms."""

    magic: int
    data: bytes
    codec: int = -1
    timestamp_type: int = 0
    is_compacted: bool = False
    before_max_ms: int = 2**63 - 1
    after_max_ms: int = 2**63 - 1
    partition_leader_epoch: int = 0
    base_offset: int = 0
    now_ms: int = 0


class Appended(NamedTuple):
    """The output of Kafka's LogValidator. `log_append_time` is -1 unless the topic stamps its records."""

    next_offset: int
    max_timestamp: int
    log_append_time: int
    data: bytes


class Tool(NamedTuple):
    """A class of Kafka with a main method."""

    name: str
    arguments: Sequence[str]


class Printed(NamedTuple):
    """The output of a tool."""

    out: str
    errors: str


class Oracle(JavaOracle):
    """The JVM of Kafka's record classes and tools."""

    def __init__(self, libs: Path) -> None:
        super().__init__(_SOURCE, libs, heap="512m")

    def build(self, cases: Iterable[Description]) -> list[bytes | Refusal]:
        """The bytes that Kafka writes."""
        return self._ask(Operation.BUILD, map(_encode_description, cases), _Reader.bytes)

    def read(self, cases: Iterable[bytes | bytearray | memoryview]) -> list[list[BatchLine] | Refusal]:
        """Kafka's view of the records: every whole batch, checked and decompressed."""
        return self._ask(Operation.READ, map(_sized, cases), _Reader.batches)

    def down_convert(self, cases: Iterable[Conversion]) -> list[bytes | Refusal]:
        """The same records in an older format (Kafka's MemoryRecords.downConvert)."""
        encoded = (_CONVERSION.pack(case.magic, case.first_offset) + _sized(case.data) for case in cases)
        return self._ask(Operation.DOWN_CONVERT, encoded, _Reader.bytes)

    def validate(self, cases: Iterable[Append]) -> list[Appended | Refusal]:
        """The records that a log appends of produced ones (Kafka's LogValidator)."""
        return self._ask(Operation.VALIDATE, map(_encode_append, cases), _Reader.appended)

    def run(self, name: str, *arguments: str) -> Printed:
        """The output of a tool of Kafka. AssertionError when it fails."""
        (printed,) = self._ask(Operation.RUN_TOOL, [_encode_tool(Tool(name, arguments))], _Reader.printed)
        assert not isinstance(printed, Refusal), f"{name} {' '.join(arguments)}: {printed.text}"
        return printed

    def attempt(self, name: str, *arguments: str) -> str:
        """All that a tool of Kafka prints, whether it succeeds or not; the line behind a failure tells its status."""
        (printed,) = self._ask(Operation.RUN_TOOL, [_encode_tool(Tool(name, arguments))], _Reader.printed)
        return printed.text if isinstance(printed, Refusal) else "\n".join(printed)

    def _ask(
        self, operation: Operation, questions: Iterable[bytes], read: "Callable[[_Reader], T]"
    ) -> list[T | Refusal]:
        content = [_sized(question) for question in questions]
        stdin, stdout = self.pipes()
        size = sum(map(len, content)) + _REQUEST.size - _INT32.size
        try:
            stdin.write(_REQUEST.pack(size, operation, len(content)))
            stdin.writelines(content)
            stdin.flush()
            (size,) = _INT32.unpack(stdout.read(_INT32.size))
        except (BrokenPipeError, StructError):
            raise AssertionError(f"the oracle has died:\n{self.complaints()}") from None
        reader = _Reader(stdout.read(size))
        answers = [read(reader) if reader.byte() else Refusal(reader.bytes().decode()) for _ in content]
        assert reader.position == len(reader.data)
        return answers


class _Reader:
    """Takes an answer apart."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def fields(self, struct: Struct) -> tuple[Any, ...]:
        found = struct.unpack_from(self.data, self.position)
        self.position += struct.size
        return found

    def byte(self) -> int:
        self.position += 1
        return self.data[self.position - 1]

    def count(self) -> int:
        count: int = self.fields(_INT32)[0]
        return count

    def nullable_bytes(self) -> bytes | None:
        size = self.count()
        if size < 0:
            return None
        self.position += size
        return self.data[self.position - size : self.position]

    def bytes(self) -> bytes:
        found = self.nullable_bytes()
        assert found is not None
        return found

    def printed(self) -> Printed:
        return Printed(self.bytes().decode(), self.bytes().decode())

    def batches(self) -> list[BatchLine]:
        return [BatchLine._make((*self.fields(_BATCH), self._records())) for _ in range(self.count())]

    def appended(self) -> Appended:
        return Appended._make((*self.fields(_RESULT), self.bytes()))

    def _records(self) -> tuple[RecordLine, ...] | Refusal:
        count = self.count()
        return tuple(self._record() for _ in range(count)) if count >= 0 else Refusal(self.bytes().decode())

    def _record(self) -> RecordLine:
        offset, timestamp = self.fields(_RECORD)
        key, value = self.nullable_bytes(), self.nullable_bytes()
        headers = tuple((self.bytes().decode(), self.nullable_bytes()) for _ in range(self.count()))
        return RecordLine(offset, timestamp, key, value, headers)


def _sized(data: "bytes | bytearray | memoryview | None") -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _encode_description(case: Description) -> bytes:
    encoded = bytearray(
        _DESCRIPTION.pack(
            case.magic,
            case.codec,
            case.timestamp_type,
            case.base_offset,
            case.log_append_time,
            case.producer_id,
            case.producer_epoch,
            case.base_sequence,
            case.is_transactional,
            case.is_control,
            case.partition_leader_epoch,
            case.delete_horizon_ms,
        )
    )
    encoded += _INT32.pack(len(case.records))
    for record in case.records:
        encoded += _NEW_RECORD.pack(record.offset, record.timestamp) + _sized(record.key) + _sized(record.value)
        encoded += _INT32.pack(len(record.headers))
        for name, value in record.headers:
            encoded += _sized(name.encode()) + _sized(value)
    return bytes(encoded)


def _encode_append(case: Append) -> bytes:
    fields = _POLICY.pack(
        case.magic,
        case.codec,
        case.timestamp_type,
        case.is_compacted,
        case.before_max_ms,
        case.after_max_ms,
        case.partition_leader_epoch,
        case.base_offset,
        case.now_ms,
    )
    return fields + _sized(case.data)


def _encode_tool(tool: Tool) -> bytes:
    arguments = b"".join(_sized(argument.encode()) for argument in tool.arguments)
    return _sized(tool.name.encode()) + _INT32.pack(len(tool.arguments)) + arguments
