"""The logs of a broker outside requests: how they are opened and closed.

A coordinator's topic is created at its first use, and its directories with their first records.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.flush import LogFlush
from minibroker_storage.log import Log
from tests.broker.coordinators.groups.offset_requests import commit, offsets_of
from tests.broker.harness import Harness, values_in
from tests.broker.logs.world import (
    MINUTE_MS,
    Openings,
    checkpoint,
    fill,
    is_marked_clean,
    log_of,
    machine_crash,
    partition_of,
    pass_time,
)


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_a_start_opens_no_log(harness: Harness, openings: Openings, end: str) -> None:
    fill(harness)
    openings.clear()
    getattr(harness, end)()
    assert partition_of(harness).opened_log is None
    assert openings == []
    assert len(values_in(harness.fetch_one().records)) == 10
    assert len(openings) == 1


def test_a_log_is_opened_as_the_last_run_has_ended(harness: Harness, openings: Openings) -> None:
    fill(harness)
    harness.restart()
    assert log_of(harness).log_end_offset == 10
    harness.crash()
    assert log_of(harness).log_end_offset == 10
    machine_crash(harness)
    assert log_of(harness).log_end_offset == 10
    stops = [LastStop.CLEAN, LastStop.KILLED, LastStop.CRASHED]
    assert openings[-3:] == [("t-0", stop, 10, 0) for stop in stops]  # The clean stop forced everything to disk.


def test_a_stop_notes_where_the_logs_are(harness: Harness) -> None:
    harness.create("u", 2)
    fill(harness)
    fill(harness, "u", 1, 3)
    log_of(harness).advance_log_start_offset(4)
    harness.close()
    assert checkpoint(harness, "recovery-point") == {("t", 0): 10, ("u", 1): 3}
    assert checkpoint(harness, "replication") == {("t", 0): 10, ("u", 1): 3}
    assert checkpoint(harness, "log-start") == {("t", 0): 4}
    assert is_marked_clean(harness)
    harness.start()
    assert not is_marked_clean(harness)


def test_offsets_of_logs_that_nobody_opens_are_kept(harness: Harness, openings: Openings) -> None:
    fill(harness)
    log_of(harness).advance_log_start_offset(4)
    harness.restart()
    harness.restart()
    assert checkpoint(harness, "recovery-point") == checkpoint(harness, "replication") == {("t", 0): 10}
    assert log_of(harness).log_start_offset == 4
    assert openings[-1] == ("t-0", LastStop.CLEAN, 10, 4)


def test_damaged_checkpoints_are_ignored(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    fill(harness)
    harness.close()
    names = ("recovery-point", "log-start", "replication", "cleaner")
    for name in names:
        (Path(harness.data_dir) / f"{name}-offset-checkpoint").write_text("damaged")
    harness.start()
    assert len(caplog.records) == len(names)
    assert len(values_in(harness.fetch_one().records)) == 10


def test_a_stop_is_not_clean_when_a_log_could_not_be_closed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, errors: Callable[[], list[str]]
) -> None:
    harness.create("u")
    fill(harness)
    fill(harness, "u")
    close = Log.close

    def failing(self: Log) -> None:
        close(self)
        if self.directory.endswith("t-0"):
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Log, "close", failing)
        harness.close()
    assert len(errors()) == 1
    assert "t-0" in errors()[0]
    assert not is_marked_clean(harness)
    assert checkpoint(harness, "replication") == {("t", 0): 10, ("u", 0): 10}
    harness.start()
    assert harness.core._data_dir.last_stop is LastStop.KILLED
    assert [log_of(harness, name).log_end_offset for name in "tu"] == [10, 10]


def test_a_stop_is_not_clean_when_a_log_is_not_on_disk(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, errors: Callable[[], list[str]]
) -> None:
    fill(harness)

    def failing(self: LogFlush) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(LogFlush, "run", failing)
        harness.close()
    assert len(errors()) == 1
    assert not is_marked_clean(harness)
    harness.start()


def test_a_directory_that_is_not_kept_is_just_let_go(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(harness)

    def never(self: Log) -> None:
        raise AssertionError("forced to disk for nobody")

    monkeypatch.setattr(Log, "begin_flush", never)
    harness.services.close(keep=False)
    assert not is_marked_clean(harness)
    assert not (Path(harness.data_dir) / "recovery-point-offset-checkpoint").exists()
    harness.start()
    monkeypatch.undo()


def test_a_stop_is_clean_only_when_every_log_with_data_was_opened_since_a_crash(harness: Harness) -> None:
    harness.create("empty", 3)
    harness.create("u")
    fill(harness)
    fill(harness, "u")
    harness.crash()
    assert log_of(harness).log_end_offset == 10
    harness.close()
    assert not is_marked_clean(harness)
    harness.start()
    assert harness.core._data_dir.last_stop is LastStop.KILLED
    pass_time(harness, MINUTE_MS)  # The first chore visits all logs.
    assert partition_of(harness, "u").opened_log is not None
    assert partition_of(harness, "empty").opened_log is None
    harness.close()
    assert is_marked_clean(harness)
    harness.start()


def test_a_log_that_cannot_be_opened_is_named_once_and_keeps_the_stop_from_being_clean(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, errors: Callable[[], list[str]]
) -> None:
    harness.create("u")
    fill(harness)
    fill(harness, "u")
    harness.crash()
    real = Log.open

    def opening(directory: str, **options: Any) -> Log:
        if directory.endswith("t-0"):
            raise OSError(errno.EACCES, "Permission denied")
        return real(directory, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Log, "open", opening)
        pass_time(harness, 20 * MINUTE_MS)
    assert partition_of(harness, "u").opened_log is not None
    assert len(errors()) == 1
    assert "t-0" in errors()[0]
    harness.close()
    assert not is_marked_clean(harness)
    harness.start()
    pass_time(harness, 20 * MINUTE_MS)
    harness.close()
    assert is_marked_clean(harness)
    harness.start()


OFFSETS = "__consumer_offsets"
PARTITIONS = 50
T0 = ("t", 0)


def directories(harness: Harness) -> int:
    return sum(path.is_dir() for path in Path(harness.data_dir).glob(f"{OFFSETS}-*"))


def test_the_partitions_of_a_coordinators_topic_get_directories_with_records_or_at_a_clean_stop(
    harness: Harness,
) -> None:
    answer = harness.accept(FindCoordinatorRequest(key="g"), 0)
    assert isinstance(answer, Answer)
    assert answer.response.error_code == ErrorCode.NONE
    harness.run_soon()
    assert directories(harness) == 0
    harness.crash()
    commit(harness, {T0: 5}, "g")
    assert directories(harness) == 1
    harness.crash()
    assert offsets_of(harness, "g") == {T0: 5}
    assert len(harness.topic(OFFSETS).partitions) == PARTITIONS
    assert directories(harness) == 1
    harness.close()
    assert directories(harness) == PARTITIONS
    harness.start()
    assert offsets_of(harness, "g") == {T0: 5}
