"""Containers of the engine: the engine's JSON on one side, a box on the other."""

import base64
import contextlib
import gzip
import io
import json
import signal
import subprocess
import tarfile
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tests.docker.boxes import Box, Image, unpacking
from tests.patience import PATIENCE_S

_GZIP: Final = b"\x1f\x8b"
_NEVER: Final = "0001-01-01T00:00:00Z"
_ADDRESS: Final = "172.30.0.2"
NETWORK: Final[Mapping[str, Any]] = {
    "Name": "bridge",
    "Id": "b" * 64,
    "Driver": "bridge",
    "Scope": "local",
    "Created": _NEVER,
    "IPAM": {"Driver": "default", "Config": [{"Subnet": "172.30.0.0/24", "Gateway": "172.30.0.1"}]},
    "Containers": {},
    "Options": {},
    "Labels": {},
}
"""The only network; boxes reach nothing but themselves."""


class NoContainerError(Exception):
    """A container, an image or a file does not exist; the message says which."""


class Container:
    """A container, from its creation to its removal.

    Args:
        image: what it runs.
        name: its name, without the slash.
        request: the body of `POST /containers/create`.
    """

    def __init__(self, image: Image, name: str, request: Mapping[str, Any]) -> None:
        self.id = uuid.uuid4().hex * 2
        self.name = name
        self.request = request
        self.executions: list[Execution] = []
        self._image = image
        self._created = now()
        self._started = self._finished = _NEVER
        self._archives: list[tuple[str, bytes]] = []
        self._box: Box | None = None
        self._ports: dict[str, list[dict[str, str]]] = {}

    @property
    def box(self) -> Box:
        """The running box. NoContainerError before the start."""
        if self._box is None:
            raise NoContainerError(f"container {self.name} is not running")
        return self._box

    @property
    def status(self) -> int | None:
        """The exit status; None before the end."""
        if self._box is None:
            return None
        status = self._box.process.poll()
        if status is not None and self._finished == _NEVER:
            self._finished = now()
        return status

    def start(self) -> None:
        """Start the command, and forward its published ports."""
        if self._box is not None:
            return
        self._box = Box(
            self._image,
            entrypoint=_words(self.request.get("Entrypoint")),
            command=_words(self.request.get("Cmd")),
            environment=_variables(self.request.get("Env")),
            user=_user(self.request.get("User")),
            hostname=self.request.get("Hostname") or self.id[:12],
            archives=self._archives,
        )
        self._box.start()
        self._started = now()
        host = self.request.get("HostConfig") or {}
        bindings: dict[str, Any] = dict.fromkeys(self.request.get("ExposedPorts") or {}, None)
        if not host.get("PublishAllPorts"):
            bindings = {}
        bindings.update(host.get("PortBindings") or {})
        for port, places in bindings.items():
            outer = int((places or [{}])[0].get("HostPort") or 0)
            published = self._box.publish(int(port.partition("/")[0]), outer)
            self._ports[port] = [{"HostIp": "0.0.0.0", "HostPort": str(published)}]

    def unpack(self, folder: str, archive: bytes) -> None:
        """Unpack a tar archive into a folder inside, or do so at the start. NoContainerError without the folder."""
        if archive.startswith(_GZIP):
            archive = gzip.decompress(archive)
        if self._box is None:
            self._archives.append((folder, archive))
            return
        done = self._box.execute_raw(unpacking(folder), user="0:0", given=archive)
        if done.returncode:
            raise NoContainerError(done.stderr.decode(errors="replace"))

    def pack(self, path: str) -> tuple[bytes, str]:
        """Return a tar archive of a file or folder inside, and its description. NoContainerError without it."""
        parent, _, last = path.rstrip("/").rpartition("/")
        done = self.box.execute_raw(["tar", "-c", "-C", parent or "/", "-f", "-", last], user="0:0")
        if done.returncode:
            raise NoContainerError(done.stderr.decode(errors="replace"))
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            first = archive.getmembers()[0]
        described = {"name": last, "size": first.size, "mode": first.mode, "mtime": _NEVER, "linkTarget": ""}
        return done.stdout, base64.b64encode(json.dumps(described).encode()).decode()

    def stop(self, seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after a while."""
        if self.status is None and self._box is not None:
            self._box.send(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._box.process.wait(seconds)
                return
            self.kill()
            self._box.process.wait(PATIENCE_S)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal."""
        self.box.send(number)

    def remove(self) -> None:
        """End it, and remove its files."""
        if self._box is not None:
            self._box.remove()

    @property
    def state(self) -> str:
        """The word for its state."""
        if self._box is None:
            return "created"
        return "running" if self.status is None else "exited"

    def shown(self) -> dict[str, Any]:
        """Return what `GET /containers/ID/json` answers."""
        network = {"NetworkID": NETWORK["Id"], "IPAddress": _ADDRESS, "Gateway": "172.30.0.1", "Aliases": []}
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Created": self._created,
            "Image": IMAGE_ID,
            "Path": "",
            "Args": [],
            "Config": {**self._image.config, **self.request, "Hostname": self.request.get("Hostname") or self.id[:12]},
            "HostConfig": {"NetworkMode": "bridge", **(self.request.get("HostConfig") or {})},
            "Mounts": [],
            "State": {
                "Status": self.state,
                "Running": self.state == "running",
                "Paused": False,
                "Restarting": False,
                "OOMKilled": False,
                "Dead": False,
                "Pid": self.box.process.pid if self.state == "running" else 0,
                "ExitCode": self.status or 0,
                "Error": "",
                "StartedAt": self._started,
                "FinishedAt": self._finished,
            },
            "NetworkSettings": {"IPAddress": _ADDRESS, "Ports": self._ports, "Networks": {"bridge": network}},
        }

    def listed(self) -> dict[str, Any]:
        """Return its entry in `GET /containers/json`."""
        ports = [
            {
                "IP": "0.0.0.0",
                "PrivatePort": int(port.split("/")[0]),
                "PublicPort": int(place["HostPort"]),
                "Type": "tcp",
            }
            for port, places in self._ports.items()
            for place in places
        ]
        return {
            "Id": self.id,
            "Names": [f"/{self.name}"],
            "Image": self.request["Image"],
            "ImageID": IMAGE_ID,
            "Command": "",
            "Created": 0,
            "Ports": ports,
            "Labels": self.request.get("Labels") or {},
            "HostConfig": {"NetworkMode": "bridge"},
            "State": self.state,
            "Status": self.state,
            "Mounts": [],
            "NetworkSettings": {"Networks": {}},
        }


class Execution:
    """A command of `docker exec`, which has ended once its output is there."""

    def __init__(self, container: Container, request: Mapping[str, Any]) -> None:
        self.id = uuid.uuid4().hex * 2
        self.has_terminal = bool(request.get("Tty"))
        self._container = container
        self._request = request
        self._status: int | None = None
        self._runs = False

    def run(self) -> tuple[bytes, bytes]:
        """Run the command, and return its stdout and stderr."""
        self._runs = True
        done = self._container.box.execute_raw(
            self._request["Cmd"],
            user=_user(self._request.get("User")),
            environment=_variables(self._request.get("Env")),
            folder=self._request.get("WorkingDir") or None,
        )
        self._status, self._runs = done.returncode, False
        return done.stdout, done.stderr

    def shown(self) -> dict[str, Any]:
        """Return what `GET /exec/ID/json` answers."""
        command = self._request["Cmd"]
        return {
            "ID": self.id,
            "ContainerID": self._container.id,
            "Running": self._runs,
            "ExitCode": self._status,
            "Pid": 0,
            "ProcessConfig": {"entrypoint": command[0], "arguments": command[1:], "tty": self.has_terminal},
        }


IMAGE_ID: Final = f"sha256:{'0' * 64}"


def shown_image(image: Image, name: str) -> dict[str, Any]:
    """Return what `GET /images/NAME/json` answers."""
    return {
        "Id": IMAGE_ID,
        "RepoTags": [name],
        "RepoDigests": [],
        "Created": _NEVER,
        "Size": 0,
        "Config": image.config,
        "Architecture": "amd64",
        "Os": "linux",
        "RootFS": {"Type": "layers", "Layers": []},
    }


def now() -> str:
    """Return the time as Docker writes it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _words(given: str | Sequence[str] | None) -> list[str] | None:
    """Return a command as a list; an empty one stands for the image's own."""
    if not given:
        return None
    return ["/bin/sh", "-c", given] if isinstance(given, str) else list(given)


def _variables(given: Sequence[str] | None) -> dict[str, str]:
    return {name: value for name, _, value in (pair.partition("=") for pair in given or ())}


def _user(given: str | None) -> str | None:
    return given.replace("root", "0") if given else None
