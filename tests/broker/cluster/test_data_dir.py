"""The data directory: its lock, its identity, and how the last run ended."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.cluster import data_dir as module
from minibroker.cluster.data_dir import DataDir, DataDirInUseError, MetaPropertiesError
from minibroker.config.properties import parse_properties
from minibroker_protocol.primitives import parse_uuid
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.data_directory.names import CLEAN_SHUTDOWN, LOCK_FILE, META_PROPERTIES
from tests.broker.harness import Harness


@pytest.fixture(autouse=True)
def boot(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return the boot ids of the machine. Appending one simulates a reboot."""
    present: list[str | None] = ["first-boot"]
    monkeypatch.setattr(module, "boot_id", lambda: present[-1])
    return present


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a data directory with a log."""
    (tmp_path / "t-0").mkdir()
    return tmp_path


def run_once(path: Path, *, clean: bool = False, recovered: bool = False) -> LastStop:
    """Simulate a run that opens every log if `recovered`, and return how the previous run ended."""
    directory = DataDir(str(path))
    last_stop = directory.last_stop
    directory.take_over()
    if recovered:
        directory.mark_recovered()
    if clean:
        directory.mark_clean()
    directory.release()
    return last_stop


def opened(path: Path, node_id: int = -1, cluster_id: str | None = None) -> DataDir:
    """Return a data directory that was opened and released."""
    directory = DataDir(str(path), node_id, cluster_id)
    directory.release()
    return directory


def last_stop_of(path: Path) -> LastStop:
    return opened(path).last_stop


def meta(path: Path) -> dict[str, str]:
    return parse_properties((path / META_PROPERTIES).read_text())


# The lock.


def test_a_start_that_fails_leaves_the_directory_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("minibroker.cluster.core.FilePool", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        Harness(str(tmp_path))
    monkeypatch.undo()
    Harness(str(tmp_path)).close()


def test_a_directory_is_made_and_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    directory = DataDir(str(path))
    with pytest.raises(DataDirInUseError, match=r"b is in use by another broker \(.*/b/\.lock is locked\)"):
        DataDir(str(path))
    directory.release()
    directory.release()
    DataDir(str(path)).release()


def test_a_refused_start_leaves_everything_as_it_was(tmp_path: Path) -> None:
    run_once(tmp_path, clean=True)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    with pytest.raises(MetaPropertiesError):
        DataDir(str(tmp_path), node_id=99)
    directory = DataDir(str(tmp_path))
    with pytest.raises(DataDirInUseError):
        DataDir(str(tmp_path))
    directory.release()
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


LOCKING = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
"""A program that locks a file like Java's FileLock."""
posix_locks = pytest.mark.skipif(sys.platform == "darwin", reason="the two kinds of locks exclude each other")


def is_locked_for_java(path: Path) -> bool:
    command = [sys.executable, "-c", LOCKING, str(path / LOCK_FILE)]
    return subprocess.run(command, check=False, capture_output=True).returncode != 0


@posix_locks
def test_a_directory_that_a_kafka_runs_on_is_refused(path: Path) -> None:
    (path / LOCK_FILE).touch()
    command = [sys.executable, "-c", f"{LOCKING}; print('held', flush=True); sys.stdin.read()", str(path / LOCK_FILE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as kafka:
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == b"held\n"
        with pytest.raises(DataDirInUseError, match=r"is in use by an Apache Kafka \(.*\.lock is locked as Java does"):
            DataDir(str(path))
        assert (path / LOCK_FILE).read_bytes() == b""
        kafka.communicate()
    DataDir(str(path)).release()


@posix_locks
def test_a_kafka_finds_the_directory_locked_also_after_others_were_refused(path: Path) -> None:
    directory = DataDir(str(path))
    directory.take_over()
    assert is_locked_for_java(path)
    with pytest.raises(DataDirInUseError):
        DataDir(str(path))
    (path.parent / "link").symlink_to(path)
    with pytest.raises(DataDirInUseError):
        DataDir(str(path.parent / "link"))
    assert is_locked_for_java(path)
    directory.release()
    assert not is_locked_for_java(path)


# How the last run ended.


def test_where_there_is_no_log_nothing_can_be_wrong(tmp_path: Path) -> None:
    assert last_stop_of(tmp_path) is LastStop.CLEAN
    run_once(tmp_path)
    assert run_once(tmp_path, clean=True) is LastStop.CLEAN
    assert last_stop_of(tmp_path) is LastStop.CLEAN


def test_the_clean_shutdown_file_is_kafkas_and_there_between_two_runs_only(path: Path) -> None:
    run_once(path, clean=True, recovered=True)
    assert (path / CLEAN_SHUTDOWN).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    directory = DataDir(str(path))
    assert directory.last_stop is LastStop.CLEAN
    directory.take_over()
    assert not (path / CLEAN_SHUTDOWN).exists()
    directory.mark_clean()
    assert (path / CLEAN_SHUTDOWN).exists()
    directory.release()


def test_a_process_that_was_killed_is_told_from_a_machine_that_crashed(path: Path, boot: list[str | None]) -> None:
    run_once(path, clean=True, recovered=True)
    assert run_once(path) is LastStop.CLEAN
    assert last_stop_of(path) is LastStop.KILLED
    boot.append("second-boot")
    assert last_stop_of(path) is LastStop.CRASHED


def test_where_nothing_names_the_machines_run_a_crash_is_assumed(path: Path, boot: list[str | None]) -> None:
    boot.append(None)
    run_once(path)
    assert last_stop_of(path) is LastStop.CRASHED


@pytest.mark.parametrize("text", [b"", b"\xff\x00", b"first-boot\nsomething else", b"x" * 5000])
def test_a_lock_file_of_somebody_else_says_nothing(path: Path, text: bytes) -> None:
    (path / LOCK_FILE).write_bytes(text)
    assert last_stop_of(path) is LastStop.CRASHED


def test_a_crash_counts_until_every_log_was_opened(path: Path, boot: list[str | None]) -> None:
    run_once(path)
    boot.append("second-boot")
    assert run_once(path) is LastStop.CRASHED
    assert run_once(path, clean=True) is LastStop.CRASHED  # Killed before all logs were opened.
    assert not (path / CLEAN_SHUTDOWN).exists()
    assert run_once(path, recovered=True) is LastStop.CRASHED
    assert last_stop_of(path) is LastStop.KILLED  # It was killed, too, but after it had opened all logs.
    assert run_once(path, recovered=True, clean=True) is LastStop.KILLED
    assert last_stop_of(path) is LastStop.CLEAN


def test_a_stop_is_not_clean_while_a_log_is_as_a_killed_process_left_it(path: Path) -> None:
    run_once(path)
    assert run_once(path, clean=True) is LastStop.CRASHED
    run_once(path, recovered=True)
    assert run_once(path, clean=True) is LastStop.KILLED
    assert last_stop_of(path) is LastStop.KILLED


# Identity.


def test_a_new_directory_is_described_as_kafka_does(tmp_path: Path) -> None:
    directory = opened(tmp_path, node_id=7)
    assert list(meta(tmp_path)) == ["version", "cluster.id", "node.id", "directory.id"]
    assert meta(tmp_path)["version"] == "1"
    assert (directory.node_id, meta(tmp_path)["node.id"]) == (7, "7")
    assert (directory.cluster_id, len(parse_uuid(directory.cluster_id))) == (meta(tmp_path)["cluster.id"], 16)
    assert parse_uuid(meta(tmp_path)["directory.id"]) != parse_uuid(directory.cluster_id)


def test_without_a_node_id_it_is_node_1(tmp_path: Path) -> None:
    assert opened(tmp_path).node_id == 1


@pytest.mark.parametrize(
    ("text", "cluster_id", "node_id"),
    [
        (
            "#\n#Thu Nov 21 10:00:00 UTC 2024\nnode.id=3\ndirectory.id=a\nversion=1\ncluster.id=any text\n",
            "any text",
            3,
        ),
        ("broker.id=5\ncluster.id=c\n", "c", 5),
    ],
    ids=["version 1", "version 0"],
)
def test_what_the_directory_says_counts_and_is_left_alone(
    tmp_path: Path, text: str, cluster_id: str, node_id: int
) -> None:
    (tmp_path / META_PROPERTIES).write_text(text)
    for configured in (-1, node_id):
        directory = opened(tmp_path, configured)
        assert (directory.cluster_id, directory.node_id) == (cluster_id, node_id)
    assert (tmp_path / META_PROPERTIES).read_text() == text


def test_a_directory_of_an_old_broker_gets_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=0\nbroker.id=5\n")
    directory = opened(tmp_path)
    assert directory.node_id == 5
    ids = {"cluster.id": directory.cluster_id, "node.id": "5", "directory.id": ""}
    assert meta(tmp_path) | {"directory.id": ""} == {"version": "1", **ids}
    assert opened(tmp_path).cluster_id == directory.cluster_id


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("version=1\ncluster.id=c\n", "node.id is missing"),
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        ("version=1\nnode.id=one\ncluster.id=c\n", "node.id is not a number: 'one'"),
        ("version=1\nnode.id=-1\ncluster.id=c\n", "node.id is not a number: '-1'"),
        ("version=2\nnode.id=1\ncluster.id=c\n", "unknown version '2'"),
        ("version=\\u12", "four hexadecimal digits"),
    ],
)
def test_a_damaged_description_is_named(tmp_path: Path, text: str, because: str) -> None:
    (tmp_path / META_PROPERTIES).write_text(text)
    with pytest.raises(MetaPropertiesError, match=because) as caught:
        DataDir(str(tmp_path))
    assert str(tmp_path / META_PROPERTIES) in str(caught.value)
    (tmp_path / META_PROPERTIES).unlink()
    opened(tmp_path)  # The failed start has released the lock.


@pytest.mark.parametrize("content", [b"", b"\0" * 80, b"\x93\x00garbage\xff", b"vers"])
def test_a_description_that_a_crash_has_torn_is_made_again_from_its_copy(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    first = opened(tmp_path, node_id=4)
    whole = meta(tmp_path)
    (tmp_path / META_PROPERTIES).write_bytes(content)
    again = opened(tmp_path)
    assert (again.cluster_id, again.node_id, meta(tmp_path)) == (first.cluster_id, 4, whole)
    assert f"{tmp_path / META_PROPERTIES} is damaged; it is made again from" in caplog.text


@pytest.mark.parametrize("content", [b"", b"\x93\x00garbage\xff"])
def test_without_a_copy_a_torn_description_gets_no_new_cluster_in_silence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / META_PROPERTIES).write_bytes(content)
    with pytest.raises(MetaPropertiesError, match="is empty or no file of properties: put back its lines"):
        DataDir(str(tmp_path))
    assert (tmp_path / META_PROPERTIES).read_bytes() == content


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, node_id=1)
    with pytest.raises(MetaPropertiesError, match=r"belongs to node 1, but node\.id is configured as 2"):
        DataDir(str(tmp_path), node_id=2)


def test_a_new_directory_gets_the_cluster_id_that_is_configured(tmp_path: Path) -> None:
    for _ in range(2):
        directory = opened(tmp_path, cluster_id="MkU3OEVBNTcwNTJENDM2Qk")
        assert directory.cluster_id == meta(tmp_path)["cluster.id"] == "MkU3OEVBNTcwNTJENDM2Qk"


def test_an_old_directory_without_a_cluster_gets_the_one_that_is_configured(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=0\nbroker.id=5\n")
    opened(tmp_path, cluster_id="c")
    assert meta(tmp_path)["cluster.id"] == "c"


def test_another_clusters_directory_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, cluster_id="one")
    with pytest.raises(MetaPropertiesError, match=r"belongs to cluster one, but the cluster's id is configured as two"):
        DataDir(str(tmp_path), cluster_id="two")
    opened(tmp_path)


def test_a_directory_of_other_files_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`--data-dir .` in a project would put logs among its sources."""
    (tmp_path / "main.py").touch()
    (tmp_path / "setup.py").touch()
    opened(tmp_path)
    assert f"{tmp_path} has other files, such as main.py: is it the directory that you mean?" in caplog.text
    caplog.clear()
    opened(tmp_path)
    assert not caplog.text  # The directory has an identity now.


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", ".hidden", "minibroker-topics.json", "lost+found/"]
)
def test_files_of_brokers_and_file_systems_are_no_warning(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / name
    path.mkdir() if name.endswith("/") else path.touch()
    opened(tmp_path)
    assert not caplog.text
