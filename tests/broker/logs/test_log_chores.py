"""The logs of a broker outside requests: retention, flushing, checkpoints and their failures.

The checkpoints contain offsets of all logs.
"""

import errno
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster.logs.chores import Checkpoints
from minibroker.cluster.partition import Partition
from minibroker.config import TopicConfig
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.log import Log
from tests.broker.harness import Harness, batch
from tests.broker.logs.world import (
    BROKER,
    HOUR_MS,
    MINUTE_MS,
    Make,
    Openings,
    checkpoint,
    deleted_files,
    fill,
    log_of,
    machine_crash,
    partition_of,
    pass_time,
    segments,
)


def test_old_segments_go_when_their_time_is_over(configured: Make) -> None:
    harness = configured(BROKER | {"log.retention.ms": str(HOUR_MS)})
    fill(harness)
    before = segments(harness)
    pass_time(harness, HOUR_MS - 10 * MINUTE_MS)
    assert segments(harness) == before
    fill(harness, count=1)
    pass_time(harness, 20 * MINUTE_MS)
    remaining = segments(harness)
    assert len(remaining) < len(before)
    assert harness.fetch_one(0).error_code == 1
    assert harness.fetch_one(remaining[0]).log_start_offset == remaining[0]


def test_the_retention_of_a_topic_is_its_own(configured: Make) -> None:
    harness = configured(BROKER)
    harness.create("small", 1, retention_bytes="300")
    harness.create("brief", 1, retention_ms="1000")
    for name in ("t", "small", "brief"):
        fill(harness, name)
    pass_time(harness, MINUTE_MS)
    assert [len(segments(harness, name)) for name in ("t", "small", "brief")] == [5, 2, 1]
    assert [log_of(harness, name).log_start_offset for name in ("t", "small", "brief")] == [0, 6, 10]


def test_retention_also_finds_logs_that_nobody_has_opened(configured: Make) -> None:
    harness = configured(BROKER | {"log.retention.bytes": "300"})
    fill(harness)
    before = segments(harness)
    harness.restart()
    pass_time(harness, 29_000)
    assert segments(harness) == before
    pass_time(harness, 2_000)
    assert len(segments(harness)) == 2


@pytest.mark.parametrize(
    ("config", "due_ms"),
    [({}, 30_000), ({"log.retention.check.interval.ms": "500"}, 500), ({"log.initial.task.delay.ms": "7000"}, 7_000)],
)
def test_the_first_round_comes_soon(configured: Make, config: dict[str, str], due_ms: int) -> None:
    harness = configured(BROKER | {"log.retention.bytes": "300"} | config)
    fill(harness)
    pass_time(harness, due_ms - 1)
    assert len(segments(harness)) == 5
    pass_time(harness, 1)
    assert len(segments(harness)) == 2


def test_deleted_files_stay_for_a_while_under_another_name(configured: Make) -> None:
    harness = configured(BROKER | {"log.retention.bytes": "300"})
    harness.create("hurry", 1, file_delete_delay_ms="0")
    fill(harness)
    fill(harness, "hurry")
    assert harness.core.logs.apply_retention() == 6
    assert len(deleted_files(harness)) >= 3
    pass_time(harness, 1)
    assert deleted_files(harness, "hurry") == []
    pass_time(harness, MINUTE_MS - 2)
    assert len(deleted_files(harness)) >= 3
    pass_time(harness, 1)
    assert deleted_files(harness) == []


def test_deleted_files_that_a_stop_has_left_behind_go_when_the_log_is_opened(configured: Make) -> None:
    harness = configured(BROKER | {"log.retention.bytes": "300"})
    fill(harness)
    harness.core.logs.apply_retention()
    harness.restart()
    assert deleted_files(harness)
    pass_time(harness, MINUTE_MS)
    assert deleted_files(harness) == []


def test_a_log_that_fails_is_named_once_and_the_others_are_looked_after(
    configured: Make, monkeypatch: pytest.MonkeyPatch, errors: Callable[[], list[str]]
) -> None:
    harness = configured(BROKER | {"log.retention.bytes": "300"})
    harness.create("u")
    fill(harness)
    fill(harness, "u")
    real = Log.delete_old_segments

    def failing(self: Log, now_ms: int) -> int:
        if self.directory.endswith("t-0"):
            raise OSError(errno.EIO, "Input/output error")
        return real(self, now_ms)

    with monkeypatch.context() as patched:
        patched.setattr(Log, "delete_old_segments", failing)
        pass_time(harness, HOUR_MS)
    assert len(segments(harness, "u")) == 2
    assert len(errors()) == 1
    assert "t-0" in errors()[0]
    pass_time(harness, HOUR_MS)
    assert len(segments(harness)) == 2


def test_a_topic_that_is_deleted_between_two_slices_is_no_fault(
    configured: Make, monkeypatch: pytest.MonkeyPatch, errors: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr("minibroker.cluster.logs.chores._SLICE_S", -1.0)
    harness = configured(BROKER | {"log.retention.bytes": "300"})
    harness.create("u", 2)
    harness.create("v")
    for name, index in (("t", 0), ("u", 0), ("u", 1), ("v", 0)):
        fill(harness, name, index)
    harness.clock.advance(30_000)
    for _ in range(6):
        harness._soon.pop(0)()
    harness.delete("u")
    harness.run_soon()
    assert len(segments(harness, "v")) == 2
    assert errors() == []


def test_a_log_is_forced_to_disk_after_flush_ms(configured: Make) -> None:
    harness = configured({})
    harness.create("u", 1, flush_ms="1000")
    fill(harness)
    fill(harness, "u")
    assert [log_of(harness, name).recovery_point for name in "tu"] == [0, 0]
    pass_time(harness, 1000)
    assert [log_of(harness, name).recovery_point for name in "tu"] == [0, 10]
    fill(harness, "u", count=1)
    pass_time(harness, 999)
    assert log_of(harness, "u").recovery_point == 10
    pass_time(harness, 1)
    assert log_of(harness, "u").recovery_point == 11


def test_the_flush_scheduler_flushes_the_logs_of_all_topics(configured: Make) -> None:
    harness = configured({"log.flush.scheduler.interval.ms": "5000"})
    fill(harness)
    pass_time(harness, 4_999)
    assert log_of(harness).recovery_point == 0
    pass_time(harness, 1)
    assert log_of(harness).recovery_point == 10


def test_recovery_points_are_noted_and_closed_segments_forced_to_disk(configured: Make) -> None:
    harness = configured(BROKER)
    harness.create("one-segment", 1, segment_bytes="100000")
    fill(harness)
    fill(harness, "one-segment")
    pass_time(harness, 30_000)
    assert checkpoint(harness, "recovery-point") == {("t", 0): 10, ("one-segment", 0): 0}
    assert checkpoint(harness, "replication") == {("t", 0): 10, ("one-segment", 0): 10}
    fill(harness)
    pass_time(harness, MINUTE_MS)
    assert checkpoint(harness, "recovery-point") == {("t", 0): 20, ("one-segment", 0): 0}


def test_log_start_offsets_are_noted_where_no_segment_tells_them(configured: Make) -> None:
    harness = configured(BROKER)
    harness.create("u")
    fill(harness)
    fill(harness, "u")
    log_of(harness).advance_log_start_offset(3)
    log_of(harness, "u").advance_log_start_offset(segments(harness, "u")[2])
    log_of(harness, "u").delete_old_segments(harness.clock.now_ms())
    pass_time(harness, 30_000)
    assert checkpoint(harness, "log-start") == {("t", 0): 3}


def test_what_was_noted_counts_after_a_crash_of_the_machine(configured: Make, openings: Openings) -> None:
    harness = configured(BROKER)
    fill(harness)
    pass_time(harness, 30_000)
    fill(harness, count=2)
    machine_crash(harness)
    assert log_of(harness).log_end_offset == 12
    assert openings[-1] == ("t-0", LastStop.CRASHED, 10, 0)


def test_all_can_be_done_on_demand(harness: Harness) -> None:
    fill(harness)
    harness.core.logs.write_checkpoints()
    assert checkpoint(harness, "recovery-point") == {("t", 0): 0}
    assert harness.core.logs.flush()
    harness.core.logs.write_checkpoints()
    assert checkpoint(harness, "recovery-point") == {("t", 0): 10}
    assert harness.core.logs.apply_retention() == 0


def test_new_topics_inherit_no_recovery_point(harness: Harness, openings: Openings) -> None:
    fill(harness)
    harness.core.logs.flush()
    harness.core.logs.write_checkpoints()
    harness.delete("t")
    harness.create("t")
    assert checkpoint(harness, "recovery-point") == {}
    fill(harness, count=1)
    machine_crash(harness)
    assert log_of(harness).log_end_offset == 1
    assert openings[-1] == ("t-0", LastStop.CRASHED, 0, 0)


def test_producer_ids_expire(configured: Make) -> None:
    harness = configured({"producer.id.expiration.ms": str(HOUR_MS)})
    now_ms = harness.clock.now_ms()
    idempotent = build_batch([NewRecord(None, b"x", now_ms)], producer_id=7, producer_epoch=0, base_sequence=0)
    assert harness.produce(idempotent).error_code == 0
    pass_time(harness, HOUR_MS - MINUTE_MS)
    assert list(log_of(harness).producers.active) == [7]
    pass_time(harness, 20 * MINUTE_MS)
    assert list(log_of(harness).producers.active) == []


def test_a_new_configuration_reaches_open_logs(configured: Make) -> None:
    harness = configured(BROKER)
    fill(harness)
    topic = harness.topic()
    topic.configure(TopicConfig(topic.config.broker, {"retention.bytes": "300", "flush.ms": "1000"}))
    assert harness.core.logs.apply_retention() == 3
    pass_time(harness, 1000)
    assert log_of(harness).recovery_point == 10


def test_chores_end_with_the_broker(harness: Harness) -> None:
    fill(harness)
    harness.close()
    assert isinstance(harness.clock, ManualClock)
    before = {path: path.stat().st_mtime_ns for path in Path(harness.data_dir).rglob("*")}
    pass_time(harness, 24 * HOUR_MS)
    assert {path: path.stat().st_mtime_ns for path in Path(harness.data_dir).rglob("*")} == before
    harness.start()


def test_a_directory_that_is_none_does_not_keep_the_others_from_retention(
    configured: Make, errors: Callable[[], list[str]]
) -> None:
    harness = configured(BROKER)
    harness.create("a")
    harness.create("brief", 1, retention_ms="1000")
    fill(harness, "brief")
    harness.close()
    os.rename(f"{harness.data_dir}/a-0", f"{harness.data_dir}/elsewhere")
    with open(f"{harness.data_dir}/a-0", "wb"):
        pass
    harness.start()
    pass_time(harness, 10 * MINUTE_MS)
    assert len(segments(harness, "brief")) == 1
    assert [message for message in errors() if "a-0 cannot be opened" in message]


def test_a_deleted_file_that_cannot_be_removed_is_named_and_the_others_go(
    configured: Make, errors: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = configured(BROKER)
    harness.create("brief", 1, retention_ms="1000")
    fill(harness, "brief")
    real = os.unlink

    def unlink(path: str) -> None:
        if path.endswith("0.log.deleted"):
            raise OSError(errno.EIO, "Input/output error", path)
        real(path)

    pass_time(harness, MINUTE_MS)
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        pass_time(harness, 10 * MINUTE_MS)
    (message,) = errors()
    assert "Input/output error" in message
    remaining = [name for name in os.listdir(f"{harness.data_dir}/brief-0") if name.endswith(".deleted")]
    assert remaining == ["00000000000000000000.log.deleted"]


def test_chores_look_at_the_logs_in_use_alone(configured: Make, errors: Callable[[], list[str]]) -> None:
    harness = configured(BROKER | {"log.retention.bytes": "300"})
    fill(harness)
    pass_time(harness, HOUR_MS)  # Each chore has run once, so every log on disk has been opened.
    for number in range(3):
        harness.create(f"unused{number}", 500)
    harness.produce(batch(b"a"), "unused1", 499)
    looked_at: list[str] = []
    slot: Any = vars(Partition)["opened_log"]

    def opened_log(partition: Partition) -> Log | None:
        looked_at.append(os.path.basename(partition.directory))
        log: Log | None = slot.__get__(partition)
        return log

    with patch.object(Partition, "opened_log", property(opened_log)):
        pass_time(harness, HOUR_MS)
    assert set(looked_at) == {"t-0", "unused1-499"}
    assert checkpoint(harness, "recovery-point")[("unused1", 499)] == 0
    assert not errors()


def test_deleted_topics_are_looked_after_no_more(configured: Make) -> None:
    harness = configured(BROKER)
    for number in range(200):
        harness.create("brief", 1)
        harness.produce(batch(b"a"), "brief")
        harness.delete("brief")
        harness.run_soon()
        assert number < 199 or harness.core.topics.get("brief") is None
    gc.collect()
    partitions = [candidate for candidate in gc.get_objects() if isinstance(candidate, Partition)]
    assert sum(partition.topic.name == "brief" for partition in partitions) < 150


PARTITIONS = 6


@pytest.fixture
def noted(harness: Harness) -> Checkpoints:
    """Return the checkpoints of six partitions with ten records each."""
    harness.create("many", PARTITIONS)
    for index in range(PARTITIONS):
        fill(harness, "many", index)

    def opened() -> Iterator[tuple[Partition, Log]]:
        for index in range(PARTITIONS):
            yield partition_of(harness, "many", index), partition_of(harness, "many", index).log

    def at_once(work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        work()
        if then is not None:
            then()

    return Checkpoints(
        harness.data_dir, opened, lambda key: partition_of(harness, *key) if key[0] == "many" else None, at_once
    )


def test_the_offsets_of_open_logs_are_noted(noted: Checkpoints, harness: Harness) -> None:
    partition_of(harness, "many", 0).log.advance_log_start_offset(7)
    noted.update()
    assert noted.high_watermarks.offsets == {("many", index): 10 for index in range(PARTITIONS)}
    assert noted.start_offsets.offsets == {("many", 0): 7}


def test_partitions_that_are_gone_are_not_noted(noted: Checkpoints) -> None:
    noted.recovery_points.offsets = {("gone", 0): 5, ("many", 0): 0}
    noted.update()
    assert ("gone", 0) not in noted.recovery_points.offsets
