"""The cost of one more partition, topic, group or connection, where there are many of them.

    python -m benchmarks.scale [--quick] [--only partitions,topics,groups,connections]

No peer takes part: each broker is minibroker's, new for each kind and size. Costs are CPU time of the broker's process
and growth of its resident set, divided by the number of items. A line of the plot is level where a cost grows in
proportion, and rises where it grows faster. The cost of one round or request should not depend on the number; it is
named "in all". Nothing is written to the partitions: the price is that of unused items.

- made: CreateTopics with 500 partitions a request (partitions) or 100 topics a request (topics), one OffsetCommit
  (groups), accept and ApiVersions (connections).
- listed: Metadata for all topics, ListGroups.
- one more: CPU of one CreateTopics for one topic, beside all the others.
- stop, start: CPU of an orderly stop, and from the spawn to the first answer afterwards.
- first look: CPU of all that a broker does by itself once it has started: modules, the loading of groups, and a look
  for records in each partition.
- chores: CPU of a second in which retention and each checkpoint have a turn, after that.
- reset: `Broker.reset()` in this process.

Data directories are where TMPDIR says. A stop makes a directory for each unused partition. On ext4 this gets much
dearer, for some minutes, where many files were deleted just before, as this program does between two sizes: the file
system looks past their inodes one by one. In memory (TMPDIR=/dev/shm) the costs are the broker's own.
"""

import argparse
import json
import resource
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from benchmarks import children, wire
from benchmarks.clients.__main__ import raise_descriptor_limit
from benchmarks.clients.groups import await_coordinator, commit
from benchmarks.peers import MinibrokerPeer
from minibroker import Broker

T = TypeVar("T")
Costs = dict[str, float]
_RESULTS: Final = Path(__file__).with_name("results")
_LIST_GROUPS: Final = 16
_REPEATS: Final = 5
_WARM_UP_SECONDS: Final = 4.0
_WARM_UP_SECONDS_EACH: Final = 200e-6
"""A broker that has just started loads the modules of usual requests, and looks at all partitions once."""
_CHORE_SECONDS: Final = 4.0
_SIZES: Final = {
    "partitions": (1_000, 10_000, 50_000, 100_000),
    "topics": (100, 1_000, 10_000),
    "groups": (100, 1_000, 10_000),
    "connections": (100, 1_000, 10_000),
}
_CHORES: Final = (
    "log.initial.task.delay.ms=0",
    "log.retention.check.interval.ms=1000",
    "log.flush.offset.checkpoint.interval.ms=1000",
    "log.flush.start.offset.checkpoint.interval.ms=1000",
)


class _Broker(MinibrokerPeer):
    """A broker whose CPU time includes its last moments. With `has_chores`, chores run every second."""

    has_chores = False

    def command(self) -> list[str]:
        settings = [part for chore in _CHORES for part in ("--set", chore)] if self.has_chores else []
        return [*super().command(), *settings]

    def again(self) -> tuple[float, float]:
        """Stop the broker cleanly and restart it on the same files. Return the CPU seconds of both."""
        assert self._child is not None
        before, used = _cpu_of_ended(), self.meter.cpu()
        children.end(self._child, grace=300)
        stop = _cpu_of_ended() - before - used
        self._spawn()
        return stop, self.meter.cpu()


def _cpu_of_ended() -> float:
    """Return the CPU seconds of all ended children."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


@contextmanager
def _running() -> Iterator[tuple[_Broker, wire.Connection]]:
    peer = _Broker()
    try:
        peer.start()
        with wire.Connection(peer.address, timeout=300) as connection:
            connection.api_keys()
            time.sleep(_WARM_UP_SECONDS)
            yield peer, connection
    finally:
        peer.stop()


def _cpu(peer: _Broker, action: Callable[[], object], repeats: int = 1) -> float:
    """Return the broker's CPU seconds, the minimum of the repetitions."""
    taken: list[float] = []
    for _ in range(repeats):
        begin = peer.meter.cpu()
        action()
        taken.append(peer.meter.cpu() - begin)
    return min(taken)


def _cpu_of_each(peer: _Broker, action: Callable[[T], object], items: Iterable[T]) -> float:
    """Return the broker's CPU seconds for all items."""

    def act() -> None:
        for item in items:
            action(item)

    return _cpu(peer, act)


def _lifetime(peer: _Broker, count: int) -> Costs:
    """Return the costs of a stop, a start and chores."""
    stop, start = peer.again()
    peer.has_chores = True
    _, again = peer.again()
    time.sleep(_WARM_UP_SECONDS + _WARM_UP_SECONDS_EACH * count)
    begin = peer.meter.cpu()
    time.sleep(_CHORE_SECONDS)  # Chores run by the broker's clock.
    chores = (peer.meter.cpu() - begin) / _CHORE_SECONDS
    each = {"stop, us": stop, "start, us": start, "first look, us": begin - again}
    return {name: cpu / count * 1e6 for name, cpu in each.items()} | {"chores in all, ms": chores * 1e3}


def _reset(topics: int, partitions: int) -> float:
    """Return the CPU seconds of a reset of that many topics."""
    with Broker() as broker:
        for number in range(topics):
            broker.create_topic(f"scale-{number}", partitions)
        begin = time.process_time()
        broker.reset()
        return time.process_time() - begin


def _made(peer: _Broker, connection: wire.Connection, topics: list[list[str]], partitions: int) -> Costs:
    """Create topics, with one request for each list, and return the costs."""
    count = sum(map(len, topics)) * partitions
    before = peer.meter.rss()
    connection.create_topics(["first"], 1)
    made = _cpu_of_each(peer, lambda names: connection.create_topics(names, partitions), topics)
    grown = peer.meter.rss() - before
    asked = [wire.string(name) for names in topics for name in names]

    def ask() -> None:
        asked.append(asked.pop(0))  # the same request again would be answered as before
        connection.exchange(wire.METADATA, 1, struct.pack(">i", len(asked)) + b"".join(asked))

    listed = _cpu(peer, ask, _REPEATS)
    extra = iter(range(_REPEATS))
    more = _cpu(peer, lambda: connection.create_topics([f"extra-{next(extra)}"], 1), _REPEATS)
    return {
        "made, us": made / count * 1e6,
        "memory, B": grown / count,
        "listed, us": listed / count * 1e6,
        "one more in all, ms": more * 1e3,
    }


def partitions(count: int) -> Costs:
    """Measure partitions in topics of 500."""
    topics = count // 500
    with _running() as (peer, connection):
        costs = _made(peer, connection, [[f"scale-{number}"] for number in range(topics)], 500)
        costs |= _lifetime(peer, count)
    return costs | {"reset, us": _reset(topics, 500) / count * 1e6}


def topics(count: int) -> Costs:
    """Measure topics with one partition."""
    names = [[f"scale-{number}" for number in range(first, first + 100)] for first in range(0, count, 100)]
    with _running() as (peer, connection):
        costs = _made(peer, connection, names, 1) | _lifetime(peer, count)
    return costs | {"reset, us": _reset(count, 1) / count * 1e6}


def groups(count: int) -> Costs:
    """Measure groups without members that have each committed one partition."""
    with _running() as (peer, connection):
        connection.create_topics(["scale", "other"], 1)
        await_coordinator(connection, "first")
        for number in range(50):  # This opens the partitions of the coordinators' topic.
            commit(connection, f"first-{number}", "scale", range(1))
        before = peer.meter.rss()
        made = _cpu_of_each(peer, lambda number: commit(connection, f"group-{number}", "scale", range(1)), range(count))
        grown = peer.meter.rss() - before
        listed = _cpu(peer, lambda: connection.exchange(_LIST_GROUPS, 0, b""), _REPEATS)
        deleted = _cpu(peer, lambda: connection.delete_topics(["other"]))
        costs = {
            "made, us": made / count * 1e6,
            "memory, B": grown / count,
            "listed, us": listed / count * 1e6,
            "a topic deleted in all, ms": deleted * 1e3,
        }
        return costs | _lifetime(peer, count)


def connections(count: int) -> Costs:
    """Measure connections that have each requested ApiVersions once."""
    with _running() as (peer, connection), ExitStack() as stack:
        before, opened = peer.meter.rss(), list[wire.Connection]()

        def connect(_: int) -> None:
            opened.append(stack.enter_context(wire.Connection(peer.address)))
            opened[-1].api_keys()

        made = _cpu_of_each(peer, connect, range(count))
        grown = peer.meter.rss() - before
        asked = _cpu_of_each(peer, lambda _: connection.api_keys(), range(200))
        idle = _cpu(peer, lambda: time.sleep(_CHORE_SECONDS))
        return {
            "made, us": made / count * 1e6,
            "memory, B": grown / count,
            "a request beside them in all, us": asked / 200 * 1e6,
            "idle second in all, ms": idle / _CHORE_SECONDS * 1e3,
        }


KINDS: Final[dict[str, Callable[[int], Costs]]] = {
    "partitions": partitions,
    "topics": topics,
    "groups": groups,
    "connections": connections,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the largest number")
    parser.add_argument("--only", default=",".join(KINDS), metavar="KIND,...", help="default: %(default)s")
    options = parser.parse_args()
    kinds = options.only.split(",")
    if unknown := set(kinds) - KINDS.keys():
        parser.error(f"--only: {', '.join(sorted(unknown))} is not one of {', '.join(KINDS)}")
    raise_descriptor_limit()
    found: dict[str, dict[int, Costs]] = {}
    for kind in kinds:
        sizes = [size for size in _SIZES[kind] if not options.quick or size <= _SIZES[kind][-1] // 10]
        found[kind] = {size: KINDS[kind](size) for size in sizes}
        _print(kind, found[kind])
    _write(found)


def _print(kind: str, costs: dict[int, Costs]) -> None:
    sizes = list(costs)
    print(f"{kind:36}" + "".join(f"{size:>12,}" for size in sizes) + "      growth")
    for name in costs[sizes[0]]:
        row = [costs[size][name] for size in sizes]
        growth = f"{row[-1] / row[0]:.1f}x" if row[0] > 0 else "-"
        print(f"  {name:34}" + "".join(f"{cost:12,.2f}" for cost in row) + f"{growth:>12}", flush=True)


def _write(found: dict[str, dict[int, Costs]]) -> None:
    from benchmarks import plot  # noqa: PLC0415 - matplotlib is not loaded while costs are taken

    _RESULTS.mkdir(exist_ok=True)
    stem = _RESULTS / time.strftime("scale-%Y%m%d-%H%M%S")
    stem.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    for path in (stem.with_suffix(".json"), *plot.draw_scale(stem, found)):
        print(f"wrote {path.relative_to(children.ROOT)}")


if __name__ == "__main__":
    main()
