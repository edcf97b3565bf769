"""Where the client for Java takes the program from: variables, the class path, the user's cache, the PATH."""

import hashlib
import os
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from minibroker import __version__
from tests.clients import control_client_programs as programs
from tests.clients import toolchains
from tests.clients.broker_process import ROOT
from tests.clients.broker_process import environment as with_checkout
from tests.kafka import jars
from tests.patience import PATIENCE_S

NAME = f"minibroker-{__version__}-linux-x64.tar.gz"
PACKAGE = "minibroker/control"
MONTH_S = 31 * 24 * 3600


@dataclass
class ClassPath:
    """The client in a class path, with what `make packages` adds to its jars."""

    classes: Path
    bundled: Path
    """A folder with an archive, whose program prints "from the archive"."""
    sums: Path
    cache: Path

    @property
    def folders(self) -> set[str]:
        """The names in the cache."""
        return {path.name for path in (self.cache / "minibroker/binary").iterdir()}

    def command(self, *arguments: str, options: Sequence[str] = (), bundled: bool = True) -> list[str]:
        path = [self.classes, programs.java_classes(), self.sums, *([self.bundled] if bundled else [])]
        # The name of the system and the machine of the archive, whatever this machine is.
        system = ["-Dos.name=Linux", "-Dos.arch=amd64", *options]
        jvm = [jars.java(), *jars.SHORT_LIVED, *system, "-cp", os.pathsep.join(map(str, path))]
        return [*jvm, "minibroker.control.Start", *arguments]

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in with_checkout().items() if not name.startswith("MINIBROKER_")}
        return {**kept, "XDG_CACHE_HOME": str(self.cache), **variables}

    def run(
        self, *arguments: str, options: Sequence[str] = (), bundled: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments, options=options, bundled=bundled),
            env=self.environment(variables),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def find(self, *, bundled: bool = True, **variables: str) -> str:
        """Return the program that would be started."""
        done = self.run(bundled=bundled, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def java(tmp_path: Path) -> ClassPath:
    source = programs.RUNNERS / "java/Start.java"
    sources = [source, *(ROOT / "clients/java/src/main/java").rglob("*.java")]
    classes = toolchains.build(
        toolchains.place("java-start", sources),
        lambda made: programs.compile_java([source], made, programs.java_classes()),
    )
    bundled, sums = tmp_path / "bundled", tmp_path / "sums"
    for folder in (bundled, sums):
        (folder / PACKAGE).mkdir(parents=True)
    program = tmp_path / "minibroker"
    program.write_text(f'#!/bin/sh\necho from the archive >&2\nexec {shlex.quote(sys.executable)} -m minibroker "$@"\n')
    program.chmod(0o755)
    archive = bundled / PACKAGE / NAME
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(program, "minibroker/minibroker")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (sums / PACKAGE / "SHA256SUMS").write_text(f"{'0' * 64}  another.tar.gz\n{digest}  {NAME}\n")
    return ClassPath(classes, bundled, sums, tmp_path / "cache")


def test_a_variable_comes_before_the_class_path_the_cache_and_the_path(java: ClassPath, tmp_path: Path) -> None:
    archive = java.bundled / PACKAGE / NAME
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    cached = str(java.cache / "minibroker/binary" / digest[:16] / "minibroker/minibroker")
    assert java.find(MINIBROKER_COMMAND="a", MINIBROKER_BINARY="b") == "a"
    assert java.find(MINIBROKER_BINARY="b") == "b"
    assert java.find(bundled=False) == "minibroker"
    assert not java.cache.exists()
    assert java.find() == cached
    assert java.find(bundled=False) == cached
    other = tmp_path / "other.tar.gz"
    other.write_bytes(archive.read_bytes() + b"\0")  # gzip ignores zeros after its end
    named = java.find(MINIBROKER_BINARY=str(other))
    assert named != cached
    assert Path(named).read_text() == Path(cached).read_text()


@pytest.mark.torture
def test_a_program_is_started_from_the_cache_which_is_unpacked_again_if_it_has_gone(java: ClassPath) -> None:
    done = java.run("start")
    assert done.stdout.startswith("127.0.0.1:"), done.stderr
    assert "from the archive" in done.stderr
    program = Path(java.find())
    program.unlink()
    assert java.find() == str(program)
    assert program.exists()
    program.write_text("#!/bin/sh\nexit 3\n")
    damaged = java.run("start")
    folder = java.cache / "minibroker/binary"
    assert f"has ended before it was ready; if the program is damaged, delete {folder}\n" in damaged.stderr


def test_a_broker_ends_with_a_jvm_that_is_killed(java: ClassPath, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    environment = java.environment({"TMPDIR": str(tmp_path / "data")})
    with subprocess.Popen(java.command("stay"), env=environment, stdout=subprocess.PIPE, text=True) as jvm:
        assert jvm.stdout is not None
        assert jvm.stdout.readline().startswith("127.0.0.1:")
        assert len(list((tmp_path / "data").glob("minibroker-*"))) == 1
        jvm.kill()
    deadline = time.monotonic() + PATIENCE_S
    while left := list((tmp_path / "data").glob("minibroker-*")):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)  # until another process has ended


def test_two_processes_unpack_at_the_same_time(java: ClassPath) -> None:
    running = [
        subprocess.Popen(java.command(), env=java.environment({}), stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    found = [process.communicate(timeout=PATIENCE_S)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert found[0] == found[1]
    assert len(java.folders) == 1


def test_folders_that_were_not_used_for_a_month_are_removed(java: ClassPath) -> None:
    folder = java.cache / "minibroker/binary"
    for name in ("old", "young"):
        (folder / name / "minibroker").mkdir(parents=True)
    os.utime(folder / "old", (time.time() - MONTH_S,) * 2)
    used = Path(java.find()).parents[1]
    assert java.folders == {"young", used.name}
    os.utime(used, (time.time() - MONTH_S,) * 2)
    java.find()
    assert time.time() - used.stat().st_mtime < MONTH_S / 2


def test_a_wrong_checksum_and_a_cache_that_cannot_be_written_are_sentences(java: ClassPath, tmp_path: Path) -> None:
    archive = java.bundled / PACKAGE / NAME
    intact = archive.read_bytes()
    archive.write_bytes(intact + b"\0")
    assert f"{NAME} is {hashlib.sha256(intact + bytes(1)).hexdigest()} and should be " in java.run().stderr
    assert java.folders == set()
    archive.write_bytes(intact)
    file = tmp_path / "file"
    file.touch()
    refused = java.run(XDG_CACHE_HOME=str(file)).stderr
    assert f"minibroker: the program cannot be unpacked into {file}/minibroker/binary (" in refused
    assert "name another folder in XDG_CACHE_HOME" in refused


def test_a_platform_without_a_program_is_named(java: ClassPath, tmp_path: Path) -> None:
    error = java.run("start", options=["-Dos.arch=s390x"], PATH=str(tmp_path / "empty")).stderr
    assert "add minibroker:minibroker-binary:1.1.0:linux-s390x to the dependencies, or set MINIBROKER_BINARY" in error


@pytest.mark.torture
def test_a_program_of_another_version_is_refused(java: ClassPath, tmp_path: Path) -> None:
    program = tmp_path / "older"
    code = "from minibroker.config import version\nversion.__version__ = '0.9.0'\n"
    code += "from minibroker.cli import main\nmain.main()"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n')
    program.chmod(0o755)
    done = java.run("start", MINIBROKER_BINARY=str(program))
    assert f"minibroker: {program} is version 0.9.0, and this client is for {__version__}" in done.stderr
