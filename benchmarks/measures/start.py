"""Cold start, and the cost of an idle broker.

Cold start is the time from just before the spawn of the process to a valid Metadata v1 response that names the broker,
on an empty data directory. The client retries every millisecond. Each peer was started once before, uncounted, so its
files are in the page cache. Formatting Kafka's directory is not counted. RSS is read a second after that response, and
idle CPU over the following seconds.
"""

import time

from benchmarks.model import Bench, Figure, Measure, Numbers


def _cold_start(bench: Bench) -> Numbers:
    time.sleep(1)
    return {"start.ms": bench.peer.started_ms, "start.rss": bench.peer.meter.rss() / 1e6}


def _idle(bench: Bench) -> Numbers:
    time.sleep(3)  # Background work after the start, mostly a JVM's compiler, is not idling.
    meter = bench.peer.meter
    before, begin = meter.cpu(), time.perf_counter()
    time.sleep(bench.scale.idle_seconds)
    return {"idle.cpu": (meter.cpu() - before) / (time.perf_counter() - begin) * 100}


MEASURES = (
    Measure(
        name="start",
        figures=(
            Figure("start.ms", "cold start to Metadata", "ms", ratio=0.05, value=150),
            Figure("start.rss", "RSS idle", "MB", value=40),
        ),
        run=_cold_start,
        when="start",
    ),
    Measure(name="idle", figures=(Figure("idle.cpu", "CPU idle", "%", decimals=2),), run=_idle, when="once"),
)
