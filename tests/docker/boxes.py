"""Runs the image's root file system as a container engine would: namespaces, a writable layer, its user and command.

A box has mount, PID, host name and network namespaces of its own. Its files are an overlay on the image's, so the
image stays as it is. Ports are reached from outside through forwarders, whose sockets are made inside the box's
network. It takes root, and Linux.
"""

import contextlib
import ctypes
import json
import os
import queue
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.patience import PATIENCE_S

_CLONE_NEWNET: Final = 0x40000000
_ADDRESS: Final = "172.30.0.2"
_ALONE: Final = f"ip address add {_ADDRESS}/32 dev lo"
_START: Final = """
set -e
ip link set lo up
{network}
hostname {name}
mount -t overlay overlay -o lowerdir={lower},upperdir={upper},workdir={work} {merged}
mount -t proc proc {merged}/proc
mount --rbind /dev {merged}/dev
printf '127.0.0.1 localhost\\n{hosts}\\n' > {merged}/etc/hosts
echo {name} > {merged}/etc/hostname
{read_only}
exec chroot --userspec={user} {merged} /usr/bin/env -i -C {folder} "$@"
"""


class Image:
    """An image that `tests.docker.building` has built into a folder."""

    def __init__(self, folder: Path) -> None:
        self.rootfs = folder / "rootfs"
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the image sets."""
        return dict(each.split("=", 1) for each in self.config.get("Env", ()))


class Network:
    """A network of boxes, which find each other by their names. Use it in a `with` block, which ends it.

    Args:
        names: the names of all boxes that will join, one or more of each.
    """

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        self._addresses = {name: f"172.30.0.{number}" for number, each in enumerate(names, 2) for name in each}
        self._count = 0
        bridge = "ip link add bridge type bridge && ip link set bridge up && echo ready && exec sleep infinity"
        self._process = subprocess.Popen(["unshare", "--net", "sh", "-c", bridge], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def hosts(self) -> str:
        """The lines of /etc/hosts, but for the own names of a box."""
        return "\\n".join(f"{address} {name}" for name, address in self._addresses.items())

    def waiting(self, name: str) -> str:
        """The lines of a script by which a box waits until it has joined."""
        return (
            "until ip link show eth0 > /dev/null 2>&1; do sleep 0.01; done\n"
            f"ip address add {self._addresses[name]}/24 dev eth0\nip link set eth0 up"
        )

    def join(self, pid: int) -> None:
        """Connect the network namespace of a process. subprocess.CalledProcessError."""
        self._count += 1
        end = f"box{self._count}"
        script = f"ip link add {end} type veth peer name eth0 netns {pid} && ip link set {end} master bridge up"
        subprocess.run(["nsenter", "--target", str(self._process.pid), "--net", "sh", "-c", script], check=True)


class Box:
    """One container. Use it in a `with` block, which ends it.

    Args:
        image: what to run.
        entrypoint: in the place of the image's, as `--entrypoint` has it.
        command: in the place of the image's.
        environment: further variables.
        user: in the place of the image's.
        hostname: its host name, by which its address is found inside.
        aliases: further names of that address.
        read_only: whether the root file system may only be read, all but /tmp and volumes.
        archives: tar archives to unpack before the command starts, each with its folder inside.
        volumes: folders outside by their places inside, which may end in `:ro`; the image's user and group
            root may write there.
        network: with others, in the place of one that it has alone; `hostname` is among its names.
    """

    def __init__(
        self,
        image: Image,
        *,
        entrypoint: Sequence[str] | None = None,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        hostname: str = "box",
        aliases: Sequence[str] = (),
        read_only: bool = False,
        archives: Sequence[tuple[str, bytes]] = (),
        volumes: Mapping[str, Path] | None = None,
        network: Network | None = None,
    ) -> None:
        config = image.config
        entry = list(config.get("Entrypoint") or ()) if entrypoint is None else list(entrypoint)
        default = [] if entrypoint is not None else list(config.get("Cmd") or ())
        self.command = [*entry, *(default if command is None else command)]
        self.environment = {"HOSTNAME": hostname, "HOME": "/opt/kafka", **image.environment, **(environment or {})}
        self.user = config.get("User") or "0:0" if user is None else user.replace("root", "0")
        self.hostname = hostname
        self._image = image
        self._hosts = network.hosts if network else f"{_ADDRESS} {' '.join([hostname, *aliases])}"
        self._network = network
        self._read_only = read_only
        self._archives = archives
        self._volumes = dict(volumes or {})
        self._folder = Path(tempfile.mkdtemp(prefix="minibroker-box-"))
        self.root = self._folder / "merged"
        self._forwarders: list[_Forwarder] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def start(self) -> None:
        """Start the command."""
        for name in ("upper", "work", "merged"):
            (self._folder / name).mkdir()
            if name == "upper":
                (self._folder / name).chmod(0o755)
        merged = str(self.root)
        writable = self._mounts(merged)
        for number, (path, content) in enumerate(self._archives):
            archive = self._folder / f"archive{number}.tar"
            archive.write_bytes(content)
            writable += f"chroot {merged} {shlex.join(unpacking(path))} < {archive}\n"
        if self._read_only:
            writable += f"mount -t tmpfs tmpfs {merged}/tmp; chmod 1777 {merged}/tmp; mount -o remount,ro {merged}\n"
        script = _START.format(
            network=_ALONE if self._network is None else self._network.waiting(self.hostname),
            name=self.hostname,
            hosts=self._hosts,
            lower=self._image.rootfs,
            upper=self._folder / "upper",
            work=self._folder / "work",
            merged=merged,
            user=self.user,
            folder=self._image.config.get("WorkingDir") or "/",
            read_only=writable,
        )
        pairs = [f"{name}={value}" for name, value in self.environment.items()]
        with self.log("stdout").open("wb") as stdout, self.log("stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--uts", "--net",
                 "sh", "-c", script, "box", *pairs, *self.command],
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        if self._network is not None:
            self._network.join(self.pid)

    def _mounts(self, merged: str) -> str:
        """The lines of a script that mounts volumes: those given, and new ones for what the image declares."""
        mounts = dict(self._volumes)
        given = {path.removesuffix(":ro") for path in mounts}
        for number, path in enumerate(self._image.config.get("Volumes") or ()):
            if path not in given:
                mounts[path] = self._folder / f"volume{number}"
        lines: list[str] = []
        for path, place in mounts.items():
            inside = f"{merged}{path.removesuffix(':ro')}"
            if place.is_file():
                lines.append(f"mkdir -p {os.path.dirname(inside)}; touch {inside}; mount --bind {place} {inside}\n")
            else:
                owned = f"mkdir -p {place} {inside}; chown 1000:0 {place}; chmod g+w {place}"
                lines.append(f"{owned}; mount --bind {place} {inside}\n")
            if path.endswith(":ro"):
                lines.append(f"mount -o remount,bind,ro {inside}\n")
        return "".join(lines)

    def log(self, stream: str) -> Path:
        """Name the file with what the command has written to stdout or stderr."""
        return self._folder / stream

    def logs(self, *streams: str) -> str:
        """Return what was written so far, by default to both."""
        return "".join(
            self.log(each).read_text(encoding="utf-8", errors="replace") for each in streams or ("stdout", "stderr")
        )

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The process outside that waits for the box."""
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        """The id, outside, of the box's first process."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            if children:
                return int(children[0])
        raise RuntimeError(f"the box has ended: {self.logs()[-2000:]}")

    def wait_until(self, condition: Callable[[], bool], awaited: str) -> None:
        """Look again and again until a condition holds; TimeoutError, or RuntimeError when the box has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if self.process.poll() is not None:
                raise RuntimeError(f"the box has ended with {self.process.returncode}: {self.logs()[-3000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{awaited}: {self.logs()[-3000:]}")
            threading.Event().wait(0.02)

    def copy_in(self, path: str, content: str, mode: int, owner: tuple[int, int] = (0, 0)) -> None:
        """Put a file into the running box, as the engine's archive API does."""
        self._when_mounted()
        # It gets its name when it is whole: a loop of the box may wait for it, and run it at once.
        script = 'umask 0; cat > "$1.part" && chown "$2" "$1.part" && chmod "$3" "$1.part" && mv "$1.part" "$1"'
        arguments = (path, f"{owner[0]}:{owner[1]}", f"{mode:o}")
        completed = self.execute(["/bin/sh", "-c", script, "copy", *arguments], user="0:0", given=content)
        completed.check_returncode()

    def _when_mounted(self) -> None:
        def is_mounted() -> bool:
            place = Path("/proc", str(self.pid), "root")
            return os.readlink(place) != os.sep and (place / "etc" / "hostname").exists()

        self.wait_until(is_mounted, "its file system is mounted")

    def execute(
        self, command: Sequence[str], *, user: str | None = None, given: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command inside, as `docker exec` does."""
        done = self.execute_raw(command, user=user, given=given.encode())
        stdout, stderr = (output.decode(errors="replace") for output in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, stdout, stderr)

    def execute_raw(
        self,
        command: Sequence[str],
        *,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        given: bytes = b"",
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command inside, whose input and output are bytes."""
        self._when_mounted()
        pairs = [f"{name}={value}" for name, value in {**self.environment, **(environment or {})}.items()]
        uid, _, gid = (user or self.user).partition(":")
        place = folder or self._image.config.get("WorkingDir") or "/"
        return subprocess.run(
            [
                *("nsenter", "--target", str(self.pid), "--mount", "--pid", "--uts", "--net", "--root"),
                *("--setuid", uid, "--setgid", gid or uid, "/usr/bin/env", "-i", "-C", place, *pairs, *command),
            ],
            input=given,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def publish(self, port: int, outer: int = 0) -> int:
        """Return the port of 127.0.0.1, outside, that leads to a port inside; 0 picks a free one."""
        forwarder = _Forwarder(self, port, outer)
        self._forwarders.append(forwarder)
        return forwarder.port

    def send(self, number: int) -> None:
        """Send a signal to the first process, unless it has ended."""
        with contextlib.suppress(RuntimeError, ProcessLookupError):
            os.kill(self.pid, number)

    def stop(self) -> int:
        """Send SIGTERM and return the exit status of the first process."""
        os.kill(self.pid, signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def remove(self) -> None:
        """End it, and remove its files."""
        for forwarder in self._forwarders:
            forwarder.close()
        if self._process is not None and self._process.poll() is None:
            # The first process takes all others with it. `--kill-child` does not reach it: the signal that a process
            # gets at its parent's death is forgotten when it changes its user.
            self.send(signal.SIGKILL)
            self._process.wait(PATIENCE_S)
        shutil.rmtree(self._folder, ignore_errors=True)


def unpacking(folder: str) -> list[str]:
    """Return the command that unpacks its input into a folder, with the owners and rights that the archive names."""
    return ["tar", "-x", "-p", "--numeric-owner", "-C", folder, "-f", "-"]


class _Forwarder:
    """A port outside whose connections go on to a port inside a box."""

    def __init__(self, box: Box, port: int, outer: int) -> None:
        self._box, self._inner = box, port
        self._server = socket.create_server(("127.0.0.1", outer))
        self.port: int = self._server.getsockname()[1]
        self._orders: queue.SimpleQueue[queue.SimpleQueue[socket.socket | OSError] | None] = queue.SimpleQueue()
        self._sockets: list[socket.socket] = []
        for target in (self._connect, self._accept):
            threading.Thread(target=target, daemon=True).start()

    def _connect(self) -> None:
        """Make connections inside; a thread may have a network namespace of its own."""
        order = self._orders.get()
        if order is None:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/proc/{self._box.pid}/ns/net", encoding="ascii") as namespace:
            if libc.setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        while order is not None:
            try:
                order.put(socket.create_connection(("127.0.0.1", self._inner), timeout=PATIENCE_S))
            except OSError as error:
                order.put(error)
            order = self._orders.get()

    def _accept(self) -> None:
        while True:
            try:
                outer, _ = self._server.accept()
            except OSError:
                return
            answer: queue.SimpleQueue[socket.socket | OSError] = queue.SimpleQueue()
            self._orders.put(answer)
            inner = answer.get()
            if isinstance(inner, OSError):
                outer.close()
                continue
            inner.settimeout(None)
            self._sockets += [outer, inner]
            for source, target in ((outer, inner), (inner, outer)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    def close(self) -> None:
        self._orders.put(None)
        for each in [self._server, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
