"""Memory after a long load: RSS after 2 GB (10 GB with --long) were written and read.

On a new broker, batches of about 1 MB of 1 KB records are produced to one partition over a raw connection, and then the
whole log is fetched. The data directory grows by the same amount and is deleted with the broker. RSS is read while
producing (every 64 batches) and at the end.
"""

import shutil

from benchmarks.model import Bench, Figure, Measure, Numbers, UnsupportedError


def _run(bench: Bench) -> Numbers:
    total = bench.scale.endurance_bytes
    if shutil.disk_usage(bench.peer.dir).free < total + 1_000_000_000:
        raise UnsupportedError(f"the disk of {bench.peer.dir} has no room for {total / 1e9:.0f} GB")
    topic = bench.topic()
    filled = bench.client("raw.produce", timeout=600, topic=topic, record_size=1_024, total_bytes=total)
    bench.client("raw.fetch", timeout=600, topic=topic, max_bytes=1024 * 1024, total_bytes=total)
    return {"endurance.rss": bench.peer.meter.rss() / 1e6, "endurance.peak": filled["peak_rss"] / 1e6}


MEASURES = (
    Measure(
        name="endurance",
        figures=(
            Figure("endurance.rss", "RSS after the load", "MB", value=40),
            Figure("endurance.peak", "largest RSS while producing", "MB"),
        ),
        run=_run,
        when="once",
    ),
)
