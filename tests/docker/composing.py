"""Compose files, run by `docker compose`."""

import sys
import uuid
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.docker.boxes import Container
from tests.docker.engine import PREFIX, Engine, lock
from tests.programs import run_program


class Project:
    """The services of a Compose file. Use it in a `with` block, which starts them in order and removes them.

    Args:
        engine: the engine that runs the services.
        path: the Compose file.
        services: the services to start, with those that they depend on; all by default.
        waits: whether to wait until these services are healthy.
        name: the name of the project. A project of the same name has the same volumes.
    """

    def __init__(self, engine: Engine, path: Path, *services: str, waits: bool = True, name: str | None = None) -> None:
        self._engine = engine
        self._compose = ["compose", "--project-name", name or new_name(), "--file", str(path)]
        self._up = ["up", "--detach", "--no-build", "--quiet-pull", *(["--wait"] if waits else []), *services]
        # All files that publish ports use the same ones.
        self._publishes = "ports:" in path.read_text(encoding="utf-8")
        self._ends = ExitStack()
        self.keeps_volumes = False
        """Whether the volumes stay when the block ends."""

    def __enter__(self) -> Self:
        if self._publishes:
            self._ends.enter_context(lock("ports"))
        try:
            done = self._engine.try_docker(*self._compose, *self._up)
            assert done.returncode == 0, done.stderr + self.docker("logs")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        volumes = [] if self.keeps_volumes else ["--volumes"]
        with self._ends:
            self._engine.try_docker(*self._compose, "down", "--timeout", "0", "--remove-orphans", *volumes)

    def __getitem__(self, service: str) -> Container:
        return Container(self._engine, self.docker("ps", "--all", "--format", "{{.Name}}", service))

    def docker(self, *arguments: str) -> str:
        """Run a command of `docker compose` and return its output."""
        return self._engine.docker(*self._compose, *arguments)

    def run_client(self, program: str, *arguments: str) -> str:
        """Run a Python program of the tests, which finds the published ports on localhost, and return its output."""
        command = [sys.executable, "-c", program, *arguments]
        with self._engine.network():
            done = run_program(command)
        assert done.returncode == 0, done.stdout + done.stderr + self.docker("logs")
        return done.stdout


def new_name() -> str:
    """Return the name of a new project."""
    return f"{PREFIX}{uuid.uuid4().hex[:12]}"
