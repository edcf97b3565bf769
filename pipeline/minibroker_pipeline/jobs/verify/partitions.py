"""Checks the segments of a partition together: no gaps, no overlaps, and no loss of offsets known from a checkpoint."""

from bisect import bisect_right
from collections.abc import Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Final, NamedTuple

from minibroker_pipeline.jobs.verify.directories import Partition
from minibroker_pipeline.jobs.verify.findings import REBUILD, RESTORE, Finding, Findings, Kind
from minibroker_pipeline.jobs.verify.segments import SegmentFacts
from minibroker_pipeline.log_directories.partition_logs import KAFKAS_TOPICS, TXN_ENTRY_BYTES
from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.data_directory.names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, LOG_SUFFIX, TXN_INDEX_SUFFIX
from minibroker_storage.transaction_index import AbortedTxn

_GAP_REMEDY: Final = (
    "take the records from another replica or a backup; if the topic is compacted, name it with --compacted"
)


def check_partition(partition: Partition, segments: Sequence[SegmentFacts], compacted: Sequence[str]) -> list[Finding]:
    """Check the ascending segments of a partition. `compacted` has patterns for topics that may have gaps."""
    compacted_end = find_compacted_end(partition, compacted)
    log_start = partition.data.offset_in(LOG_START_OFFSETS, partition.topic, partition.partition) or 0
    all_findings = (
        *_check_continuity(segments, compacted_end),
        _check_end(partition, segments),
        _check_epochs(partition, segments),
        *check_transactions(segments, log_start, is_compacted=compacted_end > 0),
    )
    return [finding for findings in all_findings for finding in findings]


def find_compacted_end(partition: Partition, patterns: Sequence[str]) -> int:
    """Return the offset below which compaction may have removed records."""
    topic = partition.topic
    if topic in KAFKAS_TOPICS or any(fnmatchcase(topic, pattern) for pattern in patterns):
        return INT64_MAX
    return partition.data.offset_in(CLEANER_OFFSETS, topic, partition.partition) or 0


def _check_continuity(segments: Sequence[SegmentFacts], compacted_to: int) -> list[Findings]:
    all_findings: list[Findings] = []
    end, is_known = segments[0].task.base_offset if segments else 0, True
    for facts in segments:
        findings = Findings(facts.task.address + LOG_SUFFIX)
        base = facts.task.base_offset
        if is_known and base < end:
            message = f"begins at offset {base}, but the segment before it ends at {end}"
            findings.add(Kind.OFFSETS, None, message, RESTORE)
        if is_known and base > end >= compacted_to:
            message = f"offsets {end} to {base - 1} are missing: the segment before it ends there"
            findings.add(Kind.GAP, None, message, _GAP_REMEDY)
        for gap in facts.gaps:
            if gap.first >= compacted_to:
                message = f"offsets {gap.first} to {gap.end - 1} are missing"
                findings.add(Kind.GAP, gap.position, message, _GAP_REMEDY)
        all_findings.append(findings)
        end, is_known = facts.end_offset, not facts.ends_in_damage
    return all_findings


def _check_end(partition: Partition, segments: Sequence[SegmentFacts]) -> Findings:
    """Find offsets that a small file names but the log does not reach."""
    if not segments:
        return Findings(partition.directory)
    last = segments[-1]
    findings = Findings(last.task.address + LOG_SUFFIX)
    checkpoints = {
        "the high watermark": HIGH_WATERMARKS,
        "the recovery point": RECOVERY_POINTS,
        "the log start offset": LOG_START_OFFSETS,
    }
    key = partition.topic, partition.partition
    offsets = {name: partition.data.offset_in(checkpoint, *key) or 0 for name, checkpoint in checkpoints.items()}
    offsets["a producer snapshot"] = max(partition.snapshots, default=0)
    source, offset = max(offsets.items(), key=itemgetter(1))
    if offset > last.end_offset:
        message = f"the log ends at offset {last.end_offset}, but {source} is {offset}: what is between is lost"
        findings.add(Kind.LOST, last.size, message, RESTORE)
    return findings


def _check_epochs(partition: Partition, segments: Sequence[SegmentFacts]) -> Findings:
    """Check that leader epochs ascend and match the checkpoint."""
    findings = Findings(f"{partition.data.scheme}{partition.directory}/{LEADER_EPOCH_CHECKPOINT}")
    starts = [entry.start_offset for entry in partition.epochs]
    latest = -1
    for facts in segments:
        path = facts.task.address + LOG_SUFFIX
        for epoch, offset, position in facts.epochs:
            slot = bisect_right(starts, offset) - 1
            expected = partition.epochs[slot].epoch if slot >= 0 else epoch
            if epoch < latest:
                message = f"offset {offset}: leader epoch {epoch} after {latest}"
            elif expected != epoch and not (facts.task.is_open and epoch > expected):
                message = f"offset {offset}: leader epoch {epoch}, but {LEADER_EPOCH_CHECKPOINT} has {expected} there"
            else:
                latest = epoch
                continue
            findings.add(Kind.EPOCH, position, message, RESTORE, path=path)
    return findings


_UNKNOWN: Final = -1


class _Marker(NamedTuple):
    """An abort marker, and the transaction that it ends, as found in the log.

    `first_offset` may be `_UNKNOWN`.
    """

    producer_id: int
    first_offset: int
    last_stable_offset: int


def check_transactions(segments: Sequence[SegmentFacts], log_start: int, *, is_compacted: bool) -> list[Findings]:
    """Check that each abort marker that ends a transaction has a matching index entry, and each index entry a marker.

    A log that is compacted, or whose beginning was deleted, contains fewer transactions than its indexes. For such
    a log, less is checked.
    """
    if not segments:
        return []
    is_whole = not is_compacted and not log_start and not segments[0].task.base_offset
    open_since: dict[int, int] = {}
    return [
        _check_index(facts, _find_markers(facts, open_since, log_start), is_whole=is_whole, is_compacted=is_compacted)
        for facts in segments
    ]


def _find_markers(facts: SegmentFacts, open_since: dict[int, int], log_start: int) -> dict[int, _Marker]:
    """Return the abort markers of a segment by offset. `open_since` is updated to the end of the segment."""
    markers: dict[int, _Marker] = {}
    for producer, offset, _, is_abort in facts.transactions:
        if is_abort is None:
            open_since.setdefault(producer, offset)
            continue
        first = open_since.pop(producer, _UNKNOWN)
        if is_abort:
            stable = min(open_since.values(), default=offset + 1)
            markers[offset] = _Marker(producer, first if first >= log_start else _UNKNOWN, stable)
    return markers


def _check_index(facts: SegmentFacts, markers: dict[int, _Marker], *, is_whole: bool, is_compacted: bool) -> Findings:
    task = facts.task
    findings = Findings(task.address + TXN_INDEX_SUFFIX)
    if facts.aborted is not None and not is_compacted:
        _check_missing(facts, facts.aborted, markers, findings)
    previous_last = task.base_offset - 1
    for slot, entry in enumerate(facts.aborted or ()):
        if entry.last_offset >= facts.end_offset and task.is_open:
            break  # The entry was written after the log was read.
        message = _describe_entry_fault(
            entry, previous_last, markers, facts, is_whole=is_whole, is_compacted=is_compacted
        )
        if message:
            findings.add(Kind.TRANSACTION_INDEX, slot * TXN_ENTRY_BYTES, message, REBUILD)
        previous_last = max(previous_last, entry.last_offset)
    return findings


def _check_missing(
    facts: SegmentFacts, aborted: list[AbortedTxn], markers: dict[int, _Marker], findings: Findings
) -> None:
    indexed = {entry.last_offset for entry in aborted}
    for offset, marker in markers.items():
        if offset not in indexed and marker.first_offset != _UNKNOWN:
            message = (
                f"lacks the aborted transaction of producer {marker.producer_id}, offsets {marker.first_offset} to"
                f" {offset}: readers of committed records would see it"
            )
            findings.add(Kind.TRANSACTION_INDEX, None, message, REBUILD, is_damage=not facts.task.is_open)


def _describe_entry_fault(
    entry: AbortedTxn,
    previous_last: int,
    markers: dict[int, _Marker],
    facts: SegmentFacts,
    *,
    is_whole: bool,
    is_compacted: bool,
) -> str:
    """Return the fault of an index entry, or an empty string."""
    span = f"producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}"
    next_base = facts.task.next_base
    end = facts.end_offset if next_base is None else next_base
    if not previous_last < entry.last_offset < end or entry.first_offset > entry.last_offset:
        return f"{span}: it ends outside the segment, before it begins, or before the entry before it"
    marker = markers.get(entry.last_offset)
    # A missing marker may have been destroyed by damage to the log.
    is_lost = marker is None and any(item.is_damage and item.what in _LOG_FINDINGS for item in facts.findings)
    if is_compacted or is_lost:
        return ""
    if marker is None or marker.producer_id != entry.producer_id:
        return f"{span}: the log has no abort marker of this producer at its end"
    if marker.first_offset not in {_UNKNOWN, entry.first_offset}:
        return f"{span}: it begins at {marker.first_offset}"
    if is_whole and entry.last_stable_offset != marker.last_stable_offset:
        return (
            f"{span}: the last stable offset is {marker.last_stable_offset}, the entry has {entry.last_stable_offset}"
        )
    return ""


_LOG_FINDINGS: Final = (Kind.CHECKSUM, Kind.ENTRY, Kind.RECORDS, Kind.TORN)
