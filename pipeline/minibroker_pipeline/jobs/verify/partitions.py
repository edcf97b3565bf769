"""The checks between segments: no gaps, no overlaps, nothing lost that a checkpoint knows of."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from minibroker_pipeline.jobs.verify.directories import Partition
from minibroker_pipeline.jobs.verify.findings import RESTORE, Finding, Findings, What
from minibroker_pipeline.jobs.verify.segments import SegmentFacts
from minibroker_pipeline.jobs.verify.transactions import check_transactions
from minibroker_pipeline.log_directories.partition_logs import KAFKAS_TOPICS
from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.data_directory.names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, LOG_SUFFIX

_GAP_REMEDY: Final = (
    "take the records from another replica or a backup; if the topic is compacted, name it with --compacted"
)


def check_partition(partition: Partition, segments: Sequence[SegmentFacts], compacted: Sequence[str]) -> list[Finding]:
    """`segments` ascend. `compacted` are patterns of topics that may have gaps."""
    below = compacted_below(partition, compacted)
    found: list[Finding] = []
    for findings in (
        *_between(segments, below),
        _lost(partition, segments),
        _epochs(partition, segments),
        *check_transactions(segments, _log_start(partition), is_compacted=below > 0),
    ):
        found += findings
    return found


def _log_start(partition: Partition) -> int:
    return partition.data.offset_in(LOG_START_OFFSETS, partition.topic, partition.partition) or 0


def compacted_below(partition: Partition, patterns: Sequence[str]) -> int:
    """Below this offset compaction may have taken records out."""
    topic = partition.topic
    if topic in KAFKAS_TOPICS or any(fnmatchcase(topic, pattern) for pattern in patterns):
        return INT64_MAX
    return partition.data.offset_in(CLEANER_OFFSETS, topic, partition.partition) or 0


def _between(segments: Sequence[SegmentFacts], compacted_to: int) -> Iterator[Findings]:
    end, is_known = segments[0].task.base_offset if segments else 0, True
    for facts in segments:
        found = Findings(facts.task.address + LOG_SUFFIX)
        base = facts.task.base_offset
        if is_known and base < end:
            message = f"begins at offset {base}, but the segment before it ends at {end}"
            found.add(What.OFFSETS, None, message, RESTORE)
        if is_known and base > end >= compacted_to:
            message = f"offsets {end} to {base - 1} are missing: the segment before it ends there"
            found.add(What.GAP, None, message, _GAP_REMEDY)
        for gap in facts.gaps:
            if gap.first >= compacted_to:
                message = f"offsets {gap.first} to {gap.end - 1} are missing"
                found.add(What.GAP, gap.position, message, _GAP_REMEDY)
        yield found
        end, is_known = facts.end_offset, not facts.ends_in_damage


def _lost(partition: Partition, segments: Sequence[SegmentFacts]) -> Findings:
    """Offsets that a small file knows of and the log does not reach."""
    if not segments:
        return Findings(partition.directory)
    last = segments[-1]
    found = Findings(last.task.address + LOG_SUFFIX)
    knows = {
        "the high watermark": partition.data.offset_in(HIGH_WATERMARKS, partition.topic, partition.partition),
        "the recovery point": partition.data.offset_in(RECOVERY_POINTS, partition.topic, partition.partition),
        "the log start offset": partition.data.offset_in(LOG_START_OFFSETS, partition.topic, partition.partition),
        "a producer snapshot": max(partition.snapshots, default=0),
    }
    known, offset = max(((name, offset or 0) for name, offset in knows.items()), key=lambda pair: pair[1])
    if offset > last.end_offset:
        message = f"the log ends at offset {last.end_offset}, but {known} is {offset}: what is between is lost"
        found.add(What.LOST, last.size, message, RESTORE)
    return found


def _epochs(partition: Partition, segments: Sequence[SegmentFacts]) -> Findings:
    """Leader epochs rise, and are what the checkpoint says."""
    found = Findings(f"{partition.data.scheme}{partition.directory}/{LEADER_EPOCH_CHECKPOINT}")
    starts = [entry.start_offset for entry in partition.epochs]
    latest = -1
    for facts in segments:
        path = facts.task.address + LOG_SUFFIX
        for epoch, offset, position in facts.epochs:
            slot = bisect_right(starts, offset) - 1
            says = partition.epochs[slot].epoch if slot >= 0 else epoch
            if epoch < latest:
                message = f"offset {offset}: leader epoch {epoch} after {latest}"
            elif says != epoch and not (facts.task.is_open and epoch > says):
                message = f"offset {offset}: leader epoch {epoch}, but {LEADER_EPOCH_CHECKPOINT} has {says} there"
            else:
                latest = epoch
                continue
            found.add(What.EPOCH, position, message, RESTORE, path=path)
    return found
