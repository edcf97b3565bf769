"""Fetching: broker CPU seconds per GB, and throughput.

`fetch-raw`: Fetch v11 without a session on one raw connection, one request at a time. The received bytes are discarded.
The partition has batches of about 64 KB and is read repeatedly, so its files are in the page cache. It is read once
with 1 MB per partition and request, the default of clients, and once with 10 MB. GB and MB are bytes of whole batches.

`fetch-client`: a librdkafka consumer, from its assignment to the last record. GB and MB are bytes of payload.
`fetch.queue.backoff.ms` is 0: by default, a consumer with a full queue sleeps for a second, which would penalize the
faster broker. The mock cluster keeps only the last 5 MB of a partition, so it is left out.
"""

from collections.abc import Callable

from benchmarks.measures.produce import SIZES
from benchmarks.model import Bench, Figure, Measure, Numbers, UnsupportedError
from benchmarks.peers import MockPeer

_FILL_BYTES = 256_000_000
_REQUEST_BYTES = {"1 MB": 1024 * 1024, "10 MB": 10 * 1024 * 1024}


def _raw(label: str) -> Callable[[Bench], Numbers]:
    def run(bench: Bench) -> Numbers:
        topic = bench.topic()
        fill = min(_FILL_BYTES, bench.scale.fetch_bytes)
        bench.client("raw.produce", topic=topic, record_size=1_024, total_bytes=fill, batch_bytes=64_000)
        bench.busy = 0.0
        got = bench.client(
            "raw.fetch", topic=topic, max_bytes=_REQUEST_BYTES[label], total_bytes=bench.scale.fetch_bytes
        )
        return _numbers(f"fetch-raw.{_REQUEST_BYTES[label]}", got)

    return run


def _librdkafka(label: str) -> Callable[[Bench], Numbers]:
    def run(bench: Bench) -> Numbers:
        if bench.peer.name == MockPeer.name:
            raise UnsupportedError("it keeps only the last 5 MB of a partition")
        topic, size = bench.topic(), SIZES[label]
        total = bench.scale.small_bytes if size < 1_000 else bench.scale.bulk_bytes
        filled = bench.client("raw.produce", topic=topic, record_size=size, total_bytes=total, batch_bytes=256_000)
        bench.busy = 0.0
        got = bench.client("librdkafka.consume", topic=topic, record_size=size, count=int(filled["records"]))
        return _numbers(f"fetch-client.{size}", got)

    return run


def _numbers(key: str, got: Numbers) -> Numbers:
    return {f"{key}.cpu": got["cpu"] / got["bytes"] * 1e9, f"{key}.rate": got["bytes"] / got["seconds"] / 1e6}


def _raw_measure(label: str) -> Measure:
    key, title = f"fetch-raw.{_REQUEST_BYTES[label]}", f"fetch by {label}, raw socket"
    return Measure(
        name=f"fetch-raw-{label.split(maxsplit=1)[0]}m",
        figures=(
            Figure(f"{key}.cpu", title, "CPU s/GB", ratio=0.6, decimals=2),
            Figure(f"{key}.rate", title, "MB/s", higher_is_better=True, decimals=0),
        ),
        run=_raw(label),
        when="round",
    )


def _client_measure(label: str) -> Measure:
    key, title = f"fetch-client.{SIZES[label]}", f"consume {label}, librdkafka"
    return Measure(
        name=f"fetch-client-{SIZES[label]}",
        figures=(
            Figure(f"{key}.cpu", title, "CPU s/GB", ratio=0.6, decimals=2),
            Figure(f"{key}.rate", title, "MB/s", ratio=1.2, to_kfake=1, higher_is_better=True, decimals=0),
        ),
        run=_librdkafka(label),
        when="round",
    )


MEASURES = (*map(_raw_measure, _REQUEST_BYTES), *map(_client_measure, SIZES))
