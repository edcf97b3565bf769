"""Parses and checks the data source's options.

Options that the Kafka connector also has keep the connector's names.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from minibroker_pipeline.decode import BATCH_COLUMNS, HEADERS_COLUMN, RECORD_COLUMNS
from minibroker_pipeline.decode.request import ENGINES, Engine, Isolation, Mode, engine_named
from minibroker_pipeline.log_directories.log_end_offsets import HighWatermark
from minibroker_pipeline.query_options import TABLE_HINT, OptionError, one_of, parse_flag, parse_positive, read_options

EARLIEST: Final = -2
LATEST: Final = -1
"""The numbers that the connector's JSON and ListOffsets use."""

DAMAGE_COLUMN: Final = "damage"
DECODED_COLUMN: Final = "decoded"
UNDECODABLE_COLUMN: Final = "undecodable"
FROM_TOPIC: Final = "topic"
"""The value of the option `schemas` for the schemas in the topic of the same directory."""
SPLIT_BYTES: Final = 64 * 1024 * 1024
"""The size of a task. Tasks of half this size cost a query an eighth more CPU time. Larger ones gain little."""

PartitionNumbers = Mapping[str, Mapping[int, int]]
"""A number for each partition of each topic."""
NoOffset = Literal["error", "latest"]


@dataclass(frozen=True, slots=True)
class Position:
    """A starting or ending position.

    It consists of offsets (`EARLIEST`, `LATEST` or one per partition) or of timestamps in milliseconds.
    """

    everywhere: int | None = None
    offsets: PartitionNumbers | None = None
    timestamp: int | None = None
    timestamps: PartitionNumbers | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOptions:
    """The options of a query that reads. `docs/spark-source.md` describes each option."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    topics_pattern: str = ""
    assignment: dict[str, list[int]] | None = None
    starting: Position | None = None
    ending: Position | None = None
    no_offset: NoOffset = "error"
    isolation: Isolation = "read_uncommitted"
    mode: Mode = "failfast"
    high_watermark: HighWatermark = "auto"
    fail_on_data_loss: bool = True
    verify_crc: bool = True
    max_offsets_per_trigger: int | None = None
    split_bytes: int = SPLIT_BYTES
    engine: Engine = "auto"
    include_headers: bool = False
    include_control: bool = False
    batch_fields: bool = False
    include_damage: bool = False
    schemas: str = ""
    #: A `schema_decoder.Decoder`, if a column of the query needs it.
    decoder: Any = None
    filter_pushdown: bool = False
    storage: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row, unless the user sets a schema for the query."""
        return (
            *RECORD_COLUMNS,
            *((HEADERS_COLUMN,) if self.include_headers else ()),
            *(BATCH_COLUMNS if self.batch_fields else ()),
            *((DAMAGE_COLUMN,) if self.include_damage else ()),
            *((DECODED_COLUMN,) if self.schemas else ()),
            *((UNDECODABLE_COLUMN,) if self.schemas and self.mode == "permissive" else ()),
        )

    @property
    def has_one_topic(self) -> bool:
        """Whether the options name a single topic."""
        return len(self.topics or self.assignment or ()) == 1


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse Spark's options, ignoring the case of their names.

    Raises:
        OptionError: an option is unknown, missing or invalid.
    """
    values = read_options(options, OPTIONS)
    if not values.get("paths"):
        raise OptionError("path: a data directory has to be named, as in .load(directory)" + TABLE_HINT)
    if sum(name in values for name in ("topics", "topics_pattern", "assignment")) > 1:
        raise OptionError("only one of topics, topicsPattern and topic.partitions can be named")
    ending = values.get("ending")
    if ending is not None and EARLIEST in _numbers_of(ending):
        raise OptionError("endingOffsets: earliest, or -2, is not an end")
    return SourceOptions(**values)


def _numbers_of(position: Position) -> list[int | None]:
    by_topic = position.offsets or {}
    return [position.everywhere, *(offset for offsets in by_topic.values() for offset in offsets.values())]


def _parse_offsets(text: str) -> Position:
    match text.strip().lower():
        case "earliest":
            return Position(EARLIEST)
        case "latest":
            return Position(LATEST)
        case _:
            return Position(offsets=_parse_partitions(text, lowest=EARLIEST))


def _parse_partitions(text: str, lowest: int = 0) -> dict[str, dict[int, int]]:
    wrong = ValueError('expected JSON such as {"orders": {"0": 23, "1": 42}}')
    parsed = _parse_json_object(text, wrong)
    numbers: dict[str, dict[int, int]] = {}
    for topic, by_partition in parsed.items():
        if not isinstance(by_partition, dict):
            raise wrong
        for partition, number in cast("dict[str, Any]", by_partition).items():
            if not partition.isdecimal() or not isinstance(number, int) or number < lowest:
                raise wrong
            numbers.setdefault(topic, {})[int(partition)] = number
    return numbers


def _parse_json_object(text: str, wrong: ValueError) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(parsed, dict):
        raise wrong
    return cast("dict[str, Any]", parsed)


def _parse_assignment(text: str) -> dict[str, list[int]]:
    wrong = ValueError('expected JSON such as {"orders": [0, 1]}')
    parsed = _parse_json_object(text, wrong)
    for partitions in parsed.values():
        numbers: list[Any] = partitions if isinstance(partitions, list) else [None]
        if not all(isinstance(number, int) for number in numbers):
            raise wrong
    return parsed


def _parse_storage(text: str) -> dict[str, Any]:
    return _parse_json_object(text, ValueError('expected JSON such as {"endpoint_url": "https://host:9000"}'))


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_paths(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text.startswith("[") else _split_names(text)


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


def _parse_engine(text: str) -> Engine:
    return engine_named(one_of(*ENGINES, "plain")(text))


def _parse_schemas(text: str) -> str:
    if text.startswith(("http://", "https://")):
        return text
    return "" if one_of("true", "false", FROM_TOPIC)(text) == "false" else FROM_TOPIC


def _parse_milliseconds(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("expected milliseconds since 1970")
    return int(text)


_POSITIONS: Final[dict[str, Callable[[str], Position]]] = {
    "Offsets": _parse_offsets,
    "OffsetsByTimestamp": lambda text: Position(timestamps=_parse_partitions(text)),
    "Timestamp": lambda text: Position(timestamp=_parse_milliseconds(text)),
}
"""The suffixes of options for positions. As in the connector, a later suffix overrides an earlier one."""
OPTIONS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "path": ("paths", _parse_paths),
    "paths": ("paths", _parse_paths),
    "topics": ("topics", _split_names),
    "topicsPattern": ("topics_pattern", _check_pattern),
    "topic.partitions": ("assignment", _parse_assignment),
    "subscribe": ("topics", _split_names),
    "subscribePattern": ("topics_pattern", _check_pattern),
    "assign": ("assignment", _parse_assignment),
    "startingOffsetsByTimestampStrategy": ("no_offset", one_of("error", "latest")),
    "isolation": ("isolation", one_of("read_uncommitted", "read_committed")),
    "kafka.isolation.level": ("isolation", one_of("read_uncommitted", "read_committed")),
    "mode": ("mode", one_of("failfast", "permissive")),
    "highWatermark": ("high_watermark", one_of("auto", "checkpoint", "logEnd")),
    "failOnDataLoss": ("fail_on_data_loss", parse_flag),
    "verifyCrc": ("verify_crc", parse_flag),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", parse_positive),
    "splitBytes": ("split_bytes", parse_positive),
    "engine": ("engine", _parse_engine),
    "includeHeaders": ("include_headers", parse_flag),
    "includeControl": ("include_control", parse_flag),
    "batchFields": ("batch_fields", parse_flag),
    "includeDamage": ("include_damage", parse_flag),
    "schemas": ("schemas", _parse_schemas),
    "filterPushdown": ("filter_pushdown", parse_flag),
    "storageOptions": ("storage", _parse_storage),
    **{f"{which}{suffix}": (which, read) for which in ("starting", "ending") for suffix, read in _POSITIONS.items()},
}
