"""The measured brokers, which are child processes: minibroker, Apache Kafka, kfake and librdkafka's mock cluster."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import children, interpreter, kfake_program, loop_meter
from benchmarks.meter import Meter
from benchmarks.wire import Connection, WireError
from tests.kafka import jars

_START_TIMEOUT = 60.0
_RETRY_SECONDS = 0.001

# The options of bin/kafka-server-start.sh for the JVM, except those for JMX and logging.
_JVM_OPTIONS = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

_SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.segment.delete.delay.ms=1000
group.coordinator.rebalance.protocols={protocols}
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""

_LOG4J_PROPERTIES = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SECURITY = {
    "authorizer.class.name": _AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} required user_alice="secret";',
}
"""Clients of the plain listener may do everything. Clients of the other listener must log in first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a broker beyond its defaults. A measure leaves out a peer that does not support them.

    Attributes:
        is_watched: Whether minibroker's event loop records its longest turn (`loop_meter`).
        is_secured: Whether there is an authorizer, and a second listener that requires SASL/PLAIN.
        brokers: The number of brokers.
        has_control: Whether there is an HTTP control plane.
        names_take_s: The seconds that each host name lookup takes, or 0 for the system's lookup.
    """

    is_watched: bool = False
    is_secured: bool = False
    brokers: int = 1
    has_control: bool = False
    names_take_s: float = 0.0


ORDINARY = Settings()


class PeerError(Exception):
    """A peer did not start. The message ends with the tail of its output."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Peer(ABC):
    """One running broker in its own temporary directory. `stop` ends it and removes the directory.

    `started_ms` is the time from just before the spawn to the first valid Metadata response.
    """

    name: str

    def __init__(self, work_dir: Path | None = None, settings: Settings = ORDINARY) -> None:
        self.settings = settings
        self.dir = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-", dir=work_dir))
        self.data = self.dir / "data"
        self.address = ("127.0.0.1", 0)
        self.sasl_address = self.control_address = self.address
        self.started_ms = 0.0
        self._child: children.Child | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the broker."""

    def environment(self) -> Mapping[str, str]:
        return {}

    def prepare(self) -> None:
        """Prepare the spawn; this is not part of the start-up time."""
        self.address, self.sasl_address, self.control_address = (("127.0.0.1", free_port()) for _ in range(3))

    @property
    def _listeners(self) -> str:
        """Return the listeners in the format of the property `listeners`."""
        sasl = f",SASL_PLAINTEXT://127.0.0.1:{self.sasl_address[1]}" if self.settings.is_secured else ""
        return f"PLAINTEXT://{self.bootstrap}{sasl}"

    @property
    def hold_file(self) -> Path:
        """The file in which a watched event loop records its longest turn."""
        return self.dir / "hold"

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def meter(self) -> Meter:
        return Meter(self.pid)

    def start(self) -> None:
        """Spawn the broker, and wait until its Metadata response contains the broker itself.

        Raises:
            PeerError: The broker did not start.
        """
        try:
            self.prepare()
            begin = self._spawn()
        except BaseException:
            self.stop()
            raise
        self.started_ms = (time.perf_counter() - begin) * 1000

    def restart(self, number: signal.Signals, is_served: Callable[[Connection], bool]) -> float:
        """End the broker with a signal, and restart it on the same files and address.

        Return the milliseconds from just before the spawn until `is_served` returns that a client was served.
        """
        assert self._child is not None
        children.end(self._child, grace=120, number=number)
        begin = self._spawn()
        deadline = time.monotonic() + _START_TIMEOUT
        while not self._serves(is_served):
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name} did not serve within {_START_TIMEOUT:.0f} s:\n{self.output()}")
            time.sleep(_RETRY_SECONDS)
        return (time.perf_counter() - begin) * 1000

    def _serves(self, is_served: Callable[[Connection], bool]) -> bool:
        try:
            with Connection(self.address, timeout=_START_TIMEOUT) as connection:
                return is_served(connection)
        except (OSError, WireError):
            return False

    def _spawn(self) -> float:
        """Start the process, wait for its Metadata response, and return the time before the spawn."""
        with (self.dir / "output.log").open("ab") as output:
            begin = time.perf_counter()
            self._child = children.start(self.command(), output, env=self.environment())
        self._await_metadata()
        return begin

    def _await_metadata(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not self._answers():
            assert self._child is not None
            if self._child.poll() is not None:
                raise PeerError(f"{self.name} ended with status {self._child.returncode}:\n{self.output()}")
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name} was not ready within {_START_TIMEOUT:.0f} s:\n{self.output()}")
            time.sleep(_RETRY_SECONDS)

    def _answers(self) -> bool:
        try:
            with Connection(self.address, timeout=5) as connection:
                return self.address in connection.brokers()
        except (OSError, WireError):
            return False

    def output(self) -> str:
        """Return the last lines that the broker wrote."""
        try:
            text = (self.dir / "output.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-20:])

    def is_alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def signal_stop(self) -> None:
        """Signal the broker to end without waiting for it, so that several brokers end at the same time."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()

    def stop(self) -> None:
        if self._child is not None:
            children.end(self._child)
        shutil.rmtree(self.dir, ignore_errors=True)


class MinibrokerPeer(Peer):
    name = "minibroker"
    python = sys.executable

    def command(self) -> list[str]:
        settings = self.settings
        program = ["benchmarks.loop_meter", str(self.hold_file)] if settings.is_watched else ["minibroker"]
        command = [self.python, "-m", *program, "serve", "--data-dir", str(self.data)]
        if settings.is_secured:
            for key, value in {"listeners": self._listeners, **_SECURITY}.items():
                command += ["--set", f"{key}={value}"]
        else:
            command += ["--listen", self.bootstrap]
        if settings.brokers > 1:
            command += ["--brokers", str(settings.brokers)]
        if settings.has_control:
            command += ["--control", f"127.0.0.1:{self.control_address[1]}"]
        return command

    def environment(self) -> Mapping[str, str]:
        if self.settings.names_take_s:
            return {loop_meter.SLOW_NAMES: str(self.settings.names_take_s)}
        if importlib.util.find_spec("minibroker_protocol") is not None:
            return {}
        rooms = (
            children.ROOT,
            children.ROOT / "protocol",
            children.ROOT / "storage",
        )  # The checkout may not be installed.
        return {"PYTHONPATH": ":".join(map(str, rooms))}


class PlainPeer(MinibrokerPeer):
    """Minibroker without its workarounds for clients. It responds when Kafka would."""

    name = "minibroker-plain"

    def command(self) -> list[str]:
        return [*super().command(), "--set", "minibroker.client.workarounds.enable=false"]


class BinaryPeer(MinibrokerPeer):
    """The self-contained program that MINIBROKER_BINARY names."""

    name = "minibroker-binary"

    def command(self) -> list[str]:
        return [os.environ["MINIBROKER_BINARY"], *super().command()[3:]]


class PagePeer(MinibrokerPeer):
    """Minibroker with a page that is not open."""

    name = "page"

    def prepare(self) -> None:
        super().prepare()
        self.page_address = ("127.0.0.1", free_port())

    def command(self) -> list[str]:
        return [*super().command(), "--page", f"127.0.0.1:{self.page_address[1]}"]


class OpenPagePeer(PagePeer):
    """Minibroker with an open page."""

    name = "page-open"
    _reader: children.Child | None = None

    def start(self) -> None:
        super().start()
        url = f"http://127.0.0.1:{self.page_address[1]}"
        with (self.dir / "reader.log").open("ab") as output:
            self._reader = children.start([sys.executable, "-m", "benchmarks.page_reader", url], output)

    def stop(self) -> None:
        if self._reader is not None:
            children.end(self._reader)
        super().stop()


class KafkaPeer(Peer):
    name = "kafka"
    libs: Path

    def command(self) -> list[str]:
        return [*self._java(), *_JVM_OPTIONS, "kafka.Kafka", str(self.dir / "server.properties")]

    def _java(self) -> list[str]:
        return ["java", f"-Dlog4j.configuration=file:{self.dir}/log4j.properties", "-cp", f"{self.libs}/*"]

    def prepare(self) -> None:
        super().prepare()
        is_newer = not (self.libs / f"kafka_2.13-{jars.VERSION}.jar").exists()
        properties = _SERVER_PROPERTIES.format(
            listeners=self._listeners,
            controller=free_port(),
            data=self.data,
            protocols="classic,consumer,share" if is_newer else "classic,consumer",
        )
        if self.settings.is_secured:
            properties += "".join(f"{key}={value}\n" for key, value in _SECURITY.items())
        (self.dir / "server.properties").write_text(properties)
        (self.dir / "log4j.properties").write_text(_LOG4J_PROPERTIES)
        command = [*self._java(), "kafka.tools.StorageTool", "format", "--cluster-id", "bWluaWJyb2tlci1iZW5jaA"]
        command += ["--config", str(self.dir / "server.properties")]
        formatted = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_START_TIMEOUT)
        if formatted.returncode:
            raise PeerError(f"kafka.tools.StorageTool format failed:\n{formatted.stdout}{formatted.stderr}")


class KfakePeer(Peer):
    """franz-go's fake broker, on disk."""

    name = "kfake"
    program: Path

    def command(self) -> list[str]:
        return [str(self.program), str(self.address[1]), str(self.data)]


class MockPeer(Peer):
    name = "mock"

    def prepare(self) -> None:
        """Do nothing, because the mock picks its own port and keeps no files."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.mock_cluster"]

    def _answers(self) -> bool:
        if not self.address[1]:
            ready = re.search(r"bootstrap=[^:]+:(\d+)\n", self.output() + "\n")
            if ready is None:
                return False
            self.address = ("127.0.0.1", int(ready[1]))
        return super()._answers()


PEERS: dict[str, type[Peer]] = {kind.name: kind for kind in (MinibrokerPeer, KafkaPeer, KfakePeer, MockPeer)}
OTHERS: dict[str, type[Peer]] = {kind.name: kind for kind in (PlainPeer, BinaryPeer, PagePeer, OpenPagePeer)}
"""Peers that run only on request."""
REFERENCE = KafkaPeer.name
"""The peer with which the plot compares, pair by pair."""
REFERENCES = (REFERENCE, KfakePeer.name)
"""The other peers that keep records on disk. The table has minibroker's ratio to each of them."""


def available(names: list[str], kafka_libs: str | None) -> tuple[list[type[Peer]], dict[str, str]]:
    """Return the named peers that can run here, and the reason for each peer that cannot."""
    found: list[type[Peer]] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            if name == KafkaPeer.name:
                KafkaPeer.libs = jars.find(kafka_libs)
            elif name == KfakePeer.name:
                KfakePeer.program = kfake_program.find()
            elif name == MinibrokerPeer.name and not (children.ROOT / "minibroker" / "__main__.py").exists():
                missing[name] = "this checkout has no minibroker/__main__.py"
                continue
            elif name == BinaryPeer.name and "MINIBROKER_BINARY" not in os.environ:
                missing[name] = "MINIBROKER_BINARY does not name the program"
                continue
            found.append({**PEERS, **OTHERS}[name])
        except (jars.NoJarsError, kfake_program.NoKfakeError) as reason:
            missing[name] = str(reason)
    return found, missing


def versions() -> dict[str, str]:
    """Return the versions of the measured programs and of the measuring programs, for the report."""
    found = {"python": interpreter.description(), "kafka": jars.VERSION, "kfake": kfake_program.version()}
    for package in ("minibroker", "confluent-kafka", "psutil"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    found["cpus"] = str(psutil.cpu_count())
    return found
