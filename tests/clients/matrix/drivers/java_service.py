"""Shared by the drivers of Connect: a Java program that runs beside them, its properties, and requests to it."""

import contextlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.clients.matrix.drivers import harness

TIMEOUT = harness.PATIENCE
_CONFLICT = 409
_NOT_READY = (404, _CONFLICT, 500, 503)
"""The responses of Connect while it starts or its members join."""

_KINDS: Any = import_module("confluent_kafka.admin")
"""Its types do not say that what it offers is exported."""


class JavaService:
    """A program in a process of its own; as a context manager it ends with SIGTERM."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("a") as file:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def alive(self) -> bool:
        """Whether it still runs; AssertionError with its last words if it does not."""
        assert self._child.poll() is None, f"it has ended: {self.output()[-400:]}"
        return True

    def output(self) -> str:
        """The log of the program."""
        return self._log.read_text(errors="replace")

    def end(self) -> None:
        """End it, by force if it takes its time."""
        self._child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(TIMEOUT)
        self._child.kill()
        self._child.wait()


def written(path: Path, properties: Mapping[str, object]) -> str:
    """The path of a new file with these properties."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(path)


def ask(url: str, method: str = "GET", body: object = None) -> Any:
    """The JSON that Connect answers, or None when it has none, cannot answer yet, or does not listen yet.

    AssertionError with its words when it refuses.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            text = answer.read()
            return json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        words = error.read().decode(errors="replace")
        if error.code in _NOT_READY:
            return None
        raise AssertionError(f"{method} {url}: {error.code} {words}") from error
    except OSError:
        return None


def admin_of(bootstrap: str) -> Any:
    """A new AdminClient."""
    return _KINDS.AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def topic_config(admin: Any, topic: str, name: str) -> str | None:
    """A value of a topic's configuration."""
    resource = _KINDS.ConfigResource(_KINDS.ConfigResource.Type.TOPIC, topic)
    value: str | None = admin.describe_configs([resource])[resource].result(TIMEOUT)[name].value
    return value
