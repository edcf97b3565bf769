"""Producing: broker CPU seconds per GB, and throughput.

`produce-raw`: prebuilt, valid, uncompressed batches of about 1 MB on one raw connection, Produce v7, acks=-1, five
requests in flight. The client does next to nothing, so this is the broker's own cost. GB and MB are 10^9 and 10^6 bytes
of batches. `produce-raw-...-16k` and `-64k` use smaller batches: 16 KB is the default of the Java and Python clients.
In the `mixed` rows, records have 0.5 to 1.5 times the given size.

`produce-client`: a librdkafka producer with default settings, no compression and one partition, from the first queued
record to the last acknowledgement. GB and MB are bytes of payload. The client is called through its C interface,
because Python's loop over small records takes a whole core and would hide the broker.

Before the clock starts, a file twice as large as the expected log is written and deleted: see `settle_page_cache`.
"""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.model import Bench, Figure, Measure, Numbers

SIZES = {"100 B": 100, "1 KB": 1_024, "10 KB": 10_240}
_RAW_TARGETS = {"100 B": 0.2, "1 KB": 0.3}
_RAW_TO_KFAKE = {"100 B": 0.6, "1 KB": 0.4}


class _Batches(NamedTuple):
    """Smaller batches than the usual ones of 1 MB."""

    name: str
    title: str
    size: int
    are_mixed: bool = False


_SMALLER = (
    _Batches("1024-16k", "1 KB in batches of 16 KB", 16_384),
    _Batches("1024-64k", "1 KB in batches of 64 KB", 65_536),
    _Batches("1024-16k-mixed", "0.5 to 1.5 KB in batches of 16 KB", 16_384, are_mixed=True),
    _Batches("1024-64k-mixed", "0.5 to 1.5 KB in batches of 64 KB", 65_536, are_mixed=True),
)


def _raw(label: str) -> Callable[[Bench], Numbers]:
    def run(bench: Bench) -> Numbers:
        got = bench.client(
            "raw.produce",
            topic=bench.topic(),
            record_size=SIZES[label],
            total_bytes=bench.scale.bulk_bytes,
            scratch=str(bench.peer.dir),
        )
        return _numbers(f"produce-raw.{SIZES[label]}", got)

    return run


def _smaller(batches: _Batches) -> Measure:
    key, title = f"produce-raw.{batches.name}", f"produce {batches.title}, raw socket"

    def run(bench: Bench) -> Numbers:
        got = bench.client(
            "raw.produce",
            topic=bench.topic(),
            record_size=SIZES["1 KB"],
            total_bytes=bench.scale.small_bytes,
            batch_bytes=batches.size,
            are_mixed=batches.are_mixed,
            scratch=str(bench.peer.dir),
        )
        return _numbers(key, got)

    figures = (
        Figure(f"{key}.cpu", title, "CPU s/GB", ratio=0.5, to_kfake=0.9, decimals=2),
        Figure(f"{key}.rate", title, "MB/s", higher_is_better=True, decimals=0),
    )
    return Measure(f"produce-raw-{batches.name}", figures, run, "round")


def _librdkafka(label: str) -> Callable[[Bench], Numbers]:
    def run(bench: Bench) -> Numbers:
        size = SIZES[label]
        total = bench.scale.small_bytes if size < 1_000 else bench.scale.bulk_bytes
        got = bench.client(
            "librdkafka.produce", topic=bench.topic(), record_size=size, total_bytes=total, scratch=str(bench.peer.dir)
        )
        return _numbers(f"produce-client.{size}", got)

    return run


def _numbers(key: str, got: Numbers) -> Numbers:
    return {f"{key}.cpu": got["cpu"] / got["bytes"] * 1e9, f"{key}.rate": got["bytes"] / got["seconds"] / 1e6}


def _raw_measure(label: str) -> Measure:
    key, title = f"produce-raw.{SIZES[label]}", f"produce {label}, raw socket"
    return Measure(
        name=f"produce-raw-{SIZES[label]}",
        figures=(
            Figure(
                f"{key}.cpu", title, "CPU s/GB", ratio=_RAW_TARGETS[label], to_kfake=_RAW_TO_KFAKE[label], decimals=2
            ),
            Figure(f"{key}.rate", title, "MB/s", higher_is_better=True, decimals=0),
        ),
        run=_raw(label),
        when="round",
    )


def _client_measure(label: str) -> Measure:
    key, title = f"produce-client.{SIZES[label]}", f"produce {label}, librdkafka"
    return Measure(
        name=f"produce-client-{SIZES[label]}",
        figures=(
            Figure(f"{key}.cpu", title, "CPU s/GB", ratio=_RAW_TARGETS.get(label), decimals=2),
            Figure(f"{key}.rate", title, "MB/s", ratio=1.5, higher_is_better=True, decimals=0),
        ),
        run=_librdkafka(label),
        when="round",
    )


MEASURES = (*map(_raw_measure, _RAW_TARGETS), *map(_smaller, _SMALLER), *map(_client_measure, SIZES))
