"""The broker that is fuzzed: a process whose event loop is watched, in one of several configurations."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.loop_meter import Hold
from tests.clients.broker_process import environment
from tests.patience import PATIENCE_S
from tests.torture.ledger import TortureError

_READY_WORD: Final = re.compile(r"(\S+?)=(\S+)")
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SECURITY: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} required user_alice="secret";',
    "delegation.token.secret.key": "secret",
}


@dataclass(frozen=True)
class Configuration:
    """The configuration of a broker, and its weak points.

    Attributes:
        is_secured: there is an authorizer; the attack goes to a listener that asks for SASL. Who comes to the other one
            may do everything.
        logs_in: the attacker has an account, and a few rights.
        quotas: what the attacker's client id may do in a second. The clients that must be served have none.
        expected: an expression for the errors that it may log, since its settings bring them about.
    """

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    brokers: int = 1
    is_secured: bool = False
    logs_in: bool = False
    quotas: dict[str, float] = field(default_factory=dict)
    expected: re.Pattern[str] | None = None


CONFIGURATIONS: Final = (
    Configuration("plain"),
    Configuration("three", brokers=3),
    Configuration("before-login", _SECURITY, is_secured=True),
    Configuration("logged-in", _SECURITY, is_secured=True, logs_in=True),
    Configuration(
        "small",
        {
            "socket.request.max.bytes": "20000",
            "message.max.bytes": "1000",
            "max.connections": "20",
            "max.connection.creation.rate": "100000",
            "max.incremental.fetch.session.cache.slots": "2",
            "group.max.size": "2",
            "offset.metadata.max.bytes": "10",
        },
        expected=re.compile(r"Group .* cannot be stored: ", re.DOTALL),  # its record is above message.max.bytes
    ),
    Configuration(
        "low-quotas",
        {"quota.window.num": "2", "controller.quota.window.num": "2"},
        quotas={
            "producer_byte_rate": 100.0,
            "consumer_byte_rate": 100.0,
            "request_percentage": 1.0,
            "controller_mutation_rate": 1.0,
        },
    ),
)


class FuzzedBroker:
    """`minibroker serve` on a directory that it keeps when it is started again.

    Attributes:
        listeners: (host, port) of each broker by the name of the listener.
        hold: how long the event loop was held.
    """

    def __init__(self, directory: Path, configuration: Configuration, topics: tuple[str, ...] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data_dir = directory / "data"
        self.stderr = directory / "stderr"
        self.hold = Hold(directory / "hold")
        self.listeners: dict[str, list[tuple[str, int]]] = {}
        self._expected = configuration.expected
        names = ["PLAINTEXT", "SASL_PLAINTEXT"] if configuration.is_secured else ["PLAINTEXT"]
        listeners = ",".join(f"{name}://127.0.0.1:0" for name in names)
        self._command = [sys.executable, "-m", "benchmarks.loop_meter", str(directory / "hold"), "serve"]
        self._command += ["--data-dir", str(self.data_dir), "--log-format", "json"]
        self._command += ["--brokers", str(configuration.brokers)]
        for key, value in {"listeners": listeners, **configuration.settings}.items():
            self._command += ["--set", f"{key}={value}"]
        for topic in topics:
            self._command += ["--topic", f"{topic}:2"]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until clients can connect. `TortureError`."""
        with self.stderr.open("ab") as stderr:
            self._child = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=stderr, env=environment())
        assert self._child.stdout is not None
        line = self._child.stdout.readline().decode()
        words = dict(_READY_WORD.findall(line))
        if "listeners" not in words:
            words["listeners"] = ",".join(f"PLAINTEXT://{each}" for each in words.get("bootstrap", "").split(","))
        self.listeners = {}
        for each in words["listeners"].split(","):
            name, _, address = each.partition("://")
            host, _, port = address.rpartition(":")
            if not port:
                raise TortureError(f"the broker did not start: {line} {self.stderr.read_text()[-2000:]}")
            self.listeners.setdefault(name, []).append((host, int(port)))

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._child is not None
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """Does it run?"""
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        """SIGTERM. `TortureError` unless it ends in time and well."""
        assert self._child is not None
        self._child.send_signal(signal.SIGTERM)
        try:
            status = self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TortureError(f"the broker has not stopped within {PATIENCE_S:.0f} s") from None
        self.close()
        if status:
            raise TortureError(f"the broker has stopped with status {status}")

    def close(self) -> None:
        """End it, whatever it does."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            assert self._child.stdout is not None
            self._child.stdout.close()
            self._child = None

    def complaints(self, since: int = 0) -> list[str]:
        """The errors that it has logged behind byte `since` of its log, with their tracebacks."""
        with self.stderr.open() as file:
            file.seek(since)
            lines = file.read().splitlines()
        return [text for line in lines if (text := self._complaint(line))]

    def _complaint(self, line: str) -> str:
        if not line.startswith("{"):
            return line  # not of the log: a traceback, or a warning of Python's
        entry = json.loads(line)
        is_expected = self._expected is not None and self._expected.match(entry["message"]) is not None
        if "exception" not in entry and (is_expected or entry["level"] not in {"ERROR", "CRITICAL"}):
            return ""
        return f"{entry['message']}\n{entry.get('exception', '')}"
