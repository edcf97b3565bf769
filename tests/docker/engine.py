"""The container engine of the tests: one that answers, or the one of `tests/docker/engine.sh`."""

import contextlib
import ctypes
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.docker.building import ARCHIVE, ROOT, fingerprint
from tests.patience import PATIENCE_S
from tests.programs import BINARY

_BUILT: Final = "minibroker"
IMAGE: Final = f"{_BUILT}-binary" if BINARY else _BUILT
"""The image that the tests run: the one of this checkout, or one with the self-contained program in its place."""
PREFIX: Final = "minibroker-test-"
"""The prefix of the names of the tests' containers and projects."""
_STATE: Final = ROOT / "build" / "engine"
_WITH_BINARY: Final = Path(__file__).with_name("binary.Dockerfile")
_CLONE_NEWNET: Final = 0x40000000


class NoEngineError(Exception):
    """No engine answers, or there is no image of this checkout. The message says what to do."""


class Engine:
    """A container engine.

    Args:
        pid: the process of an engine that `engine.sh` has started. Without it, `docker` finds the engine.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid
        self._enter = [] if pid is None else ["nsenter", "--target", str(pid), "--net", "--mount"]
        own = {} if pid is None else {"DOCKER_HOST": f"unix://{_STATE / 'docker.sock'}"}
        self.environment = {**os.environ, **own}
        """The environment in which clients find the engine."""

    def words(self, *arguments: str) -> list[str]:
        """Return the command line of a `docker` command, which needs `environment`."""
        return [*self._enter, "docker", *arguments]

    def docker(self, *arguments: str) -> str:
        """Run a `docker` command and return its output.

        Raises:
            AssertionError: the command fails.
        """
        done = self.try_docker(*arguments)
        assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def try_docker(self, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a `docker` command that may fail."""
        return subprocess.run(
            self.words(*arguments),
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """Let this thread, and the threads and processes that it starts, connect to published ports on 127.0.0.1."""
        if self._pid is None:
            yield
            return
        with open("/proc/thread-self/ns/net", "rb") as outside, open(f"/proc/{self._pid}/ns/net", "rb") as inside:
            _enter_network(inside.fileno())
            try:
                yield
            finally:
                _enter_network(outside.fileno())


def find_engine() -> Engine:
    """Return the engine, which has the image of this checkout.

    Raises:
        NoEngineError: no engine answers, or there is no image of this checkout.
    """
    folder = Path(os.environ.get("MINIBROKER_IMAGE", ROOT / "build" / "image"))
    mark = folder / "fingerprint"
    if not mark.exists() or mark.read_text(encoding="utf-8") != fingerprint():
        raise NoEngineError(f"{folder} has no image of this checkout: make image")
    engine = _find_running()
    with lock("image"):
        loaded = engine.try_docker("image", "inspect", "--format", "{{.Id}}", _BUILT).stdout.strip()
        if loaded != (folder / "id").read_text(encoding="utf-8"):
            engine.docker("load", "--quiet", "--input", str(folder / ARCHIVE))
        if BINARY:
            engine.docker("build", "--tag", IMAGE, "--file", str(_WITH_BINARY), str(Path(BINARY).parent))
    return engine


def _find_running() -> Engine:
    if shutil.which("docker") and Engine().try_docker("version").returncode == 0:
        return Engine()
    with contextlib.suppress(OSError, ValueError):
        engine = Engine(int((_STATE / "pid").read_text(encoding="ascii")))
        if engine.try_docker("version").returncode == 0:
            return engine
    raise NoEngineError("no container engine answers; as root, tests/docker/engine.sh start starts one")


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold a lock among the test processes of this checkout."""
    path = ROOT / "build" / f"{name}.lock"
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _enter_network(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # Python has os.setns from 3.12 on.
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
