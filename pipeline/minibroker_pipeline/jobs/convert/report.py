"""The report of a conversion."""

from dataclasses import dataclass, field
from typing import Any, Final

from minibroker_pipeline.jobs.reports import Sums, as_json, bytes_text, text_table

_LOST: Final = {
    "headers": "{:,} records had headers",
    "timestamps": "{:,} records had timestamps that the format has no place for",
    "markers": "{:,} transaction markers",
    "uncommitted": "{:,} records of aborted and open transactions",
    "producers": "{:,} batches were an idempotent or transactional producer's",
    "damaged": "{:,} damaged entries, or stretches of bytes",
}
"""The counts that are losses, each with its words in the report."""


@dataclass(slots=True)
class ConvertCounts(Sums):
    """Counts of a log, or of a part of one. Entries are v2 batches, and of v0 and v1 messages and wrappers."""

    entries_before: int = 0
    entries_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    #: Entries that were copied; those with another compression only; those whose records were written again.
    copied: int = 0
    recompressed: int = 0
    rebuilt: int = 0
    #: Records that had headers, or timestamps.
    headers: int = 0
    timestamps: int = 0
    #: Entries with transaction markers, and records of transactions that were not committed.
    markers: int = 0
    uncommitted: int = 0
    #: Batches that were a producer's, and are not any more.
    producers: int = 0
    damaged: int = 0
    damaged_bytes: int = 0


@dataclass(slots=True)
class ConvertLine:
    """A partition."""

    topic: str
    partition: int
    segments: int = 0
    log_end_offset: int = 0
    counts: ConvertCounts = field(default_factory=ConvertCounts)


@dataclass(slots=True)
class ConvertReport:
    """All partitions, in the order of topics and partitions."""

    lines: list[ConvertLine] = field(default_factory=list[ConvertLine])

    @property
    def total(self) -> ConvertCounts:
        """Of all partitions."""
        return ConvertCounts.sum_of(line.counts for line in self.lines)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"total": as_json(self.total), "partitions": [as_json(line) for line in self.lines]}

    def as_text(self) -> str:
        """A table, and what has been lost."""
        titles = ("topic", "partition", "entries", "after", "bytes", "after", "copied", "recompressed", "rebuilt")
        rows = [[line.topic, str(line.partition), *_cells(line.counts)] for line in self.lines]
        total = self.total
        text = text_table(titles, [*rows, ["total", "", *_cells(total)]], left=(0,))
        lost = [(name, getattr(total, name)) for name in _LOST]
        return text + "".join(f"left out: {_LOST[name].format(count)}\n" for name, count in lost if count)


def _cells(counts: ConvertCounts) -> list[str]:
    return [
        f"{counts.entries_before:,}",
        f"{counts.entries_after:,}",
        bytes_text(counts.bytes_before),
        bytes_text(counts.bytes_after),
        *(f"{count:,}" for count in (counts.copied, counts.recompressed, counts.rebuilt)),
    ]
