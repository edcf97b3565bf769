"""The directory of a job appears complete or not at all. A directory in use, or not closed cleanly, is unchanged."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.cluster.data_dir import DataDir
from minibroker_pipeline.jobs.verify import verify
from minibroker_pipeline.log_directories.directory_commit import (
    OWNER,
    DataDirectoryCommit,
    DirectoryInUseError,
    DirectoryStateError,
    PublishedLog,
    check_closed,
    check_writable,
    local_path,
    lock_directory,
    new_staging,
    publish_locked,
    remove_staging,
    staged_partition,
    staged_task,
)
from minibroker_pipeline.log_directories.partition_logs import LogNameError, find_partitions
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from minibroker_storage.data_directory.staged_write import UNFINISHED
from tests.storage.helpers import Moments

LOG = f"{0:020d}.log"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"


def put(directory: str | Path, name: str = LOG, text: str = "new") -> None:
    (Path(directory) / name).write_text(text)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A data directory with two topics, as a stopped broker leaves it."""
    data_dir = tmp_path / "data"
    for name in ("a-0", "a-1", "b-0"):
        (data_dir / name).mkdir(parents=True)
        put(data_dir / name, text="old")
    write_offset_checkpoint(str(data_dir / RECOVERY_POINTS), {("a", 0): 1, ("a", 1): 2, ("b", 0): 3})
    write_offset_checkpoint(str(data_dir / CLEANED), {("a", 0): 1, ("b", 0): 3})
    put(data_dir, ".kafka_cleanshutdown", "")
    return data_dir


def state(data_dir: Path) -> dict[str, str]:
    """Return the contents of all logs, and the recovery points."""
    logs = {str(path.relative_to(data_dir)): path.read_text() for path in data_dir.glob("?-?/*.log")}
    return {**logs, "points": str(sorted(read_offset_checkpoint(str(data_dir / RECOVERY_POINTS)).items()))}


def test_a_new_directory_appears_complete_and_closed(tmp_path: Path) -> None:
    target = tmp_path / "far" / "data"
    with DataDirectoryCommit(str(target)) as commit:
        put(commit.partition_directory("a", 0))
        assert not target.exists()
        commit.publish({("a", 0): PublishedLog(7, 2, 5)})
    assert sorted(path.name for path in target.parent.iterdir()) == ["data"]
    assert {path.name: read_offset_checkpoint(str(path)) for path in target.glob("*checkpoint")} == {
        RECOVERY_POINTS: {("a", 0): 7},
        "replication-offset-checkpoint": {("a", 0): 7},
        "log-start-offset-checkpoint": {("a", 0): 2},
        CLEANED: {("a", 0): 5},
    }
    held = DataDir(str(target))
    assert held.last_stop is LastStop.CLEAN
    held.release()


def test_a_job_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def job() -> None:
        with DataDirectoryCommit(str(tmp_path / "data")) as commit:
            put(commit.partition_directory("a", 0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_that_is_there_may_be_a_mount_point_and_is_filled(tmp_path: Path) -> None:
    before = tmp_path.stat().st_ino
    with DataDirectoryCommit(str(tmp_path)) as commit:
        put(commit.partition_directory("a", 0))
        commit.publish({("a", 0): PublishedLog(7)})
    assert tmp_path.stat().st_ino == before
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert state(tmp_path)[f"a-0/{LOG}"] == "new"
    assert not list(tmp_path.glob("*-delete"))


@pytest.mark.parametrize("name", [".", "something"])
def test_a_directory_with_something_in_it_is_no_new_one(tmp_path: Path, name: str) -> None:
    put(tmp_path, "something")
    with pytest.raises(DirectoryStateError, match="not empty"):
        DataDirectoryCommit(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


def changed(data_dir: Path, *, staging: str = "") -> None:
    """Append to a partition, add a topic, and replace another topic."""
    staging = staging or new_staging(str(data_dir))
    put(staged_partition(staging, "a", 1), f"{2:020d}.log")
    put(staged_partition(staging, "a", 1), f"{2:020d}.index")
    put(staged_partition(staging, "b", 0), f"{0:020d}.log")
    put(staged_partition(staging, "c", 0))
    staged_task(staging)
    logs = {("a", 1): PublishedLog(5), ("b", 0): PublishedLog(1), ("c", 0): PublishedLog(4)}
    with lock_directory(str(data_dir)):
        check_closed(str(data_dir))
        publish_locked(str(data_dir), staging, logs, replaced=["b"])


def test_a_directory_that_is_there_is_changed_as_one(closed: Path, tmp_path: Path) -> None:
    before = state(closed)
    with Moments(closed, tmp_path / "copies") as moments:
        changed(closed)
    after = state(closed)
    assert after == {
        f"a-0/{LOG}": "old",
        f"a-1/{LOG}": "old",
        f"a-1/{2:020d}.log": "new",
        f"b-0/{LOG}": "new",
        f"c-0/{LOG}": "new",
        "points": "[(('a', 0), 1), (('a', 1), 5), (('b', 0), 1), (('c', 0), 4)]",
    }
    assert read_offset_checkpoint(str(closed / CLEANED)) == {("a", 0): 1}
    assert not list(closed.glob("*minibroker*"))
    states: list[dict[str, str]] = []
    for moment in moments:
        check_writable(str(moment))  # Complete the interrupted change, as a broker also does.
        states.append(state(moment))
        assert states[-1] in (before, after)
    assert before in states
    assert len([observed for observed in states if observed == after]) > 5


def test_a_broker_finishes_what_a_killed_job_has_begun(closed: Path, tmp_path: Path) -> None:
    with Moments(closed, tmp_path / "copies") as moments:
        changed(closed)
    begun = next(moment for moment in moments if (moment / UNFINISHED).exists())
    DataDir(str(begun)).release()
    assert state(begun) == state(closed)
    assert not (begun / UNFINISHED).exists()


def test_readers_do_not_take_work_that_is_half_done_for_all(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    (closed / UNFINISHED).mkdir()
    with pytest.raises(LogNameError, match="a writer was killed there"):
        find_partitions([str(closed)])
    assert str(closed / UNFINISHED) in {finding.path for finding in verify([str(closed)], processes=1).damage}
    monkeypatch.setattr(time, "sleep", lambda _: (closed / UNFINISHED).rmdir())
    assert set(find_partitions([str(closed)])) == {("a", 0), ("a", 1), ("b", 0)}
    assert waited


def test_a_target_that_has_come_into_being_meanwhile_is_added_to(closed: Path, tmp_path: Path) -> None:
    staging = new_staging(str(tmp_path / "elsewhere"))
    os.rename(closed, tmp_path / "elsewhere")
    changed(tmp_path / "elsewhere", staging=staging)
    assert state(tmp_path / "elsewhere")[f"c-0/{LOG}"] == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere"]


def test_a_directory_that_was_not_closed_is_refused(closed: Path) -> None:
    (closed / ".kafka_cleanshutdown").unlink()
    before = state(closed)
    with pytest.raises(DirectoryStateError, match="was not closed cleanly"):
        changed(closed)
    with pytest.raises(DirectoryStateError, match="was not closed cleanly"):
        check_writable(str(closed))
    assert state(closed) == before


def test_a_directory_that_a_broker_of_ours_holds_is_refused(closed: Path) -> None:
    held = DataDir(str(closed))
    try:
        with pytest.raises(DirectoryInUseError, match="stop the broker"):
            changed(closed)
    finally:
        held.release()


@pytest.mark.skipif(sys.platform == "darwin", reason="the two kinds of locks exclude each other")
def test_neither_a_writer_nor_a_reader_ends_the_lock_of_a_broker_of_the_same_process(closed: Path) -> None:
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", code, str(closed / ".lock")]  # Lock the file as Java's FileLock does.
    held = DataDir(str(closed))
    try:
        held.take_over()
        with pytest.raises(DirectoryInUseError, match="stop the broker"):
            check_writable(str(closed))
        with pytest.raises(DirectoryInUseError, match="stop the broker"):
            changed(closed)
        assert find_partitions([str(closed)])["a", 0].data.is_single
        assert subprocess.run(command, check=False, capture_output=True).returncode
    finally:
        held.release()
    assert not subprocess.run(command, check=False, capture_output=True).returncode


@pytest.fixture
def held_as_by_kafka(closed: Path) -> Iterator[Path]:
    """Lock a directory like Kafka. Java's file locks are POSIX record locks, which only other processes see."""
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(closed / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield closed
        process.stdin.close()


def test_a_directory_that_kafka_holds_is_refused(held_as_by_kafka: Path) -> None:
    with pytest.raises(DirectoryInUseError, match="stop the broker"):
        check_writable(str(held_as_by_kafka))


def test_brokers_are_kept_off_while_a_job_changes_the_directory(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[str] = []
    real = os.rename

    def rename(source: str, target: str) -> None:
        with open(closed / ".lock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                states.append("held")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    changed(closed)
    assert len(states) > 3


def test_what_killed_jobs_have_made_ready_goes_with_the_next_one(closed: Path, tmp_path: Path) -> None:
    code = "import sys; from minibroker_pipeline.log_directories.directory_commit import new_staging as made; "
    code += "print(made(sys.argv[1]), flush=True); sys.stdin.read()"
    paths = [closed, tmp_path / "new"]
    for path in paths:
        command = [sys.executable, "-c", code, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
            assert job.stdout is not None
            staging = Path(job.stdout.readline().strip())
            other = Path(new_staging(str(path)))
            assert staging.is_dir()  # The owner is still alive.
            job.kill()
        third = Path(new_staging(str(path)))
        assert not staging.exists()
        assert other.is_dir()
        assert third.is_dir()


def test_only_one_of_two_jobs_gets_a_new_directory(tmp_path: Path) -> None:
    def job(name: str) -> None:
        put(commit.partition_directory("a", 0), name)
        commit.publish({("a", 0): PublishedLog(7)}, {"meta.properties": name.encode()})

    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "new", tmp_path / "empty"):
        with DataDirectoryCommit(str(target)) as commit, DataDirectoryCommit(str(target)) as other:
            put(other.partition_directory("a", 0), f"{5:020d}.log")
            job(LOG)
            with pytest.raises(DirectoryStateError, match="not empty"):
                other.publish({("a", 0): PublishedLog(9)}, {"meta.properties": b"other"})
        assert [path.name for path in (target / "a-0").iterdir()] == [LOG]
        assert (target / "meta.properties").read_text() == LOG
        assert not list(target.glob("*-delete"))


def test_what_unfinished_jobs_leave_in_an_empty_directory_is_in_nobodys_way(tmp_path: Path) -> None:
    staging = Path(new_staging(str(tmp_path)))
    put(tmp_path, ".lock", "")
    with DataDirectoryCommit(str(tmp_path)) as commit:
        put(commit.partition_directory("a", 0))
        commit.publish({("a", 0): PublishedLog(7)})
    assert state(tmp_path)[f"a-0/{LOG}"] == "new"
    assert staging.is_dir()  # The owner is this process.


def test_tasks_that_still_run_when_all_is_over_leave_nothing(closed: Path, tmp_path: Path) -> None:
    for target in (closed, tmp_path / "new"):
        before = sorted(target.parent.iterdir())
        staging = new_staging(str(target))
        attempt = staged_task(staging)
        remove_staging(staging)
        with pytest.raises(FileNotFoundError):
            put(attempt)
        with pytest.raises(FileNotFoundError):
            staged_task(staging)
        assert sorted(target.parent.iterdir()) == before
        assert not list(target.glob("*-delete"))


def test_processes_that_cannot_be_seen_from_here_are_left_alone(tmp_path: Path) -> None:
    staging = Path(new_staging(str(tmp_path / "new")))
    owner = json.loads((staging / OWNER).read_text())
    (staging / OWNER).write_text(json.dumps({**owner, "namespace": "pid:[1]", "started": "1"}))
    new_staging(str(tmp_path / "new"))
    assert staging.is_dir()
    (staging / OWNER).write_text(json.dumps({**owner, "started": "1"}))
    new_staging(str(tmp_path / "new"))
    assert not staging.exists()


@pytest.mark.parametrize("path", ["s3://bucket/kafka", ""])
def test_only_local_directories_are_written(path: str) -> None:
    with pytest.raises(DirectoryStateError, match="local"):
        local_path(path)


def test_addresses_of_local_files_are_understood(tmp_path: Path) -> None:
    assert local_path(f"file:{tmp_path}") == local_path(f"file://{tmp_path}") == str(tmp_path)
