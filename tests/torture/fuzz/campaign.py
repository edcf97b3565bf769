"""Rounds of hostile requests: after each, nothing may be in the broker's log, and it must serve, stop and start well.

A round is a new broker, a list of frames, and what the broker is asked after each: it has to answer a probe. Half of
the frames are well-formed requests with hostile values, the others have faults besides. What a round has sent is kept
as JSON lines, so that it can be sent again.
"""

import json
import random
import shutil
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks.meter import Meter
from minibroker.cluster.routing.routes import ROUTES, Route
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.messages.client_quotas import AlterClientQuotasRequest, AlterEntryData, EntityData, OpData
from minibroker_protocol.schema import schema_of
from tests.broker.harness import frame_of, response_of
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S
from tests.protocol.message_strategies import message_class
from tests.torture.disk import check_partition
from tests.torture.fuzz.broker import CONFIGURATIONS, Configuration, FuzzedBroker
from tests.torture.fuzz.mutation import mutated, with_unknown_tags
from tests.torture.fuzz.tame import may_end_a_broker, tame
from tests.torture.fuzz.values import TOPICS, Hostile, Pool
from tests.torture.ledger import TortureError

MOST_HOLD_MS: Final = 200.0
REQUESTS: Final = 600
"""Of a round, before they are repeated."""
_CHECKED: Final = "checked"
_CLIENT_ID: Final = "fuzz"
"""Of half of the requests; the others name none."""
_PROBE: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_PROBES: Final = 2
"""A turn of the loop may see the probe before the request; the next one has seen both."""
_REPEATS: Final = 5
_FLAT_BYTES: Final = 16_000_000
_MUTATED: Final = 0.5
_MOST_BYTES: Final = 2_000_000


class Case(NamedTuple):
    """A sent request: the name of the API, its version, and the whole frame with its length."""

    api: str
    version: int
    frame: bytes


class Hold(NamedTuple):
    """A turn of the event loop that was too long, in ms of CPU: at first, and at best when it was sent again."""

    at_first: float
    again: float
    where: str


@dataclass
class Findings:
    """The findings and counts of the rounds.

    Attributes:
        directory: for the requests that have led to a fault, a file each.
        counts: of requests and of how they ended.
        holds: the longest turns by (API, configuration).
        faults: what the broker has logged as an error, the first of each kind, and how it is brought about again.
    """

    directory: Path
    counts: Counter[str] = field(default_factory=Counter)
    holds: dict[tuple[str, str], Hold] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def note_fault(self, case: Case, seed: int, complaint: str) -> None:
        """Keep the first complaint of its kind with the bytes that led to it."""
        kind = f"{case.api}: {complaint.strip().splitlines()[-1]}"
        if kind not in self.faults:
            self.faults[kind] = f"{kind}\n{self._again(case, seed, f'fault-{len(self.faults)}')}\n{complaint}"

    def note_hold(self, case: Case, seed: int, at_first: float, again: float) -> None:
        """Keep a turn that was too long if it is the longest of its API."""
        key = (case.api, configuration_of(seed).name)
        if key not in self.holds or again > self.holds[key].again:
            where = self._again(case, seed, f"hold-{case.api}-{key[1]}")
            self.holds[key] = Hold(at_first, again, where)

    def _again(self, case: Case, seed: int, name: str) -> str:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.jsonl"
        path.write_text(json.dumps(_as_json(case)) + "\n")
        return (
            f"{case.api} v{case.version}, configuration {configuration_of(seed).name}, {len(case.frame):,} bytes: "
            f"{case.frame[:100].hex()}\n    python -m tests.torture --replay {path} --seed {seed}"
        )

    def lines(self) -> Iterator[str]:
        """A line or two for each finding, the worst holds first."""
        yield from self.faults.values()
        for hold in sorted(self.holds.values(), key=lambda each: (-each.again, -each.at_first)):
            if hold.again > MOST_HOLD_MS:
                yield f"held for {hold.at_first:.0f} ms of CPU, sent again for {hold.again:.0f} ms: {hold.where}"
            else:  # what it was the first to ask for had to be loaded, or made
                yield f"held for {hold.at_first:.0f} ms of CPU, but only once: {hold.where.partition(',')[0]}"


_REQUESTS: Final = {route.message: message_class(route, "Request") for route in ROUTES}


def configuration_of(seed: int) -> Configuration:
    """Which configuration a round has."""
    return CONFIGURATIONS[seed % len(CONFIGURATIONS)]


class Round:
    """One broker, and what it is sent.

    Args:
        directory: for data, log, and `cases.jsonl`, what was sent.
        seed: of all that is random; it also chooses the configuration.
    """

    def __init__(self, directory: Path, seed: int, findings: Findings) -> None:
        self.directory = directory
        self.seed = seed
        self.configuration = configuration_of(seed)
        self.broker = FuzzedBroker(directory, self.configuration, (*TOPICS, _CHECKED))
        self._findings = findings
        self._pool = Pool()
        self._probe: socket.socket | None = None
        self._attacker: SocketClient | None = None

    def run(self, count: int) -> None:
        """Send so many requests. `TortureError` when the broker is not as it was."""
        with (self.directory / "cases.jsonl").open("w") as kept:
            self._run(self._cases(count), lambda case: kept.write(json.dumps(_as_json(case)) + "\n"))

    def replay(self, cases: list[Case]) -> None:
        """Send what another round has sent. `TortureError`."""
        self._run(iter(cases), lambda _: None)

    def _run(self, cases: Iterator[Case], keep: Callable[[Case], object]) -> None:
        try:
            self.broker.start()
            self._open_probe()
            self._set_quotas()
            sent: list[Case] = []
            for case in cases:
                keep(case)
                self._try(case)
                sent.append(case)
            self._check_memory(sent)
            self._check_service()
            self._stop()
            self._check_files()
            since = self.broker.stderr.stat().st_size
            self.broker.start()
            self._check_service()
            self._stop()
            if complaints := self.broker.complaints_since(since):
                raise TortureError("started again, the broker complains:\n" + "\n".join(complaints)[-4000:])
        finally:
            self.broker.end()
            if self._probe is not None:
                self._probe.close()
            if self._attacker is not None:
                self._attacker.socket.close()

    def _stop(self) -> None:
        status = self.broker.end(signal.SIGTERM)
        if status != 0:
            raise TortureError(f"the broker has stopped with status {status}")

    def _set_quotas(self) -> None:
        operations = [OpData(key=key, value=value, remove=False) for key, value in self.configuration.quotas.items()]
        if not operations:
            return
        entity = [EntityData(entity_type="client-id", entity_name=_CLIENT_ID)]
        request = AlterClientQuotasRequest(entries=[AlterEntryData(entity=entity, ops=operations)], validate_only=False)
        with SocketClient(self.broker.listeners["PLAINTEXT"][0]) as client:
            if client.ask(request, 1).entries[0].error_code:
                raise TortureError("the quotas cannot be set")

    # What is sent

    def _cases(self, count: int) -> Iterator[Case]:
        for number in range(count):
            rng = random.Random(f"{self.seed}:{number}")
            # Each API comes as often as every other; in which order is up to chance.
            route = ROUTES[(number * 37 + self.seed) % len(ROUTES)]
            case = _case(rng, route, self._pool)
            if case is not None:
                yield case

    # How it is sent

    def _send(self, case: Case) -> float:
        """Send it, wait until the broker is done with it, and look how that was: the longest turn in ms of CPU."""
        since = self.broker.stderr.stat().st_size
        self.broker.hold.reset()
        client = self._attacker or self._connect()
        outcome = self._ask(client, case)
        self._findings.counts[outcome] += 1
        self._findings.counts["requests"] += 1
        self._attacker = client if outcome == "answered" else None
        if self._attacker is None:
            client.socket.close()
        self._ping()
        if self.broker.stderr.stat().st_size > since:
            for complaint in self.broker.complaints_since(since):
                self._findings.note_fault(case, self.seed, complaint)
        return self.broker.hold.longest * 1000

    def _try(self, case: Case) -> None:
        """Send it; a turn that was too long has to be so again, since the first request of an API loads its modules."""
        at_first = self._send(case)
        if at_first > MOST_HOLD_MS:
            again = min(self._send(case) for _ in range(2))
            self._findings.note_hold(case, self.seed, at_first, again)

    def _connect(self) -> SocketClient:
        listener = "SASL_PLAINTEXT" if self.configuration.is_secured else "PLAINTEXT"
        addresses = self.broker.listeners[listener]
        client = SocketClient(addresses[self._findings.counts["requests"] % len(addresses)])
        client.socket.settimeout(PATIENCE_S)
        if self.configuration.logs_in:
            _log_in(client)
        return client

    def _ask(self, client: SocketClient, case: Case) -> str:
        """The outcome of the request: answered, closed, or waits."""
        try:
            client.socket.sendall(case.frame)
            for _ in range(_PROBES):
                self._ping()
            client.socket.settimeout(0.002)
            try:
                head = client.socket.recv(4, socket.MSG_PEEK)
            except TimeoutError:
                return "waits"
            if not head:
                return "closed"
            client.socket.settimeout(PATIENCE_S)
            head = client.receive_bytes(4)
            body = client.receive_bytes(struct.unpack(">i", head)[0])
        except ConnectionError:
            return "closed"
        self._learn(case, head + body)
        return "answered"

    def _learn(self, case: Case, data: bytes) -> None:
        """Remember the values of a response. A spoilt frame may have been answered in another version."""
        kind = _REQUESTS[case.api]
        with suppress(DecodeError, AssertionError, struct.error):
            self._pool.learn(response_of(object.__new__(kind), case.version, data))

    def _open_probe(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self._probe = socket.create_connection(self.broker.listeners["PLAINTEXT"][0], timeout=PATIENCE_S)

    def _ping(self) -> None:
        """`TortureError` unless another client is answered."""
        try:
            if not self._exchange_probe():  # a request may have made the broker close idle connections, or all
                self._open_probe()
                if not self._exchange_probe():
                    raise TortureError("the broker closes the connection of another client")
        except OSError as error:
            alive = "runs" if self.broker.is_alive else "has ended"
            raise TortureError(f"another client is not served, the broker {alive}: {error}") from error

    def _exchange_probe(self) -> bool:
        assert self._probe is not None
        try:
            self._probe.sendall(_PROBE)
            needed, got = 4, bytearray()
            while len(got) < needed:
                piece = self._probe.recv(65_536)
                if not piece:
                    return False
                got += piece
                if needed == 4 and len(got) >= 4:
                    needed = 4 + struct.unpack_from(">i", got)[0]
        except ConnectionError:
            return False
        return True

    # How the broker is

    def _check_memory(self, sent: list[Case]) -> None:
        """The same requests again and again must not make it grow. What they are answered does not matter."""
        chosen = [case for case in sent if len(case.frame) < 20_000][:200]
        meter, sizes = Meter(self.broker.pid), list[int]()
        for _ in range(_REPEATS):
            for case in chosen:
                self._send(case)
            sizes.append(meter.rss())
        grown = sizes[-1] - sizes[1]
        self._findings.counts["most bytes grown"] = max(self._findings.counts["most bytes grown"], grown)
        if grown > _FLAT_BYTES:
            raise TortureError(f"the broker's memory grows by the same requests: {sizes}")

    def _check_service(self) -> None:
        """A real client produces, and consumes what it has produced. `TortureError`."""
        host, port = self.broker.listeners["PLAINTEXT"][0]
        try:
            exchange(f"{host}:{port}", _CHECKED)
        except (KafkaException, AssertionError) as error:
            raise TortureError(f"a real client is not served: {error}") from error

    def _check_files(self) -> None:
        for directory in sorted(self.broker.data_dir.iterdir()):
            # A log that was never opened is as it was made: its indexes are not trimmed.
            was_opened = directory.is_dir() and any(path.stat().st_size for path in directory.glob("*.log"))
            if was_opened and not directory.name.endswith("-delete"):
                # Clients have changed cleanup.policy of the others at will.
                is_checked = directory.name.startswith(f"{_CHECKED}-")
                check_partition(directory, is_compacted=not is_checked, was_killed=False)


def exchange(bootstrap: str, topic: str) -> None:
    """Produce a record to partition 0 of a topic with a real client, and consume it. `AssertionError`."""
    failures: list[Any] = []
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        failures.extend([error] if error else [])
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "message.timeout.ms": int(PATIENCE_S * 1000)})
    value = str(time.monotonic_ns()).encode()
    producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(2 * PATIENCE_S) == 0, "a record is not acknowledged"
    assert not failures, failures
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, offsets[0])])
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "a record is not consumed"
        assert message.error() is None, message.error()
        assert message.value() == value
    finally:
        consumer.close()


def _log_in(client: SocketClient) -> None:
    from tests.broker.security.sasl.login import log_in  # noqa: PLC0415 - it imports a whole broker

    log_in(client)


def _case(rng: random.Random, route: Route, pool: Pool) -> Case | None:
    """A request of an API in one of its versions, half of the time with faults in its bytes."""
    version = rng.randint(route.first, route.last)
    request = Hostile(rng, pool).request(_REQUESTS[route.message], version)
    tame(request, rng)
    try:
        frame = frame_of(request, version, client_id=rng.choice([_CLIENT_ID, _CLIENT_ID, "", None]))
    except EncodeError:
        return None  # a value that its field cannot hold in this version
    if version in schema_of(type(request)).flexible and rng.random() < 0.1:
        frame = with_unknown_tags(rng, frame)
    if rng.random() < _MUTATED:
        frame = mutated(rng, frame)
        if may_end_a_broker(frame):
            return None
    if len(frame) > _MOST_BYTES:
        return None
    return Case(route.message, version, struct.pack(">i", len(frame)) + frame)


def _as_json(case: Case) -> list[Any]:
    return [case.api, case.version, case.frame.hex()]


def cases_in(path: Path) -> list[Case]:
    """The findings of a round."""
    with path.open() as lines:
        return [Case(api, version, bytes.fromhex(frame)) for api, version, frame in map(json.loads, lines)]


def run(
    root: Path,
    seed: int,
    *,
    rounds: int = 0,
    seconds: float = 0.0,
    requests: int = REQUESTS,
    say: Callable[[str], None] = lambda _: None,
) -> Findings:
    """Rounds until there were so many, or so many seconds are over. `TortureError` when a broker does not survive."""
    findings = Findings(root / "found")
    began, done = time.monotonic(), 0
    while done < rounds or time.monotonic() - began < seconds:
        directory = root / f"fuzz-{seed}"
        try:
            Round(directory, seed, findings).run(requests)
        except AssertionError as error:
            again = f"python -m tests.torture --replay {directory / 'cases.jsonl'} --seed {seed}"
            raise TortureError(f"{error}\nfuzz, seed {seed} ({configuration_of(seed).name}). Again: {again}") from error
        shutil.rmtree(directory)
        done += 1
        say(f"fuzz, seed {seed} ({configuration_of(seed).name}): {findings.counts['requests']:,} requests in all")
        seed += 1
    return findings


def replay(root: Path, path: Path, seed: int) -> Findings:
    """Send the requests in a file to a new broker with the configuration of `seed`. `TortureError`."""
    findings = Findings(root / "found")
    directory = root / f"replay-{seed}"
    shutil.rmtree(directory, ignore_errors=True)
    Round(directory, seed, findings).replay(cases_in(path))
    return findings
