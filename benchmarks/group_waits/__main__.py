"""The waits of tests with consumer groups, client by client: stalls, first records, closes and rebalances.

    python -m benchmarks.group_waits [--clients java,rust] [--groups 500] [--peers minibroker] [--load 2]
        [--jobs 1] [--json FILE]

Each try has a new group and one or two new topics, one to three members, and polls of 1 to 500 ms. One record is
produced just after all members have subscribed. It is a stall when none of them sees it within 5 s. Then the record is
committed, the members close, and a new consumer of the group waits for one more record: the second. Half of the tries
run beside `--load` busy loops. The groups are shared among the clients. Before its first try each client makes one that
does not count. A driver in the client's language (`drivers.py`) measures, so starts of processes are no part of it.

With `--seconds` each client repeats one small test instead: a topic, a record, a consumer that commits and closes, one
more record and a second consumer. The peers take turns. The figure is the number of such tests in a minute.

The peers are minibroker, minibroker-plain (without its workarounds for clients), kafka (3.9.1 with
`group.initial.rebalance.delay.ms=0`), kafka-3000 (with 3,000, Kafka's own default) and kfake. `--checkout` runs the
minibroker of another folder instead of this one.
"""

import argparse
import itertools
import json
import queue
import random
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import children, peers, wire
from benchmarks.group_waits.drivers import DRIVERS, Start
from tests.kafka import jars

POLLS_MS = (1, 20, 100, 500)
TIMEOUT_S = 120.0
"""The time limit for a driver's line, in seconds. A slower driver is ended and restarted for the next try."""
DEFAULT_DELAY_MS = 3_000
WARM_UPS = 2
"""Small tests that are not counted."""


class DelayingKafkaPeer(peers.KafkaPeer):
    """Kafka with its default delay before a group's first rebalance."""

    name = "kafka-3000"

    def prepare(self) -> None:
        super().prepare()
        with (self.dir / "server.properties").open("a") as properties:
            properties.write(f"group.initial.rebalance.delay.ms={DEFAULT_DELAY_MS}\n")


class CheckoutPeer(peers.MinibrokerPeer):
    """The minibroker of another checkout."""

    root = children.ROOT

    def environment(self) -> Mapping[str, str]:
        rooms = (self.root, self.root / "protocol", self.root / "storage")
        return {"PYTHONPATH": ":".join(map(str, rooms)), "PYTHONSAFEPATH": "1"}


class PlainCheckoutPeer(CheckoutPeer, peers.PlainPeer):
    """The minibroker of another checkout without its workarounds for clients."""


PEERS: Mapping[str, type[peers.Peer]] = {
    "minibroker": CheckoutPeer,
    "minibroker-plain": PlainCheckoutPeer,
    "kafka": peers.KafkaPeer,
    "kafka-3000": DelayingKafkaPeer,
    "kfake": peers.KfakePeer,
}


class DriverError(Exception):
    """A driver ended or did not respond in time."""


class Driver:
    """The process of a driver and the lines that it prints."""

    def __init__(self, start: Start, errors: Path) -> None:
        with errors.open("ab") as stderr:
            self._child = subprocess.Popen(
                start.command,
                env={**children.INHERITED, **start.variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                process_group=0,
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put("")

    def send(self, request: Mapping[str, Any]) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise DriverError("the driver has ended") from None

    def receive(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise DriverError(f"the driver was silent for {TIMEOUT_S:.0f} s") from None
        if not line:
            raise DriverError("the driver has ended")
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> None:
        self._child.kill()
        self._child.wait()


def shapes(count: int, seed: str) -> list[dict[str, int]]:
    """Return the settings of `count` tries. All combinations occur equally often, in the same order in each run."""
    chosen = random.Random(seed)
    combinations = list(itertools.product(POLLS_MS, (1, 2), (1, 2, 3)))
    drawn: list[tuple[int, int, int]] = []
    while len(drawn) < count:
        drawn += chosen.sample(combinations, len(combinations))
    return [{"poll_ms": poll, "topics": topics, "members": members} for poll, topics, members in drawn[:count]]


def attempt(driver: Driver, peer: peers.Peer, shape: Mapping[str, int]) -> dict[str, Any]:
    """Run one try, and return its driver's measurements."""
    name = f"waits-{uuid.uuid4().hex[:12]}"
    topics = [f"{name}-{number}" for number in range(shape["topics"])]
    partitions = shape["members"]
    batch, _ = wire.record_batch(20)
    with wire.Connection(peer.address) as connection:
        connection.create_topics(topics, partitions)
        connection.await_partitions(topics, partitions * len(topics))
        request = {"bootstrap": peer.bootstrap, "group": name, **shape, "topics": topics, "partitions": partitions}
        driver.send(request)
        while "subscribed" in (message := driver.receive()):
            produce(connection, wire.produce_request(topics[0], 0, batch))
    return message


def produce(connection: wire.Connection, request: bytearray) -> None:
    """Produce a record. Retry, because Kafka may announce a new partition's leader before the leader is ready."""
    for patience in range(100, -1, -1):
        connection.socket.sendall(request)
        try:
            wire.produced_offset(connection.receive())
        except wire.WireError:
            if not patience:
                raise
            time.sleep(0.005)
        else:
            return


@contextmanager
def busy(loops: int) -> Generator[None]:
    """Run processes that keep a CPU busy each."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure(client: str, start: Start, peer: peers.Peer, settings: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
    """Return a client's tries without the first, in which nothing is loaded yet. Failed tries have an `error`."""
    driver: Driver | None = None
    tries: list[dict[str, Any]] = []
    errors = peer.dir / f"{client}.stderr"
    try:
        for shape in settings:
            driver = driver or Driver(start, errors)
            result: dict[str, Any] = {"client": client, "peer": peer.name, **shape}
            try:
                result |= attempt(driver, peer, shape)
            except (DriverError, wire.WireError, OSError) as error:
                result["error"] = f"{error}; {errors.read_text()[-300:]}"
                driver.end()
                driver = None
            tries.append(result)
    finally:
        if driver is not None:
            driver.end()
    return tries[1:]


def measure_all(
    starts: Mapping[str, Start], peer: peers.Peer, groups: int, load: int, jobs: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Measure all clients with a peer, `jobs` at a time. The second half of the tries runs beside busy loops."""
    tries: dict[str, list[dict[str, Any]]] = {client: [] for client in starts}
    halves: list[tuple[int, dict[str, list[dict[str, int]]]]] = [(0, {}), (load, {})]
    for number, client in enumerate(starts):
        chosen = shapes(groups // len(starts) + (number < groups % len(starts)), client)
        for (_, half), settings in zip(halves, (chosen[::2], chosen[1::2]), strict=True):
            half[client] = settings
    for loops, half in halves:
        with busy(loops), ThreadPoolExecutor(jobs) as pool:
            running = {
                client: pool.submit(measure, client, starts[client], peer, [settings[0], *settings])
                for client, settings in half.items()
                if settings
            }
            for client, future in running.items():
                tries[client] += [{**result, "loops": loops} for result in future.result()]
    yield from tries.items()


def tests_a_minute(start: Start, running: Sequence[peers.Peer], seconds: float) -> list[float]:
    """Have the peers take turns at a small test, and return the median number of tests in a minute."""
    drivers = [Driver(start, peer.dir / "stderr") for peer in running]
    took: list[list[float]] = [[] for _ in running]
    shape = {"poll_ms": 100, "topics": 1, "members": 1}
    try:
        deadline = time.monotonic() + seconds * len(running)
        while time.monotonic() < deadline or len(took[0]) <= WARM_UPS:
            turns = list(zip(drivers, running, took, strict=True))
            random.shuffle(
                turns
            )  # A JVM stays busy for a while afterwards, which must not always affect the same peer.
            for driver, peer, durations in turns:
                began = time.monotonic()
                attempt(driver, peer, shape)
                durations.append(time.monotonic() - began)
    finally:
        for driver in drivers:
            driver.end()
    return [60 / statistics.median(durations[WARM_UPS:]) for durations in took]


def times(samples: Sequence[float | None]) -> str:
    """Return the median and the 99th percentile, in ms."""
    present = sorted(sample for sample in samples if sample is not None)
    if not present:
        return ""
    return f"{statistics.median(present):,.0f} / {present[min(len(present) - 1, int(len(present) * 0.99))]:,.0f}"


def row(client: str, peer: str, tries: Sequence[Mapping[str, Any]]) -> str:
    """Return a line of the table."""
    done = [each for each in tries if "first" in each]
    first, second = ([each[name] for each in done] for name in ("first", "second"))
    # After a stall, the second consumer reads both records, so its time is meaningless.
    seconds = [each["second"]["record_ms"] for each in done if each["first"]["record_ms"] is not None]
    stalls = [sum(phase["record_ms"] is None for phase in phases) for phases in (first, second)]
    unsettled = sum(not phase["is_settled"] for phase in first)
    cells = [
        *(client, peer, str(len(done)), f"{stalls[0]}, {stalls[1]}"),
        times([phase["record_ms"] for phase in first]),
        times(seconds),
        times([close for phase in (*first, *second) for close in phase["closes_ms"]]),
        times([phase["leave_ms"] for phase in first]),
    ]
    failed = len(tries) - len(done)
    errors = {str(each.get("error", ""))[:80] for each in tries} | {phase["error"][:80] for phase in (*first, *second)}
    notes = [f"{failed} failed"] * bool(failed) + [f"{unsettled} not settled"] * bool(unsettled)
    return f"| {' | '.join(cells)} | {'; '.join([*notes, *sorted(errors - {''})])} |"


def loop(starts: Mapping[str, Start], names: Sequence[str], seconds: float) -> None:
    """Return a line for each client: its tests per minute with each peer. The peers take turns."""
    print(f"| client | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
    with ExitStack() as stack:
        running = [PEERS[name]() for name in names]
        for peer in running:
            stack.callback(peer.stop)
            peer.start()
        for client, start in starts.items():
            figures = tests_a_minute(start, running, seconds)
            print(f"| {client} | {' | '.join(f'{figure:,.0f}' for figure in figures)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default=",".join(DRIVERS), help="names, separated by commas")
    parser.add_argument("--groups", type=int, default=500, help="tries on each peer, shared among the clients")
    parser.add_argument("--peers", default="minibroker", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--load", type=int, default=2, help="busy loops beside half of the tries")
    parser.add_argument("--seconds", type=float, help="measure tests a minute, for so long with each client and peer")
    parser.add_argument("--jobs", type=int, default=1, help="clients that are measured at the same time")
    parser.add_argument("--json", type=Path, help="a file for all samples")
    parser.add_argument("--checkout", type=Path, default=children.ROOT, help="the folder of the minibroker to run")
    options = parser.parse_args()
    CheckoutPeer.root = options.checkout.resolve()
    peers.KafkaPeer.libs = jars.find() if "kafka" in options.peers else Path()
    if "kfake" in options.peers:
        peers.available(["kfake"], None)
    starts: dict[str, Start] = {}
    for client in options.clients.split(","):
        try:
            starts[client] = DRIVERS[client]()
        except (pytest.skip.Exception, pytest.fail.Exception) as reason:
            print(f"{client}: left out, {reason}")
    if options.seconds:
        loop(starts, options.peers.split(","), options.seconds)
        return
    print("| client | broker | tries | stalls first, second | first record | second record | close | leave | notes |")
    print("|" + "---|" * 9)
    tries: list[dict[str, Any]] = []
    for name in options.peers.split(","):
        peer = PEERS[name]()
        peer.start()
        try:
            for client, measured in measure_all(starts, peer, options.groups, options.load, options.jobs):
                print(row(client, name, measured), flush=True)
                tries += measured
        finally:
            peer.stop()
    if options.json:
        options.json.write_text(json.dumps(tries, indent=1))


if __name__ == "__main__":
    main()
