"""The report of a compaction."""

from dataclasses import asdict, dataclass, field
from typing import Any

from minibroker_pipeline.jobs.compact.rewriting import Tally
from minibroker_pipeline.jobs.text_table import bytes_text, text_table


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """One partition. `tally` is of the segments that were cleaned; the others were copied.

    `cleaned_offset` is what cleaner-offset-checkpoint says of it now, None if it was never cleaned.
    """

    topic: str
    partition: int
    segments_before: int
    segments_after: int
    cleaned_offset: int | None
    tally: Tally

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "segmentsBefore": self.segments_before,
            "segmentsAfter": self.segments_after,
            "cleanedOffset": self.cleaned_offset,
            **_tally_json(self.tally),
        }


@dataclass(slots=True)
class CompactReport:
    """All partitions that were written."""

    target: str
    logs: list[CompactedLog] = field(default_factory=list[CompactedLog])

    @property
    def total(self) -> Tally:
        """Of all logs."""
        total = Tally()
        for log in self.logs:
            total.add(log.tally)
        return total

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "target": self.target,
            "logs": [log.as_json() for log in self.logs],
            "total": _tally_json(self.total),
        }

    def as_text(self) -> str:
        """A table, and a line that sums up."""
        titles = ("topic", "partition", "segments", "records", "stay", "no key", "aborted", "bytes", "become")
        rows = [
            [
                log.topic,
                f"{log.partition}",
                f"{log.segments_before} > {log.segments_after}",
                f"{log.tally.records_before:,}",
                f"{log.tally.records_after:,}",
                f"{log.tally.without_key:,}",
                f"{log.tally.aborted:,}",
                bytes_text(log.tally.bytes_before),
                bytes_text(log.tally.bytes_after),
            ]
            for log in self.logs
        ]
        total = self.total
        return (
            (text_table(titles, rows, left=(0,)) + "\n" if rows else "")
            + f"{len(self.logs):,} partitions in {self.target}: of {total.records_before:,} records in segments that"
            f" could be compacted {total.records_after:,} stay, of {bytes_text(total.bytes_before)}"
            f" {bytes_text(total.bytes_after)}\n"
        )


def _tally_json(tally: Tally) -> dict[str, int]:
    counts = asdict(tally)
    return {_camel(name): count for name, count in counts.items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)
