"""Apache Kafka itself: one node in KRaft mode, in a process and a directory of its own."""

import contextlib
import functools
import random
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.clients import toolchains
from tests.kafka import jvm
from tests.kafka.coordinators import with_coordinators
from tests.patience import PATIENCE_S
from tests.programs import run_to_success

_ATTEMPTS = 3
_STARTED = "Kafka Server started"
_CLUSTER_ID = "bWluaWJyb2tlci10ZXN0cw"

KEEPS_RECORDS = {"log.retention.ms": "-1"}
"""For both sides: tests write timestamps of long ago, and a broker looks at retention every few minutes."""
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "true",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1000",
    **KEEPS_RECORDS,
    "broker.heartbeat.interval.ms": "250",
}
"""Settings that make it small and quick; times of background work are short, so that a test sees it happen."""
_AFTER_KILL = {"broker.session.timeout.ms": "3000"}
"""Of a start behind a kill: the controller waits that long for the broker that was, by default 9 s."""

_formatted: dict[tuple[Path, str], dict[Path, bytes]] = {}
"""The files of an empty data directory, by the jars and the node id that it was formatted for."""

_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


class RealKafka:
    """A Kafka on one data directory, however often it is started; the port is a new one at each start."""

    def __init__(
        self, directory: Path, libs: Path, properties: Mapping[str, str] | None = None, *, heap: str = "512m"
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.bootstrap = ""
        self._libs = libs
        self._heap = heap
        self._properties = {**_PROPERTIES, "log.dirs": str(self.data_dir), **(properties or {})}
        self._child: subprocess.Popen[str] | None = None
        self._output: list[str] = []
        self._ready = False
        self._was_killed = False
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "log4j.properties").write_text(_LOGGING)

    def start(self) -> None:
        """Start it and wait until it is ready. AssertionError if it does not get so far."""
        self._prepare()
        if not self.data_dir.exists():
            self._format()
        for _ in range(_ATTEMPTS):  # another process may take a port between the kernel's choice and Kafka's bind
            if self._start():
                return
        raise AssertionError(f"Kafka did not start:\n{self.output()}")

    def stop(self) -> None:
        """Stop it with SIGTERM: it flushes its logs and marks the directory as clean."""
        self._end(signal.SIGTERM)
        assert (self.data_dir / ".kafka_cleanshutdown").exists(), self.output()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it if it still runs."""
        if self._child is not None:
            self._end(signal.SIGKILL)

    def output(self) -> str:
        """Its warnings and errors so far."""
        return "".join(self._output)

    def listeners(self, port: int, controller: int) -> dict[str, str]:
        """The properties that say where it listens."""
        return {
            "listeners": f"CONTROLLER://127.0.0.1:{controller},PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }

    def _start(self) -> bool:
        port, controller = free_ports()
        self.bootstrap = f"127.0.0.1:{port}"
        self._write_properties(port, controller)
        command = [*self._java(), "kafka.Kafka", str(self.directory / "server.properties")]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._ready = False
        started = threading.Event()
        threading.Thread(target=self._drain, args=(self._child, started), daemon=True).start()
        assert started.wait(PATIENCE_S), f"Kafka did not start in time:\n{self.output()}"
        if not self._ready:
            self.close()
        return self._ready

    def _drain(self, child: "subprocess.Popen[str]", started: threading.Event) -> None:
        """Take its output as long as there is some; its end also ends the waiting for the start."""
        assert child.stdout is not None
        with child.stdout as lines:
            for line in lines:
                self._output.append(line)
                if _STARTED in line:
                    self._ready = True
                    started.set()
        started.set()

    def _end(self, number: signal.Signals) -> None:
        assert self._child is not None
        self._was_killed = number == signal.SIGKILL
        child, self._child = self._child, None
        child.send_signal(number)
        try:
            child.wait(PATIENCE_S)
        finally:
            child.kill()
            child.wait()

    def _prepare(self) -> None:
        """See that there is an archive of the classes that a start loads."""
        _archive_of(self._libs)

    def _java(self) -> Sequence[str]:
        """The words before a class of Kafka."""
        options = [f"-Dlog4j.configuration=file:{self.directory}/log4j.properties", *self._further_options()]
        return jvm.command(self._libs, *options, heap=self._heap)

    def _further_options(self) -> Sequence[str]:
        return ()

    def _format(self) -> None:
        """Fill the data directory as StorageTool does, which is asked once: no directory ever meets another one."""
        made_for = (self._libs, self._properties["node.id"])
        if made_for not in _formatted:
            self._run_storage_tool()
            paths = (path for path in self.data_dir.rglob("*") if path.is_file())
            _formatted[made_for] = {path.relative_to(self.data_dir): path.read_bytes() for path in paths}
        for name, content in _formatted[made_for].items():
            (self.data_dir / name).parent.mkdir(parents=True, exist_ok=True)
            (self.data_dir / name).write_bytes(content)

    def _run_storage_tool(self) -> None:
        self._write_properties(*free_ports())
        command = [*self._java(), "kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID]
        command += ["--config", str(self.directory / "server.properties")]
        run_to_success(command)

    def _write_properties(self, port: int, controller: int) -> None:
        own = {"controller.quorum.voters": f"1@127.0.0.1:{controller}", **self.listeners(port, controller)}
        after_kill = _AFTER_KILL if self._was_killed else {}
        text = "".join(f"{name}={value}\n" for name, value in {**after_kill, **self._properties, **own}.items())
        (self.directory / "server.properties").write_text(text)


class _Archiver(RealKafka):
    """A Kafka that leaves an archive of the classes that it has loaded, when it is stopped."""

    def __init__(self, directory: Path, libs: Path, made: Path) -> None:
        super().__init__(directory, libs)
        self._made = made

    def _prepare(self) -> None:
        """It is the one that makes the archive."""

    def _further_options(self) -> Sequence[str]:
        return (jvm.archiving(self._made),) if self.data_dir.exists() else ()


@functools.cache
def _archive_of(libs: Path) -> Path:
    """The archive with which Kafka starts in half the time; a JVM that cannot make one leaves an empty folder."""

    def make(made: Path) -> None:
        with (
            tempfile.TemporaryDirectory() as scratch,
            contextlib.closing(_Archiver(Path(scratch), libs, made)) as kafka,
        ):
            kafka.start()
            with_coordinators(kafka.bootstrap)
            kafka.stop()

    return toolchains.build(jvm.archive_of(libs), make)


def free_ports(count: int = 2) -> tuple[int, ...]:
    """Return ports that nobody listens on.

    They are below those that the system gives to clients: a client that polls such a port may connect to itself.
    """
    ports = dict[int, None]()
    while len(ports) < count:
        port = random.SystemRandom().randrange(20_000, 32_768)
        with contextlib.suppress(OSError), socket.socket() as each:
            each.bind(("127.0.0.1", port))
            ports[port] = None
    return tuple(ports)
