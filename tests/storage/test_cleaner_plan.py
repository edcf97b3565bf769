"""The dirty ratio of a log, its cleanable part, and the cleaning plan."""

import os
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import BatchHeader, read_header
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.cleaner import CleaningPlan, find_cleanable, plan_cleaning
from minibroker_storage.cleaner.plan import ActiveProducer
from minibroker_storage.config import LogConfig
from minibroker_storage.layout import create_partition_directory
from minibroker_storage.log import Log
from tests.storage.cleaning import marker
from tests.storage.helpers import NOW, TOPIC_ID, open_log

CONFIG = LogConfig(segment_bytes=1 << 20, compact=True, delete=False, min_cleanable_dirty_ratio=0.5)


def a_log(tmp_path: Path, config: LogConfig = CONFIG) -> Log:
    create_partition_directory(str(tmp_path / "orders-0"), TOPIC_ID)
    return open_log(tmp_path / "orders-0", config)


def append(log: Log, timestamp: int = NOW, size: int = 20, **fields: Any) -> BatchHeader:
    data = memoryview(build_batch([NewRecord(b"key", b"v" * size, timestamp)], **fields))
    header = read_header(data)
    log.append(data, header, 0, NOW)
    log.commit()
    return header


def segments(log: Log, *timestamps: int) -> Log:
    """Append one record each to new segments, then begin an empty one."""
    for timestamp in timestamps:
        append(log, timestamp)
        log.roll(NOW)
    return log


@pytest.mark.parametrize("checkpoint", [-1, 0, 4, 1000])
def test_a_checkpoint_outside_of_the_log_begins_anew(tmp_path: Path, checkpoint: int) -> None:
    log = segments(a_log(tmp_path), NOW, NOW, NOW)
    log.advance_log_start_offset(1)
    cleanable = find_cleanable(log, checkpoint, NOW)
    assert cleanable.first_dirty_offset == 1
    assert cleanable.checkpoint_is_wrong
    assert not find_cleanable(log, 3, NOW).checkpoint_is_wrong


def test_without_timestamps_the_minimum_lag_counts_from_the_files(tmp_path: Path) -> None:
    log = segments(a_log(tmp_path, LogConfig(compact=True, min_compaction_lag_ms=1000)), -1)
    os.utime(log.segments[0].log.path, ns=((NOW + 500) * 1_000_000,) * 2)
    ends = [find_cleanable(log, None, NOW + later).first_uncleanable_offset for later in (1499, 1500)]
    assert ends == [0, 1]


def test_the_plan_tells_all_that_a_cleaning_has_to_know(tmp_path: Path) -> None:
    log = segments(a_log(tmp_path, LogConfig(compact=True, delete_retention_ms=77, segment_bytes=5000)), NOW, NOW)
    append(log, producer_id=3, producer_epoch=1, base_sequence=0)
    append(log, producer_id=3, producer_epoch=1, base_sequence=1)
    log.roll(NOW)
    end = marker(4, 5, commit=False, epoch=2)
    log.append(memoryview(bytearray(end.data)), end.header, 0, NOW)
    log.commit()
    for number, segment in enumerate(log.segments):
        os.utime(segment.log.path, ns=((NOW + number) * 1_000_000,) * 2)
    plan = plan_cleaning(log, 2, NOW + 9, dedupe_buffer_bytes=2400, io_bytes_per_second=5.0, force=True)
    assert plan is not None
    assert CleaningPlan.from_json(plan.to_json()) == plan
    assert [segment.base_offset for segment in plan.segments] == [0, 1, 2]
    assert [segment.size for segment in plan.segments] == [segment.size for segment in log.segments[:3]]
    assert plan.segments[0].time_index_size == 12
    assert plan.later_segments == (4,)
    assert sorted(plan.producers) == [ActiveProducer(3, 3, 1), ActiveProducer(5, -1, 2)]
    assert (plan.first_dirty_offset, plan.first_uncleanable_offset, plan.now_ms) == (2, 4, NOW + 9)
    assert (plan.delete_retention_ms, plan.legacy_delete_horizon_ms) == (77, NOW + 1 - 77)
    assert (plan.max_map_entries, plan.io_bytes_per_second) == (90, 5.0)
    assert (plan.segment_bytes, plan.index_interval_bytes) == (5000, 4096)


def test_old_tombstones_all_stay_in_a_log_that_was_never_cleaned(tmp_path: Path) -> None:
    plan = plan_cleaning(segments(a_log(tmp_path), NOW), None, NOW)
    assert plan is not None
    assert plan.legacy_delete_horizon_ms == 0


def test_a_buffer_that_holds_no_key_is_refused(tmp_path: Path) -> None:
    log = segments(a_log(tmp_path), NOW)
    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size: 24 bytes"):
        plan_cleaning(log, None, NOW, dedupe_buffer_bytes=24)
    plan = plan_cleaning(log, None, NOW, dedupe_buffer_bytes=48)
    assert plan is not None
    assert plan.max_map_entries == 1
