"""Compaction by the broker: which log is cleaned, when, and how a cleaning ends."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from minibroker_protocol.messages.log_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.cleaner import CleaningFailedError, CleaningPlan, CleaningResult, finish_cleaning, plan_cleaning
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint
from minibroker_storage.log import Log
from tests.broker.harness import Harness, values_in
from tests.broker.logs.world import pass_time

BACKOFF_MS = 15_000
Make = Callable[[dict[str, str]], Harness]


@pytest.fixture
def compacting(configured: Make) -> Harness:
    """Return a broker with small segments and an empty compacted topic "c" beside "t"."""
    harness = configured({"log.segment.bytes": "250"})
    harness.create("c", 1, cleanup_policy="compact")
    return harness


def put(harness: Harness, topic: str, *pairs: tuple[str, str]) -> None:
    """Produce a batch for each (key, value)."""
    now_ms = harness.clock.now_ms()
    for key, value in pairs:
        records = build_batch([NewRecord(key.encode(), value.encode(), now_ms)])
        assert harness.produce(records, topic).error_code == 0


def rewrite(harness: Harness, topic: str = "c", rounds: int = 10) -> None:
    """Produce the same two keys repeatedly, filling several segments with mostly obsolete records."""
    for number in range(rounds):
        put(harness, topic, ("a", f"a{number}"), ("b", f"b{number}"))


def all_values(harness: Harness, topic: str = "c", offset: int = 0) -> list[bytes | None]:
    """Return the values of all records from `offset` on. A fetch ends with its segment."""
    records: list[tuple[int, bytes | None]] = []
    while fetched := values_in(harness.fetch_one(offset, topic).records):
        records += fetched
        offset = records[-1][0] + 1
    return [value for _, value in records]


def log_of(harness: Harness, name: str = "c") -> Log:
    return harness.topic(name).partitions[0].log


def cleaner_checkpoint(harness: Harness) -> dict[tuple[str, int], int]:
    return read_offset_checkpoint(f"{harness.data_dir}/cleaner-offset-checkpoint")


def leftovers(harness: Harness) -> list[str]:
    return [path.name for path in Path(harness.data_dir).rglob("*") if path.suffix in {".cleaned", ".swap"}]


def test_a_dirty_log_is_cleaned_after_the_backoff(compacting: Harness) -> None:
    rewrite(compacting)
    active = log_of(compacting).segments[-1].base_offset
    pass_time(compacting, BACKOFF_MS - 1)
    assert len(all_values(compacting)) == 20
    pass_time(compacting, 1)
    remaining = all_values(compacting)
    assert remaining[-2:] == [b"a9", b"b9"]
    assert len(remaining) == 2 + 20 - active
    assert log_of(compacting).log_end_offset == 20
    assert cleaner_checkpoint(compacting) == {("c", 0): active}
    assert leftovers(compacting) == []


def test_a_log_is_not_cleaned_again_before_it_is_dirty(compacting: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(compacting)
    pass_time(compacting, BACKOFF_MS)
    plans: list[str] = []

    def noting(log: Log, *arguments: Any, **options: Any) -> CleaningPlan | None:
        plans.append(log.directory)
        return plan_cleaning(log, *arguments, **options)

    monkeypatch.setattr("minibroker.cluster.logs.log_cleaner.plan_cleaning", noting)
    pass_time(compacting, 10 * BACKOFF_MS)
    assert plans == []
    rewrite(compacting)
    pass_time(compacting, BACKOFF_MS)
    assert len(plans) == 1


def test_what_was_cleaned_is_known_after_a_restart(compacting: Harness) -> None:
    rewrite(compacting)
    pass_time(compacting, BACKOFF_MS)
    before = cleaner_checkpoint(compacting)
    compacting.restart()
    pass_time(compacting, BACKOFF_MS)
    assert cleaner_checkpoint(compacting) == before
    assert all_values(compacting)[-2:] == [b"a9", b"b9"]


def test_the_filthiest_log_is_cleaned_first_and_all_that_are_due(compacting: Harness) -> None:
    compacting.create("d", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    for name in "cd":
        rewrite(compacting, name)
    pass_time(compacting, BACKOFF_MS)
    first = cleaner_checkpoint(compacting)
    rewrite(compacting, "d", 3)
    rewrite(compacting, "c", 30)
    cleaned: list[str] = []

    def noting(log: Log, result: CleaningResult) -> int:
        cleaned.append(os.path.basename(log.directory))
        return finish_cleaning(log, result)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("minibroker.cluster.logs.log_cleaner.finish_cleaning", noting)
        pass_time(compacting, BACKOFF_MS)
    assert cleaned == ["c-0", "d-0"]
    assert all(offset > first[key] for key, offset in cleaner_checkpoint(compacting).items())


def test_topics_that_are_not_compacted_keep_everything(compacting: Harness) -> None:
    rewrite(compacting, "t")
    rewrite(compacting, "c")
    pass_time(compacting, BACKOFF_MS)
    assert len(all_values(compacting, "t")) == 20


def test_the_cleaner_can_be_switched_off(configured: Make) -> None:
    harness = configured({"log.segment.bytes": "250", "log.cleaner.enable": "false"})
    harness.create("c", 1, cleanup_policy="compact")
    rewrite(harness)
    pass_time(harness, 10 * BACKOFF_MS)
    assert len(all_values(harness)) == 20


def test_the_backoff_is_configured(configured: Make) -> None:
    harness = configured({"log.segment.bytes": "250", "log.cleaner.backoff.ms": "100"})
    harness.create("c", 1, cleanup_policy="compact")
    rewrite(harness)
    pass_time(harness, 100)
    assert len(all_values(harness)) < 20


# On demand.


def test_all_compacted_logs_can_be_cleaned_at_once(compacting: Harness) -> None:
    compacting.create("d", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="1")
    for name in "cd":
        rewrite(compacting, name)
    compacting.restart()
    done: list[bool] = []
    compacting.core.logs.compact(then=lambda: done.append(True))
    assert done == []
    compacting.run_soon()
    assert done == [True]
    for name in "cd":
        assert len(all_values(compacting, name)) < 6


def test_with_a_roll_nothing_stays_dirty(compacting: Harness) -> None:
    rewrite(compacting)
    compacting.core.logs.compact(roll=True)
    compacting.run_soon()
    assert all_values(compacting) == [b"a9", b"b9"]


def test_where_nothing_is_compacted_there_is_nothing_to_do(harness: Harness) -> None:
    done: list[bool] = []
    harness.core.logs.compact(roll=True, then=lambda: done.append(True))
    harness.run_soon()
    assert done == [True]


# With retention.


def test_a_log_of_both_policies_loses_old_segments_as_well(compacting: Harness) -> None:
    compacting.create("both", 1, cleanup_policy="compact,delete", retention_bytes="500")
    put(compacting, "both", *((f"key{number}", "value") for number in range(30)))
    pass_time(compacting, BACKOFF_MS)
    assert 3 < len(all_values(compacting, "both", log_of(compacting, "both").log_start_offset)) < 10


def test_retention_waits_for_a_cleaning(compacting: Harness) -> None:
    compacting.create("both", 1, cleanup_policy="compact,delete", retention_bytes="1")
    rewrite(compacting, "both")
    compacting.clock.advance(BACKOFF_MS)  # The cleaning has started but not ended.
    assert compacting.core.logs.apply_retention() == 0
    assert log_of(compacting, "both").log_start_offset == 0
    compacting.run_soon()
    assert log_of(compacting, "both").log_start_offset > 0
    assert cleaner_checkpoint(compacting)


def test_segments_that_delete_records_takes_away_meanwhile_end_the_cleaning(
    compacting: Harness, errors: Callable[[], list[str]]
) -> None:
    compacting.create("both", 1, cleanup_policy="compact,delete")
    rewrite(compacting, "both")
    compacting.clock.advance(BACKOFF_MS)
    partition = DeleteRecordsPartition(partition_index=0, offset=15)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="both", partitions=[partition])], timeout_ms=1)
    compacting.ask(request, 2)
    compacting.run_soon()
    assert log_of(compacting, "both").log_start_offset == 15
    assert leftovers(compacting) == []
    assert errors() == []
    assert all_values(compacting, "both", 15)[-2:] == [b"a9", b"b9"]


# The end of a cleaning.


def test_a_topic_that_is_deleted_ends_its_cleaning(compacting: Harness, errors: Callable[[], list[str]]) -> None:
    compacting.create("d", 1, cleanup_policy="compact")
    rewrite(compacting)
    rewrite(compacting, "d", 5)
    compacting.clock.advance(BACKOFF_MS)
    compacting.delete("c")
    compacting.run_soon()
    assert len(all_values(compacting, "d")) < 10
    assert errors() == []
    assert leftovers(compacting) == []


def test_a_stop_ends_the_cleaning(compacting: Harness) -> None:
    rewrite(compacting)
    compacting.clock.advance(BACKOFF_MS)
    compacting.core.logs.stop_chores()
    compacting.run_soon()
    assert len(all_values(compacting)) == 20
    compacting.restart()
    assert leftovers(compacting) == []
    pass_time(compacting, BACKOFF_MS)
    assert len(all_values(compacting)) < 20


def test_a_log_that_cannot_be_cleaned_is_named_once_and_left_alone(
    compacting: Harness, monkeypatch: pytest.MonkeyPatch, errors: Callable[[], list[str]]
) -> None:
    compacting.create("d", 1, cleanup_policy="compact")
    rewrite(compacting)
    rewrite(compacting, "d", 5)

    def failing(log: Log, result: CleaningResult) -> int:
        if log.directory.endswith("c-0"):
            raise CleaningFailedError("no log at all")
        return finish_cleaning(log, result)

    with monkeypatch.context() as patched:
        patched.setattr("minibroker.cluster.logs.log_cleaner.finish_cleaning", failing)
        pass_time(compacting, 10 * BACKOFF_MS)
    (line,) = errors()
    assert "c-0" in line
    assert len(all_values(compacting, "d")) < 10
    assert len(all_values(compacting)) == 20


def test_a_full_disk_is_tried_again_later(compacting: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(compacting)
    tries: list[object] = []

    def failing(log: Log, result: CleaningResult) -> int:
        tries.append(result)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("minibroker.cluster.logs.log_cleaner.finish_cleaning", failing)
        pass_time(compacting, BACKOFF_MS)
        assert len(tries) == 1
        pass_time(compacting, BACKOFF_MS)
        assert len(tries) == 2
    pass_time(compacting, BACKOFF_MS)
    assert len(all_values(compacting)) < 20
    assert cleaner_checkpoint(compacting)


def test_a_cleaning_that_cannot_begin_for_want_of_descriptors_is_tried_again_later(
    compacting: Harness, monkeypatch: pytest.MonkeyPatch, errors: Callable[[], list[str]]
) -> None:
    rewrite(compacting)
    tries: list[object] = []

    def failing(plan: object, _: object) -> NoReturn:
        tries.append(plan)
        raise OSError(errno.EMFILE, "Too many open files", "cleaner/process.py")

    with monkeypatch.context() as patched:
        patched.setattr(compacting.core.logs._get_cleaner(), "_run_cleaning", failing)
        pass_time(compacting, BACKOFF_MS)
        assert len(tries) == 1
    (line,) = errors()
    assert "c-0 could not be cleaned: [Errno 24]" in line
    pass_time(compacting, BACKOFF_MS)
    assert len(all_values(compacting)) < 20


def test_a_cleaning_that_ends_in_a_fault_of_ours_is_not_the_last_one(
    compacting: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rewrite(compacting)

    def failing(_: object, done: Callable[[BaseException], None]) -> Callable[[], None]:
        compacting.core.call_soon(lambda: done(RuntimeError("can't start new thread")))
        return lambda: None

    with monkeypatch.context() as patched:
        patched.setattr(compacting.core.logs._get_cleaner(), "_run_cleaning", failing)
        pass_time(compacting, BACKOFF_MS)
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "c-0 could not be cleaned: can't start new thread" in record.getMessage()
    assert record.exc_info is not None
    pass_time(compacting, BACKOFF_MS)
    assert len(all_values(compacting)) < 20


def test_a_log_whose_head_is_damaged_does_not_keep_the_others_from_being_cleaned(
    configured: Make, caplog: pytest.LogCaptureFixture
) -> None:
    harness = configured({"log.segment.bytes": "250"})
    for name in ("a", "b"):
        harness.create(name, 1, cleanup_policy="compact", max_compaction_lag_ms="1")
        rewrite(harness, name)
    first = log_of(harness, "a").segments[0]
    os.pwrite(first.log.fd(), b"\x09", 16)
    first.first_timestamp = None
    done: list[bool] = []
    harness.core.logs.compact(then=lambda: done.append(True))
    harness.run_soon()
    assert done
    assert len(all_values(harness, "b")) < 20
    assert any("a-0 is not cleaned any more" in record.getMessage() for record in caplog.records)
