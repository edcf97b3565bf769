"""A small runner of Compose files: services of our image as boxes, their environment, health checks and dependencies.

It knows the keys that the files of `docker/` have, and refuses others. Services of other images are left out. All
services are in one network, and find each other by their names. A client joins a service's side of it to come by the
address that the service advertises.
"""

import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml  # type: ignore[import-untyped] # it has no types

from tests.docker.boxes import Box, Image, Network
from tests.patience import PATIENCE_S

OURS: Final = "minibroker"
_KEYS: Final = frozenset(
    {"image", "build", "environment", "command", "entrypoint", "ports", "volumes", "healthcheck", "depends_on",
     "read_only", "tmpfs", "cap_drop", "security_opt", "hostname", "user", "container_name", "restart", "expose",
     "networks", "working_dir", "pull_policy"}
)  # fmt: skip
_VARIABLE: Final = re.compile(r"\$(?:\$|(?P<plain>\w+)|\{(?P<name>\w+)(?::?-(?P<default>[^}]*))?\})")
_TIMES: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_SPAN: Final = re.compile(r"(\d+)(ms|s|m)")


class Project:
    """The services of one Compose file. Use it in a `with` block, which starts them in order and ends them.

    Args:
        image: what the services run whose image is ours.
        path: the Compose file.
        folder: where named volumes are.
        images: names that stand for our image, as after a change of the file's image name.
    """

    def __init__(self, image: Image, path: Path, folder: Path, images: Sequence[str] = (OURS,)) -> None:
        document = _filled(yaml.safe_load(path.read_text(encoding="utf-8")))
        self._image, self._folder, self._place = image, folder, path.parent
        self._services: dict[str, dict[str, Any]] = {
            name: service for name, service in document["services"].items() if service["image"] in images
        }
        self._volumes = set(document.get("volumes") or {})
        self.left_out = sorted(set(document["services"]) - set(self._services))
        """Services of other images."""
        self.boxes: dict[str, Box] = {}
        self._network: Network | None = None

    def __enter__(self) -> Self:
        names = [{_hostname(name, each), name, *_aliases(each)} for name, each in self._services.items()]
        self._network = Network([sorted(each) for each in names])
        try:
            for name in self._services:
                self._start(name)
            for name, service in self._services.items():
                if not any(name in (other.get("depends_on") or {}) for other in self._services.values()):
                    self._wait(name, "service_healthy" if _check(service, self._image) else "service_started")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for box in self.boxes.values():
            box.remove()
        assert self._network is not None
        self._network.__exit__(None, None, None)

    def _start(self, name: str) -> None:
        """Start a service behind those that it depends on."""
        if name in self.boxes:
            return
        service = self._services[name]
        unknown = set(service) - _KEYS
        assert not unknown, f"{name}: the runner does not know {sorted(unknown)}"
        assert service.get("pull_policy", "never") == "never", f"{name}: the runner pulls no image"
        dependencies = service.get("depends_on") or {}
        if isinstance(dependencies, list):
            dependencies = {each: {"condition": "service_started"} for each in dependencies}
        for other, condition in dependencies.items():
            self._start(other)
            self._wait(other, condition["condition"])
        command, entrypoint = service.get("command"), service.get("entrypoint")
        box = self.boxes[name] = Box(
            self._image,
            command=_words(command),
            entrypoint=_words(entrypoint),
            environment=_environment(service.get("environment")),
            user=service.get("user"),
            hostname=_hostname(name, service),
            network=self._network,
            read_only=service.get("read_only", False),
            volumes=dict(self._mount(each) for each in service.get("volumes") or ()),
        )
        box.start()

    def _mount(self, text: str) -> tuple[str, Path]:
        """A volume: its place inside, and the folder or file outside; a path goes from the Compose file."""
        source, _, target = text.partition(":")
        if source in self._volumes:
            return target, self._folder / source
        assert source.startswith("."), f"{text}: the runner knows named volumes and paths beside the file"
        return target, self._place / source

    def _wait(self, name: str, condition: str) -> None:
        box = self.boxes[name]
        if condition == "service_completed_successfully":
            assert box.process.wait(PATIENCE_S) == 0, box.logs()
        elif condition == "service_healthy":
            self._wait_until_healthy(name)
        else:
            assert condition == "service_started", condition

    def _wait_until_healthy(self, name: str) -> None:
        box, service = self.boxes[name], self._services[name]
        words = _check(service, self._image)
        assert words, f"{name} has no health check"
        pause = _seconds((service.get("healthcheck") or {}).get("interval", "30s"))
        deadline = time.monotonic() + PATIENCE_S
        while (checked := box.execute(words)).returncode:
            assert box.process.poll() is None, box.logs()
            assert time.monotonic() < deadline, checked.stdout + checked.stderr + box.logs()
            threading.Event().wait(min(pause, 1.0))

    def run_client(self, name: str, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a Python program of the tests in a service's network, where it is as near as one that ports lead to."""
        return subprocess.run(
            ["nsenter", "--target", str(self.boxes[name].pid), "--net", sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


def _hostname(name: str, service: Mapping[str, Any]) -> str:
    return str(service.get("hostname", name))


def _aliases(service: Mapping[str, Any]) -> list[str]:
    return [service["container_name"]] if "container_name" in service else []


def _filled(content: Any) -> Any:
    """Replace variables in all texts, as Compose does: $NAME, ${NAME}, ${NAME:-DEFAULT}, and $$ for a dollar."""
    if isinstance(content, dict):
        return {key: _filled(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_filled(value) for value in content]
    return _VARIABLE.sub(_value, content) if isinstance(content, str) else content


def _value(match: re.Match[str]) -> str:
    if match[0] == "$$":
        return "$"
    return os.environ.get(match["plain"] or match["name"]) or match["default"] or ""


def _environment(content: Mapping[str, object] | Sequence[str] | None) -> dict[str, str]:
    """Variables of either form; YAML's booleans as the texts that they were."""
    pairs = content.items() if isinstance(content, Mapping) else (each.partition("=")[::2] for each in content or ())
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in pairs}


def _words(command: str | list[str] | None) -> list[str] | None:
    return shlex.split(command) if isinstance(command, str) else command


def _check(service: Mapping[str, Any], image: Image) -> list[str]:
    """The health check's command: the service's own, else the image's; none where it is disabled."""
    own = service.get("healthcheck") or {}
    test = own.get("test") or (image.config.get("Healthcheck") or {}).get("Test")
    if own.get("disable") or not test or test == ["NONE"]:
        return []
    if isinstance(test, str):
        return ["/bin/sh", "-c", test]
    return test[1:] if test[0] == "CMD" else ["/bin/sh", "-c", test[1]]


def _seconds(text: str) -> float:
    return sum(int(count) * _TIMES[unit] for count, unit in _SPAN.findall(text))
