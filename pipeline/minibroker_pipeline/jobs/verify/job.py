"""Verifies all directories and segments, and checks that they are consistent with each other."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from minibroker_pipeline.jobs.reports import bytes_text, text_table
from minibroker_pipeline.jobs.task_runner import SCANNED_BYTES_PER_PROCESS, run_tasks
from minibroker_pipeline.jobs.verify.directories import Partition, find_at, list_partition
from minibroker_pipeline.jobs.verify.findings import Finding, Kind
from minibroker_pipeline.jobs.verify.partitions import check_partition, find_compacted_end
from minibroker_pipeline.jobs.verify.segments import SegmentFacts, SegmentTask, check_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATTEMPTS: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifySettings:
    """The settings of a verification: facts that the files do not contain.

    Attributes:
        topics: the topics to check, or empty for all.
        compacted: patterns (with `*` and `?`) for names of topics whose logs may have gaps. Internal topics may
            always have gaps, and so may all topics below their offset in cleaner-offset-checkpoint.
        index_interval_bytes: `index.interval.bytes` of the topics. If it is set, any entry missing at the end of an
            offset index is reported. Otherwise, missing entries are reported only if there are unusually many.
    """

    topics: tuple[str, ...] = ()
    compacted: tuple[str, ...] = ()
    index_interval_bytes: int | None = None


@dataclass(slots=True)
class VerifyReport:
    """The findings of `verify`, and the counts of the items that were checked."""

    findings: list[Finding] = field(default_factory=list[Finding])
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0

    @property
    def damage(self) -> list[Finding]:
        """The findings that are damage: brokers do not repair them."""
        return [finding for finding in self.findings if finding.is_damage]

    @property
    def is_sound(self) -> bool:
        """Whether no damage was found."""
        return not self.damage

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        counts = {name: getattr(self, name) for name in ("partitions", "segments", "batches", "records", "bytes")}
        return {"sound": self.is_sound, **counts, "findings": [_finding_json(finding) for finding in self.findings]}

    def as_text(self) -> str:
        """Return a table of the findings and a summary line."""
        rows = [
            [
                "damage" if finding.is_damage else "note",
                finding.path,
                "" if finding.position is None else f"{finding.position}",
                finding.what.value,
                f"{finding.message}; {finding.remedy}",
            ]
            for finding in self.findings
        ]
        table = text_table(("", "file", "byte", "what", "what is found; what to do"), rows, left=(0, 1, 3, 4))
        damage = len(self.damage)
        return (
            (table + "\n" if rows else "")
            + f"{self.partitions:,} partitions, {self.segments:,} segments, {self.batches:,} batches,"
            f" {self.records:,} records, {bytes_text(self.bytes)}: "
            + (f"{damage:,} cases of damage\n" if damage else "no damage\n")
        )


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.path,
        "position": finding.position,
        "what": finding.what.value,
        "message": finding.message,
        "remedy": finding.remedy,
        "damage": finding.is_damage,
    }


def verify(
    paths: Sequence[str],
    settings: VerifySettings | None = None,
    *,
    spark: "SparkSession | None" = None,
    processes: int | None = None,
) -> VerifyReport:
    """Look for damage in data directories, or in directories of single partitions. Nothing is changed.

    A broker may be writing there. Its newest segment may then end with an incomplete entry, and the indexes of that
    segment may have unused space. Both count as damage if `.kafka_cleanshutdown` marks the logs as closed.

    Args:
        paths: directories of this machine, or addresses that fsspec supports.
        settings: see `VerifySettings`.
        spark: the session that runs the tasks. Without a session, the tasks run in local `processes`.
        processes: the maximum number of processes, or None for one per CPU if there is enough to read.

    Raises:
        ValueError: a named topic is in none of the directories.
        OSError: a directory or a file cannot be read.
    """
    settings = settings or VerifySettings()
    report = VerifyReport()
    directory_findings: list[Finding] = []
    partitions = [partition for path in paths for partition in find_at(path, directory_findings)]
    missing = set(settings.topics) - {partition.topic for partition in partitions}
    if missing:
        raise ValueError(f"there is no topic {min(missing)!r} in {', '.join(paths)}")
    if settings.topics:
        partitions = [partition for partition in partitions if partition.topic in settings.topics]
    else:
        report.findings = directory_findings
    for attempt in range(_ATTEMPTS):
        checks = [check for check in map(_PartitionCheck, partitions) if check.exists]
        _check_all(checks, settings, spark, processes)
        partitions = []
        for check in checks:
            if attempt + 1 < _ATTEMPTS and check.needs_recheck(is_first=not attempt):
                partitions.append(check.partition)
            else:
                check.add_to(report)
        if not partitions:
            break
    report.findings.sort(
        key=lambda item: (not item.is_damage, item.path, -1 if item.position is None else item.position)
    )
    return report


class _PartitionCheck:
    """A single check of a partition."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.findings: list[Finding] = []
        self.facts: list[SegmentFacts] = []
        self.exists = True
        try:
            self.findings += list_partition(partition)
        except FileNotFoundError:
            self.exists = False
        self._state = partition.state()

    def tasks(self, settings: VerifySettings) -> list[SegmentTask]:
        partition = self.partition
        compacted_end = find_compacted_end(partition, settings.compacted)
        next_bases = [*(segment.base_offset for segment in partition.segments[1:]), None][: len(partition.segments)]
        return [
            SegmentTask(
                partition.data.filesystem,
                stem := f"{partition.directory}/{segment.base_offset:020d}",
                partition.data.scheme + stem,
                segment.base_offset,
                segment.size,
                next_base,
                segment.indexes,
                next_base is None and not partition.data.is_clean,
                segment.base_offset >= compacted_end,
                settings.index_interval_bytes,
            )
            for segment, next_base in zip(partition.segments, next_bases, strict=True)
        ]

    def needs_recheck(self, *, is_first: bool) -> bool:
        """Return whether apparent damage may be the result of compaction or retention during the check.

        Compaction replaces a log before its offset is in the checkpoint.
        """
        damage = [finding for finding in self.findings if finding.is_damage]
        is_gap = is_first and not self.partition.data.is_clean and any(item.what is Kind.GAP for item in damage)
        return bool(damage) and (is_gap or self._has_changed())

    def _has_changed(self) -> bool:
        """Return whether segments were added or removed since the listing.

        A deleted directory counts as changed, too.
        """
        current = replace(self.partition)
        try:
            list_partition(current)
        except FileNotFoundError:
            return True
        return current.state() != self._state

    def add_to(self, report: VerifyReport) -> None:
        report.findings += self.findings
        report.partitions += 1
        report.segments += len(self.facts)
        for facts in self.facts:
            report.batches += facts.batches
            report.records += facts.records
            report.bytes += facts.size


def _check_all(
    checks: Sequence[_PartitionCheck], settings: VerifySettings, spark: "SparkSession | None", processes: int | None
) -> None:
    tasks = {task.address: (task, check) for check in checks for task in check.tasks(settings)}
    segments = [task for task, _ in tasks.values()]
    for facts in run_tasks(
        check_segment,
        segments,
        [task.size for task in segments],
        label=("verify", "segments"),
        spark=spark,
        processes=processes,
        bytes_per_process=SCANNED_BYTES_PER_PROCESS,
    ):
        if facts is not None:
            tasks[facts.task.address][1].facts.append(facts)
    for data in {id(check.partition.data): check.partition.data for check in checks}.values():
        data.read_cleaner_offsets()
    for check in checks:
        check.facts.sort(key=lambda facts: facts.task.base_offset)
        check.findings += [finding for facts in check.facts for finding in facts.findings]
        check.findings += check_partition(check.partition, check.facts, settings.compacted)
