"""Containers of the image, controlled with the `docker` command."""

import contextlib
import shlex
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.docker.engine import IMAGE, PREFIX, Engine
from tests.patience import PATIENCE_S


class Container:
    """A container that has been started."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name

    def logs(self, *streams: str) -> str:
        """Return what was written so far, by default to both streams."""
        done = self._engine.try_docker("logs", self.name)
        return "".join(getattr(done, stream) for stream in streams or ("stdout", "stderr"))

    def wait_for(self, line: str, stream: str | None = None) -> None:
        """Wait until a text occurs in a line of a stream, by default of either.

        Raises:
            AssertionError: the container has ended without writing the text.
        """
        followed = subprocess.Popen(
            self._engine.words("logs", "--follow", self.name),
            env=self._engine.environment,
            stdout=subprocess.DEVNULL if stream == "stderr" else subprocess.PIPE,
            stderr={"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}.get(stream or "", subprocess.STDOUT),
            text=True,
            errors="replace",
        )
        limit = threading.Timer(PATIENCE_S, followed.kill)
        limit.start()
        with followed:
            found = any(line in written for written in followed.stdout or followed.stderr or ())
            limit.cancel()
            followed.kill()
        assert found, f"{line!r} is not in the log: {self.logs()[-3000:]}"

    def wait_until(self, condition: Callable[[], bool], awaited: str) -> None:
        """Wait until a condition holds.

        Raises:
            AssertionError: the condition does not hold in time, or the container has ended.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            is_late = time.monotonic() > deadline or self.inspect("{{.State.Running}}") != "true"
            assert not is_late, f"{awaited}: {self.logs()[-3000:]}"
            threading.Event().wait(0.05)

    def inspect(self, template: str) -> str:
        """Return what `docker inspect` shows of the container."""
        return self._engine.docker("container", "inspect", "--format", template, self.name)

    @property
    def address(self) -> str:
        """The container's address in its network."""
        return self.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    def port(self, port: int) -> int:
        """Return the port of 127.0.0.1 at which a port of the container is published."""
        return int(self._engine.docker("port", self.name, f"{port}/tcp").splitlines()[0].rpartition(":")[2])

    def execute(
        self, command: Sequence[str], *, user: str | None = None, given: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in the container."""
        options = ["--interactive"] if user is None else ["--interactive", "--user", user]
        return self._engine.try_docker("exec", *options, self.name, *command, given=given)

    def execute_all(self, commands: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Run shell commands one after another, and return the status and the output of each, by command."""
        script = "".join(f"sh -c {shlex.quote(each)} </dev/null 2>&1; printf '\\0%d\\0' $?\n" for each in commands)
        parts = self.execute(["sh", "-s"], given=script).stdout.split("\0")
        return {command: (int(parts[2 * i + 1]), parts[2 * i]) for i, command in enumerate(commands)}

    def copy_in(self, path: str, content: str, mode: int, owner: tuple[int, int] = (0, 0)) -> None:
        """Put a file into the container."""
        # Rename the file when it is complete, because a loop in the container may be waiting to run it.
        script = 'umask 0; cat > "$1.part" && chown "$2" "$1.part" && chmod "$3" "$1.part" && mv "$1.part" "$1"'
        arguments = (path, f"{owner[0]}:{owner[1]}", f"{mode:o}")
        done = self.execute(["/bin/sh", "-c", script, "copy", *arguments], user="0:0", given=content)
        assert done.returncode == 0, done.stderr

    def wait(self) -> int:
        """Wait for the end of the container and return its status."""
        return int(self._engine.docker("wait", self.name))

    def stop(self) -> int:
        """Stop the container as `docker stop` does and return its status."""
        self._engine.docker("stop", self.name)
        return self.wait()


@contextlib.contextmanager
def run_box(
    engine: Engine,
    *options: str,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    hostname: str = "box",
    ports: Sequence[int] = (),
    is_checked: bool = False,
) -> Iterator[Container]:
    """Run a container of the image, and remove it with its volumes when the block ends.

    Args:
        engine: the engine that runs the container.
        options: options of `docker run`.
        entrypoint: replaces the image's entry point.
        command: the container's command and arguments.
        environment: further variables.
        hostname: the container's host name, which resolves to its own address.
        ports: the ports to publish on 127.0.0.1, each at a free port.
        is_checked: whether the engine runs the health check.
    """
    box = Container(engine, f"{PREFIX}{uuid.uuid4().hex[:12]}")
    words = ["--name", box.name, "--hostname", hostname, *options, *([] if is_checked else ["--no-healthcheck"])]
    for port in ports:
        words += ["--publish", f"127.0.0.1::{port}"]
    for name, value in (environment or {}).items():
        words += ["--env", f"{name}={value}"]
    if entrypoint:
        words += ["--entrypoint", entrypoint[0]]
    try:
        engine.docker("run", "--detach", "--pull", "never", *words, IMAGE, *entrypoint[1:], *command)
        yield box
    finally:
        engine.try_docker("rm", "--force", "--volumes", box.name)
