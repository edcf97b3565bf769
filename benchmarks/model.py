"""Measures: figures with targets, and a function that fills them for one running peer."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks import children
from benchmarks.peers import ORDINARY, Peer, Settings
from benchmarks.wire import API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, Connection

Numbers = dict[str, float]


class UnsupportedError(Exception):
    """A peer lacks what a measure needs. The message gives the reason and is shown. The run continues."""


class ClientError(Exception):
    """A client failed or did not end in time."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    `ratio` bounds minibroker's figure divided by Kafka's, `to_kfake` the figure divided by kfake's, and `value` the
    figure itself. Bounds are upper bounds, or lower bounds if `higher_is_better`.
    """

    key: str
    label: str
    unit: str
    ratio: float | None = None
    to_kfake: float | None = None
    value: float | None = None
    higher_is_better: bool = False
    decimals: int = 1

    @property
    def target(self) -> str:
        sign = ">=" if self.higher_is_better else "<="
        parts = [f"{sign} {self.value:,g} {self.unit}"] if self.value is not None else []
        parts += [f"{sign} {self.ratio:g}x"] if self.ratio is not None else []
        parts += [f"{sign} {self.to_kfake:g}x kfake"] if self.to_kfake is not None else []
        return ", ".join(parts)

    def is_met(self, value: float, ratio: float | None, to_kfake: float | None) -> bool | None:
        """Whether the bounds hold. None without a bound, or if a bound needs a ratio that is missing."""
        checks = [(value, self.value), (ratio, self.ratio), (to_kfake, self.to_kfake)]
        bounded = [(got, bound) for got, bound in checks if bound is not None]
        if not bounded or any(got is None for got, _ in bounded):
            return None
        return all(
            got is not None and (got >= bound if self.higher_is_better else got <= bound) for got, bound in bounded
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """The amounts of a run: bytes, counts and seconds."""

    rounds: int
    starts: int
    bulk_bytes: int
    small_bytes: int
    fetch_bytes: int
    pings: int
    pipelined_seconds: float
    tail_records: int
    tail_seconds: float
    idle_seconds: float
    idle_pings: int
    endurance_bytes: int
    log_bytes: int
    """The size of the long log for restarts and lookups."""
    look_ups: int
    compacted_bytes: int
    warm_ups: int
    """The number of warm-ups. One warm-up is some hundred MB and ten thousand requests."""
    connections: int = 1_000
    partitions: int = 5_000
    session_partitions: int = 1_000
    joins: int = 15
    groups: int = 1_000
    heartbeat_seconds: float = 12.0
    committed_partitions: int = 10_000
    hostile_share: int = 1
    """The factor by which hostile requests are smaller than they could be."""


QUICK = Scale(
    rounds=2,
    starts=3,
    bulk_bytes=128_000_000,
    small_bytes=64_000_000,
    fetch_bytes=512_000_000,
    pings=3_000,
    pipelined_seconds=1.0,
    tail_records=400,
    tail_seconds=2.0,
    idle_seconds=2.0,
    idle_pings=2_000,
    endurance_bytes=500_000_000,
    log_bytes=500_000_000,
    look_ups=1_000,
    compacted_bytes=32_000_000,
    warm_ups=1,
    hostile_share=10,
)
STANDARD = Scale(
    rounds=5,
    starts=5,
    bulk_bytes=256_000_000,
    small_bytes=128_000_000,
    fetch_bytes=1_000_000_000,
    pings=6_000,
    pipelined_seconds=2.0,
    tail_records=1_000,
    tail_seconds=4.0,
    idle_seconds=5.0,
    idle_pings=4_000,
    endurance_bytes=2_000_000_000,
    log_bytes=2_000_000_000,
    look_ups=3_000,
    compacted_bytes=64_000_000,
    warm_ups=4,
)


@dataclass(slots=True)
class Bench:
    """One peer under measurement, passed to a measure's function."""

    peer: Peer
    scale: Scale
    number: int = 0
    busy: float = 0.0
    """The largest share of a CPU that a client's thread used. At 1, the client set the pace."""
    outcome: str = ""
    """The outcome of the requests, in one or two words."""
    _topics: list[str] = field(default_factory=list)

    def client(self, name: str, *, timeout: int = 180, **parameters: Any) -> Numbers:
        """Run a function of `benchmarks.clients` ("raw.produce") in its own process.

        If its result has an `outcome`, it becomes the bench's.

        Raises:
            ClientError: The client failed or did not end in time.
        """
        if not self.peer.is_alive():
            raise ClientError(f"{self.peer.name} is gone:\n{self.peer.output()}")
        parameters = {"address": self.peer.address, "pid": self.peer.pid, "timeout": timeout, **parameters}
        command = [sys.executable, "-m", "benchmarks.clients", name, json.dumps(parameters)]
        with tempfile.TemporaryFile() as output:
            child = children.start(command, output)
            try:
                status = child.wait(timeout)
            except subprocess.TimeoutExpired:
                raise ClientError(f"{name} against {self.peer.name} did not end within {timeout} s") from None
            finally:
                children.end(child, grace=1)
            output.seek(0)
            lines = output.read().decode(errors="replace").splitlines()
        if status or not lines:
            raise ClientError(f"{name} against {self.peer.name} failed:\n" + "\n".join(lines[-12:]))
        reported: dict[str, Any] = json.loads(lines[-1])
        self.outcome = reported.pop("outcome", "")
        numbers: Numbers = reported
        self.busy = max(self.busy, numbers.get("busy", 0.0))
        return numbers

    def topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic whose partitions all have leaders. It is deleted when the measure ends."""
        name = f"bench-{self.number}-{len(self._topics)}"
        with Connection(self.peer.address) as connection:
            if CREATE_TOPICS in connection.api_keys():
                connection.create_topics([name], partitions, configs)
            elif partitions > _MOCK_PARTITIONS or configs:
                raise UnsupportedError("it cannot create topics")
            connection.await_partitions([name], partitions)
        self._topics.append(name)
        return name

    def delete_topics(self) -> None:
        if not self._topics:
            return
        with Connection(self.peer.address) as connection:
            if DELETE_TOPICS in connection.api_keys():
                connection.delete_topics(self._topics)
        self._topics.clear()

    def require(self, *api_keys: int) -> None:
        """Check that the peer advertises all of these APIs.

        Raises:
            UnsupportedError: An API is missing.
        """
        with Connection(self.peer.address) as connection:
            if missing := {API_VERSIONS, *api_keys} - connection.api_keys():
                raise UnsupportedError(f"it does not serve API key {', '.join(map(str, sorted(missing)))}")


_MOCK_PARTITIONS = 4
"""The number of partitions of a topic that librdkafka's mock cluster creates automatically."""


@dataclass(frozen=True, slots=True)
class Measure:
    """`run` fills `figures` (by key) once for one peer.

    Attributes:
        when: "round" is repeated side by side on running, warmed-up peers. "start" has a new broker for each of several
            repetitions, and "once" has one new broker.
        settings: The settings of the new broker.
        title: The title of a measure that is one row of its own table, whose columns are its figures. Such a measure
            runs only if it is named.
        left_out: The reason why a peer is left out, by the peer's name.
    """

    name: str
    figures: tuple[Figure, ...]
    run: Callable[[Bench], Numbers]
    when: Literal["round", "start", "once"]
    settings: Settings = ORDINARY
    title: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
