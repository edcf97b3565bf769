"""Runs measures on peers, side by side and interleaved, and collects samples."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.model import Bench, ClientError, Measure, Scale, UnsupportedError
from benchmarks.peers import ORDINARY, REFERENCE, Peer, PeerError, Settings
from benchmarks.wire import WireError

_CLIENT_BOUND = 0.9
"""The share of a CPU from which on a client's thread set the pace."""


@dataclass(slots=True)
class Results:
    """Samples by figure key and peer name, one per round. A round in which a peer failed has None."""

    samples: dict[str, dict[str, list[float | None]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    client_bound: set[tuple[str, str]] = field(default_factory=set)
    """The measures and peers, by name, for which the client set the pace."""
    notes: dict[str, None] = field(default_factory=dict)
    """The omitted measures and their reasons, each note once."""
    failures: list[str] = field(default_factory=list)
    outcomes: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """The outcome of requests, or the reason for not sending them, by measure name and peer name."""

    def median(self, key: str, peer: str) -> float | None:
        found = [sample for sample in self.samples[key][peer] if sample is not None]
        return statistics.median(found) if found else None

    def ratios(self, key: str, peer: str, reference: str = REFERENCE) -> list[float]:
        """Return the peer's figure divided by the reference peer's for each round, sorted."""
        pairs = zip(self.samples[key][peer], self.samples[key][reference], strict=False)
        return sorted(mine / other for mine, other in pairs if mine is not None and other)


Report = Callable[[str], None]
"""Called once for each step, with a description of what comes next."""


@dataclass(slots=True)
class Runner:
    """Runs `measures` on `peers`. `step` is called before each measure, peer and repetition, `steps` times in total."""

    peers: Sequence[type[Peer]]
    measures: Sequence[Measure]
    scale: Scale
    step: Report
    work_dir: Path | None = None
    results: Results = field(default_factory=Results)
    _topic_number: int = 0

    @property
    def steps(self) -> int:
        repeats = {"round": self.scale.rounds, "start": self.scale.starts + 1, "once": 1}
        warm_ups = self.scale.warm_ups > 0 and any(measure.when == "round" for measure in self.measures)
        return len(self.peers) * (sum(repeats[measure.when] for measure in self.measures) + warm_ups)

    def run(self) -> None:
        """Run measures that need new brokers first and last, and the rounds on running brokers in between."""
        order = list(self.measures)
        for measure in order:
            if measure.when == "start":
                self._run_starts(measure)
        self._run_rounds([measure for measure in order if measure.when == "round"])
        for measure in order:
            if measure.when == "once":
                self._run_once(measure)

    def _run_starts(self, measure: Measure) -> None:
        uncounted = Results()  # The first start fills the page cache and writes .pyc files.
        for repetition in range(self.scale.starts + 1):
            results = self.results if repetition else uncounted
            for kind in self.peers:
                self.step(f"{measure.name}, {repetition} of {self.scale.starts}: {kind.name}")
                self._on_new_peer(measure, kind, results)

    def _run_once(self, measure: Measure) -> None:
        for kind in self.peers:
            self.step(f"{measure.name}: {kind.name}")
            if reason := measure.left_out.get(kind.name):
                self.results.outcomes[measure.name][kind.name] = f"not asked, {reason}"
                if not measure.title:
                    self.results.notes[f"{measure.name}: {kind.name} left out, {reason}"] = None
            else:
                self._on_new_peer(measure, kind, self.results)

    def _on_new_peer(self, measure: Measure, kind: type[Peer], results: Results) -> None:
        with _running([kind], self.work_dir, results, measure.settings) as running:
            for peer in running:
                self._measure(measure, peer, results)

    def _run_rounds(self, measures: Sequence[Measure]) -> None:
        """Run all peers at once. Each measure visits them in turn, and each round starts with another peer."""
        if not measures:
            return
        with _running(self.peers, self.work_dir, self.results) as running:
            for peer in running if self.scale.warm_ups else []:
                self.step(f"warm-up: {peer.name}")
                self._warm_up(peer)
            for number in range(self.scale.rounds):
                for measure in measures:
                    for offset in range(len(running)):
                        peer = running[(number + offset) % len(running)]
                        self.step(f"round {number + 1} of {self.scale.rounds}, {measure.name}: {peer.name}")
                        self._measure(measure, peer, self.results)

    def _bench(self, peer: Peer) -> Bench:
        self._topic_number += 1
        return Bench(peer, self.scale, self._topic_number)

    def _measure(self, measure: Measure, peer: Peer, results: Results) -> None:
        bench = self._bench(peer)
        got: dict[str, float] = {}
        try:
            got = measure.run(bench)
            bench.delete_topics()
        except UnsupportedError as reason:
            bench.outcome = f"not asked, {reason}"
            if not measure.title:
                results.notes[f"{measure.name}: {peer.name} left out, {reason}"] = None
        except (ClientError, PeerError, WireError, OSError) as error:
            bench.outcome = "FAILED"
            _failed(results, measure, peer.name, error)
        if bench.outcome:
            results.outcomes[measure.name][peer.name] = bench.outcome
        if bench.busy >= _CLIENT_BOUND:
            results.client_bound.add((measure.name, peer.name))
        for figure in measure.figures:
            results.samples[figure.key][peer.name].append(got.get(figure.key))

    def _warm_up(self, peer: Peer) -> None:
        """Take each hot path often enough for a JVM to compile it: hundreds of MB, and ten thousand requests."""
        bench = self._bench(peer)
        try:
            for _ in range(self.scale.warm_ups):
                _take_hot_paths(bench)
        except (ClientError, WireError, OSError) as error:
            self.results.failures.append(f"warm-up: {peer.name}: {error}")


def _take_hot_paths(bench: Bench) -> None:
    """Take each path that the rounds measure, so that a JVM has compiled it."""
    topic = bench.topic(4)
    bench.client("raw.produce", topic=topic, record_size=1_024, total_bytes=400_000_000)
    bench.client("raw.fetch", topic=topic, max_bytes=1024 * 1024, total_bytes=800_000_000)
    bench.client("raw.produce", topic=topic, record_size=100, total_bytes=200_000_000)
    bench.client(
        "librdkafka.produce", topic=topic, record_size=1_024, total_bytes=100_000_000, scratch=str(bench.peer.dir)
    )
    bench.client("raw.ping_pong", topic=topic, count=10_000)
    bench.client("raw.pipelined", topic=topic, partitions=4, seconds=2.0)
    bench.client("librdkafka.tail_latency", topic=topic, count=1_000, seconds=1.0)
    bench.delete_topics()


def _failed(results: Results, measure: Measure, peer: str, error: Exception) -> None:
    results.failures.append(f"{measure.name}: {peer}: {error}")


@contextmanager
def _running(
    kinds: Sequence[type[Peer]], work_dir: Path | None, results: Results, settings: Settings = ORDINARY
) -> Iterator[list[Peer]]:
    """Start these peers one at a time, and remove them and their files when the block ends, even with an error.

    A peer that does not start is recorded as a failure and left out.
    """
    with ExitStack() as stack:
        peers: list[Peer] = []
        for kind in kinds:
            peer = kind(work_dir, settings)
            stack.callback(peer.stop)
            try:
                peer.start()
            except PeerError as error:
                results.failures.append(f"{kind.name} did not start: {error}")
            else:
                peers.append(peer)
        try:
            yield peers
        finally:
            for peer in peers:
                peer.signal_stop()  # Signal all peers at once. The stack then waits for each in turn.
