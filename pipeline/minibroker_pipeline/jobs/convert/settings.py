"""The settings of a conversion, and its report."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from minibroker_pipeline.decode.columns import CODEC_NAMES
from minibroker_pipeline.decode.request import Mode
from minibroker_pipeline.jobs.reports import Sums, as_json, bytes_text, text_table
from minibroker_pipeline.log_directories.partition_logs import KAFKAS_TOPICS
from minibroker_protocol.records.compression import COMPRESSION_LEVELS
from minibroker_protocol.records.header import MAGIC_V2, CompressionCodec
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.config import LogConfig

Format = Literal["v0", "v1", "v2"]
Droppable = Literal["headers", "timestamps", "transactions"]

FORMATS: Final[tuple[Format, ...]] = ("v0", "v1", "v2")
DROPPABLE: Final[tuple[Droppable, ...]] = ("headers", "timestamps", "transactions")


class ConvertError(ValueError):
    """A record that the new format cannot store. The message names the log and the offset, and suggests a remedy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertSettings:
    """The settings of a conversion.

    Attributes:
        format: the message format, or None to keep the format of each entry.
        codec: none, gzip, snappy, lz4 or zstd, or None to keep the codec of each entry.
        level: the codec's level, or None for its default. Entries that already have the codec are compressed again.
        batch_bytes: the uncompressed size up to which batches and wrappers are joined, and beyond which they are
            split. None leaves them unchanged, and joins single messages into batches of 16 KiB, the default of
            `batch.size`. Batches of idempotent producers are never joined or split in v2, because their sequence
            numbers count the records of batches.
        topics: the topics to convert, or empty for all. By default internal topics are copied unchanged.
        drop: the parts to drop if the format cannot store them. Parts that are not listed here end the job.
        mode: "failfast" stops at damage; "permissive" omits damaged entries.
        segment_bytes: Kafka's `segment.bytes`. Larger segments are split, but smaller ones are not joined.
        index_interval_bytes: Kafka's `index.interval.bytes`.

    Raises:
        ValueError: a value is unknown, or there is nothing to convert.
    """

    format: Format | None = None
    codec: str | None = None
    level: int | None = None
    batch_bytes: int | None = None
    topics: tuple[str, ...] = ()
    drop: tuple[Droppable, ...] = ()
    mode: Mode = "failfast"
    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096

    def __post_init__(self) -> None:
        if self.format is None and self.codec is None and self.batch_bytes is None:
            raise ValueError("nothing to convert to: name a format, a codec or batch bytes")
        if self.format is not None and self.format not in FORMATS:
            raise ValueError(f"format: {self.format!r} is not one of {', '.join(FORMATS)}")
        if self.codec is not None and self.codec not in CODEC_NAMES:
            raise ValueError(f"codec: {self.codec!r} is not one of {', '.join(CODEC_NAMES)}")
        if self.codec == "zstd" and self.magic not in {None, MAGIC_V2}:
            raise ValueError(f"codec: zstd, which message format {self.format} does not know")
        if self.level is not None and (
            self.codec is None or self.level not in COMPRESSION_LEVELS.get(CompressionCodec(self.codec_id or 0), ())
        ):
            raise ValueError(f"level: {self.level}, which codec {self.codec} does not have")
        if self.batch_bytes is not None and not 0 < self.batch_bytes <= INT32_MAX:
            raise ValueError(f"batch bytes: {self.batch_bytes}")
        unknown = [name for name in self.drop if name not in DROPPABLE]
        if unknown:
            raise ValueError(f"drop: {unknown[0]!r} is not one of {', '.join(DROPPABLE)}")
        if self.mode not in {"failfast", "permissive"}:
            raise ValueError(f"mode: {self.mode!r} is neither failfast nor permissive")
        self.files()

    @property
    def magic(self) -> int | None:
        """The number of the format."""
        return None if self.format is None else FORMATS.index(self.format)

    @property
    def codec_id(self) -> int | None:
        """The number of the codec."""
        return None if self.codec is None else CODEC_NAMES.index(self.codec)

    def files(self) -> LogConfig:
        """Return the configuration for writing log files.

        Raises:
            ValueError: Kafka refuses a value.
        """
        return LogConfig(segment_bytes=self.segment_bytes, index_interval_bytes=self.index_interval_bytes)

    def changes(self, topic: str) -> bool:
        """Return whether to convert this topic. An internal topic is converted only if `topics` names it."""
        return topic not in KAFKAS_TOPICS or topic in self.topics


_LOSS_TEXTS: Final = {
    "headers": "{:,} records had headers",
    "timestamps": "{:,} records had timestamps that the format has no place for",
    "markers": "{:,} transaction markers",
    "uncommitted": "{:,} records of aborted and open transactions",
    "producers": "{:,} batches were an idempotent or transactional producer's",
    "damaged": "{:,} damaged entries, or stretches of bytes",
}
"""The counts of lost parts, with their texts in the report."""


@dataclass(slots=True)
class ConvertCounts(Sums):
    """Counts for a log or for a part of it. An entry is a v2 batch, or a v0 or v1 message or wrapper."""

    entries_before: int = 0
    entries_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    #: How many entries were `copied` unchanged, how many were only `recompressed`, and how many were `rebuilt`: their
    #: records were encoded again.
    copied: int = 0
    recompressed: int = 0
    rebuilt: int = 0
    #: How many records lost their `headers`, and how many lost their `timestamps`.
    headers: int = 0
    timestamps: int = 0
    #: How many transaction `markers` and how many records of `uncommitted` transactions were omitted.
    markers: int = 0
    uncommitted: int = 0
    #: The number of batches that lost their producer id, epoch and sequence numbers.
    producers: int = 0
    damaged: int = 0
    damaged_bytes: int = 0


@dataclass(slots=True)
class ConvertLine:
    """The conversion counts of one partition."""

    topic: str
    partition: int
    segments: int = 0
    log_end_offset: int = 0
    counts: ConvertCounts = field(default_factory=ConvertCounts)


@dataclass(slots=True)
class ConvertReport:
    """The report on the conversion of all partitions, ordered by topic and partition."""

    lines: list[ConvertLine] = field(default_factory=list[ConvertLine])

    @property
    def total(self) -> ConvertCounts:
        """The total counts of all partitions."""
        return ConvertCounts.sum_of(line.counts for line in self.lines)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {"total": as_json(self.total), "partitions": [as_json(line) for line in self.lines]}

    def as_text(self) -> str:
        """Return a table and a list of everything that was lost."""
        titles = ("topic", "partition", "entries", "after", "bytes", "after", "copied", "recompressed", "rebuilt")
        rows = [[line.topic, str(line.partition), *_count_cells(line.counts)] for line in self.lines]
        total = self.total
        text = text_table(titles, [*rows, ["total", "", *_count_cells(total)]], left=(0,))
        lost = [(name, getattr(total, name)) for name in _LOSS_TEXTS]
        return text + "".join(f"left out: {_LOSS_TEXTS[name].format(count)}\n" for name, count in lost if count)


def _count_cells(counts: ConvertCounts) -> list[str]:
    return [
        f"{counts.entries_before:,}",
        f"{counts.entries_after:,}",
        bytes_text(counts.bytes_before),
        bytes_text(counts.bytes_after),
        *(f"{count:,}" for count in (counts.copied, counts.recompressed, counts.rebuilt)),
    ]
