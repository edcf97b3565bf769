"""The broker that is fuzzed: a process whose event loop is watched, in one of several configurations."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.loop_meter import Hold
from tests.clients.broker_process import BrokerProcess

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


class FuzzedBroker(BrokerProcess):
    """`minibroker serve` on a directory that it keeps when it is started again.

    Attributes:
        listeners: (host, port) of each broker by the name of the listener.
        hold: how long the event loop was held.
    """

    def __init__(self, directory: Path, configuration: Configuration, topics: tuple[str, ...] = ()) -> None:
        self.listeners: dict[str, list[tuple[str, int]]] = {}
        self._expected = configuration.expected
        names = ["PLAINTEXT", "SASL_PLAINTEXT"] if configuration.is_secured else ["PLAINTEXT"]
        listeners = ",".join(f"{name}://127.0.0.1:0" for name in names)
        options = ["--log-format", "json", "--brokers", str(configuration.brokers)]
        for key, value in {"listeners": listeners, **configuration.settings}.items():
            options += ["--set", f"{key}={value}"]
        for topic in topics:
            options += ["--topic", f"{topic}:2"]
        super().__init__(directory, options, program=("benchmarks.loop_meter", str(directory / "hold")))
        self.hold = Hold(directory / "hold")

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._running().poll() is None

    def complaints_since(self, position: int) -> list[str]:
        """The errors that it has logged after this byte of its log, with their tracebacks."""
        with self.stderr.open() as file:
            file.seek(position)
            lines = file.read().splitlines()
        return [text for line in lines if (text := self._complaint(line))]

    def _places(self) -> list[str]:
        return ["--data-dir", str(self.data_dir)]

    def _note_places(self) -> None:
        plain = ",".join(f"PLAINTEXT://{each}" for each in self.words["bootstrap"].split(","))
        self.listeners = {}
        for each in self.words.get("listeners", plain).split(","):
            name, _, address = each.partition("://")
            host, _, port = address.rpartition(":")
            self.listeners.setdefault(name, []).append((host, int(port)))

    def _complaint(self, line: str) -> str:
        if not line.startswith("{"):
            return line  # not of the log: a traceback, or a warning of Python's
        entry = json.loads(line)
        is_expected = self._expected is not None and self._expected.match(entry["message"]) is not None
        if "exception" not in entry and (is_expected or entry["level"] not in {"ERROR", "CRITICAL"}):
            return ""
        return f"{entry['message']}\n{entry.get('exception', '')}"
