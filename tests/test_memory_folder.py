"""Temporary files of test runs in memory: where, and that none of them stays there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import memory_folder
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]


def run(test: str, directory: Path, place: Path) -> "subprocess.CompletedProcess[str]":
    """Run a test whose temporary files may be in `place`."""
    (directory / "test_it.py").write_text(test)
    (directory / "chosen.py").write_text(
        f"import pathlib\nfrom tests import memory_folder\nmemory_folder.find = lambda: pathlib.Path({str(place)!r})\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "chosen",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-q",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    path = os.pathsep.join([str(directory), *(str(ROOT / room) for room in (".", "protocol", "storage", "pipeline"))])
    return subprocess.run(
        [*command, str(directory)],
        cwd=directory,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


TEST = """
import os, pathlib, subprocess, sys, tempfile

def test_it(tmp_path):
    place = pathlib.Path(PLACE)
    assert place in tmp_path.parents
    assert place in pathlib.Path(tempfile.mkdtemp()).parents
    child = "import tempfile; print(tempfile.gettempdir())"
    assert place in pathlib.Path(subprocess.check_output([sys.executable, "-c", child], text=True)).parents
    (tmp_path / "file").write_text("left behind")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Stands for the file system in memory."""
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


def test_all_temporary_files_are_there_and_gone_in_the_end(tmp_path: Path, place: Path) -> None:
    done = run(TEST.replace("PLACE", repr(str(place))), tmp_path, place)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert list(place.iterdir()) == []


def test_those_of_a_run_that_failed_are_kept_on_disk(tmp_path: Path, place: Path) -> None:
    done = run(TEST.replace("PLACE", repr(str(place))) + "    assert False\n", tmp_path, place)
    assert (done.returncode, done.stderr) == (1, ""), done.stdout + done.stderr
    assert list(place.iterdir()) == []
    kept = Path(done.stdout.rsplit(" is now ", 1)[1].strip())
    (file,) = kept.glob("pytest-of-*/pytest-0/test_it0/file")
    assert file.read_text() == "left behind"
    shutil.rmtree(kept)


def test_what_is_kept_takes_no_more_room_than_before(place: Path) -> None:
    environment: dict[str, str] = {}
    made = memory_folder.make(place, environment)
    with open(made / "index", "wb") as reserved:
        reserved.write(b"entry")
        reserved.truncate(1 << 30)
    os.mkfifo(made / "pipe")
    kept = memory_folder.release(made, environment, keep=True)
    assert kept is not None
    assert [file.name for file in kept.iterdir()] == ["index"]
    facts = (kept / "index").stat()
    assert facts.st_size == 1 << 30
    assert facts.st_blocks * 512 < 1 << 20
    shutil.rmtree(kept)


def test_what_a_dead_run_has_left_is_removed(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    old, own = place / f"minibroker-tests-{dead.pid}-x", place / f"minibroker-tests-{os.getpid()}-x"
    old.mkdir()
    own.mkdir()
    environment: dict[str, str] = {}
    made = memory_folder.make(place, environment)
    assert environment == {"TMPDIR": str(made)}
    assert set(place.iterdir()) == {own, made}
    assert memory_folder.release(made, environment, keep=False) is None
    assert environment == {}


def test_a_folder_that_is_too_small_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_folder, "ENOUGH_BYTES", 1 << 60)
    assert memory_folder.find() is None


def test_a_place_that_is_missing_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory_folder, "SHARED_MEMORY", tmp_path / "missing")
    assert memory_folder.find() is None
