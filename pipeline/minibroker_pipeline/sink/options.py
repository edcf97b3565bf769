"""Parses and checks the options of `df.write.format("minibroker")`, and checks the columns of the rows."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from minibroker_pipeline.decode import BATCH_COLUMNS, HEADERS_COLUMN, RECORD_COLUMNS
from minibroker_pipeline.decode.columns import CODEC_NAMES
from minibroker_pipeline.decode.encoder import encode
from minibroker_pipeline.log_directories.directory_commit import local_path
from minibroker_pipeline.log_directories.partition_logs import KAFKAS_TOPICS
from minibroker_pipeline.query_options import TABLE_HINT, OptionError, one_of, parse_flag, parse_positive, read_options
from minibroker_protocol.errors import ProtocolError
from minibroker_storage.config import MIN_SEGMENT_BYTES, LogConfig
from minibroker_storage.data_directory.names import LEGAL_TOPIC, MAX_TOPIC_NAME

BATCH_BYTES: Final = 64 * 1024
MAX_PARTITIONS: Final = 100_000
"""The limit for one topic, since a larger number is probably a mistake."""
LOG_APPEND_TIME: Final = "LogAppendTime"

_KEY_VALUE: Final = ("key", "value")
_WRITABLE_COLUMNS: Final = (*_KEY_VALUE, HEADERS_COLUMN, "timestamp", "topic", "partition", "offset")
#: Columns that a read returns, and that are ignored when the rows are written again.
_IGNORED_COLUMNS: Final = frozenset({*RECORD_COLUMNS, *BATCH_COLUMNS})


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """The options of a query that writes.

    `docs/spark-source.md` describes them. `now_ms` is the time at which the query was planned.
    """

    target: str
    topic: str = ""
    partitions: int | None = None
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = BATCH_BYTES
    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096
    keep_offsets: bool = False
    timestamp_type: str = "CreateTime"
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    @property
    def files(self) -> LogConfig:
        """The format of the segments."""
        return LogConfig(segment_bytes=self.segment_bytes, index_interval_bytes=self.index_interval_bytes)

    @property
    def log_append_time(self) -> int | None:
        """The timestamp for all records, in milliseconds, or None if the records keep their own."""
        return self.now_ms if self.timestamp_type == LOG_APPEND_TIME else None


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options that Spark passes. The case of their names is ignored.

    Raises:
        OptionError: an option is unknown, missing or invalid.
        DirectoryStateError: the target is not a local directory.
    """
    values = read_options(options, OPTIONS)
    if not values.get("target"):
        raise OptionError("path: a data directory has to be named, as in .save(directory)" + TABLE_HINT)
    values["target"] = local_path(values["target"])
    parsed = WriteOptions(**values)
    if parsed.topic:
        check_topic(parsed.topic)
    try:
        encode(_SAMPLE_ROW, codec=parsed.codec, level=parsed.level)
    except (ProtocolError, ValueError, RuntimeError, OverflowError) as error:
        raise OptionError(f"compressionLevel: {parsed.level} is not a level of {parsed.codec}: {error}") from None
    return parsed


def check_topic(name: str) -> None:
    """Check the name of the topic to write.

    Raises:
        OptionError: Kafka refuses the name, or only brokers can write the topic.
    """
    if len(name) > MAX_TOPIC_NAME or not LEGAL_TOPIC.fullmatch(name) or name in {".", ".."}:
        raise OptionError(f"topic: {name!r} is none: 1 to 249 letters, digits, dots, underscores and dashes")
    if name in KAFKAS_TOPICS:
        raise OptionError(f"topic: {name!r} is kept by brokers")


def check_columns(schema: pa.Schema, options: WriteOptions) -> None:
    """Check the columns of the rows to write.

    Raises:
        OptionError: a column is unknown, missing or of the wrong type.
    """
    names: list[str] = schema.names
    unknown = [name for name in names if name not in _WRITABLE_COLUMNS and name not in _IGNORED_COLUMNS]
    if unknown:
        raise OptionError(f"column {unknown[0]!r}: known are {', '.join(_WRITABLE_COLUMNS)}; select those of use")
    for field_ in schema:
        expected = _TYPES.get(field_.name)
        if expected is not None and not any(fits(field_.type) for fits in expected[1]):
            raise OptionError(f"{field_.name}: {field_.type} is not {expected[0]}")
    if not any(name in names for name in _KEY_VALUE):
        raise OptionError("columns: neither key nor value is there")
    if not options.topic and "topic" not in names:
        raise OptionError("topic: name one by the option, or by a column of each row")
    for name in ("partition", "offset") if options.keep_offsets else ():
        if name not in names:
            raise OptionError(f"keepOffsets: the column {name} is missing")


def _is_headers(kind: pa.DataType) -> bool:
    """Return whether this is the connector's array of structs, regardless of the field names."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields = list(kind.value_type)
    return len(fields) == len(_KEY_VALUE) and all(any(fits(member.type) for fits in _BYTES[1]) for member in fields)


_BYTES: Final[tuple[str, tuple[Callable[[pa.DataType], bool], ...]]] = (
    "bytes or text",
    (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string, pa.types.is_null),
)
_NUMBER: Final = ("a whole number", (pa.types.is_integer, pa.types.is_null))
_TYPES: Final = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("text", (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)),
    "partition": _NUMBER,
    "offset": _NUMBER,
    "timestamp": ("a timestamp or a number of milliseconds", (pa.types.is_timestamp, *_NUMBER[1])),
    HEADERS_COLUMN: ("array<struct<key: string, value: binary>>", (_is_headers, pa.types.is_null)),
}


def _parse_topics(text: str) -> str:
    """Return the topic that a table reads, or nothing if it has several. Then a column decides for each row."""
    return "" if "," in text else text.strip()


def _parse_segment_bytes(text: str) -> int:
    number = parse_positive(text)
    if not MIN_SEGMENT_BYTES <= number < 1 << 31:
        raise ValueError(f"expected {MIN_SEGMENT_BYTES} to {(1 << 31) - 1}")
    return number


def _parse_partitions(text: str) -> int:
    number = parse_positive(text)
    if number > MAX_PARTITIONS:
        raise ValueError(f"expected at most {MAX_PARTITIONS}")
    return number


OPTIONS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "path": ("target", str),
    "topics": ("topic", _parse_topics),
    "topic": ("topic", str),
    "partitions": ("partitions", _parse_partitions),
    "codec": ("codec", one_of(*CODEC_NAMES)),
    "compression.type": ("codec", one_of(*CODEC_NAMES)),
    "compressionLevel": ("level", int),
    "batchBytes": ("batch_bytes", parse_positive),
    "segmentBytes": ("segment_bytes", _parse_segment_bytes),
    "indexIntervalBytes": ("index_interval_bytes", parse_positive),
    "keepOffsets": ("keep_offsets", parse_flag),
    "timestampType": ("timestamp_type", one_of("CreateTime", LOG_APPEND_TIME)),
}
_SAMPLE_ROW: Final = pa.RecordBatch.from_arrays([pa.array([b"x"])], names=["value"])
