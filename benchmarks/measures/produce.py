"""Producing: broker CPU seconds per GB, and throughput.

`produce-raw`: prebuilt, valid, uncompressed batches of about 1 MB on one raw connection, Produce v7, acks=-1, five
requests in flight. The client does next to nothing, so this is the broker's own cost. GB and MB are 10^9 and 10^6
bytes of batches.

`produce-client`: a librdkafka producer with its default settings, no compression, one partition, from the first
record queued to the last acknowledgement; GB and MB of payload. The client is called through its C interface: Python's
loop over records costs a core at small records and would hide the broker.

Before the clock starts a file twice as large as the log to come is written and deleted: see `settle_page_cache`.
"""

from collections.abc import Callable

from benchmarks.model import Bench, Figure, Measure, Numbers

SIZES = {"100 B": 100, "1 KB": 1_024, "10 KB": 10_240}
_RAW_TARGETS = {"100 B": 0.2, "1 KB": 0.35}


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
            Figure(f"{key}.cpu", title, "CPU s/GB", ratio=_RAW_TARGETS[label], decimals=2),
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


MEASURES = (*map(_raw_measure, _RAW_TARGETS), *map(_client_measure, SIZES))
