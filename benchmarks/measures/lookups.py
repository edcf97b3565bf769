"""Whether the cost of lookups by offset (Fetch) and by time (ListOffsets) stays flat as a log grows.

Two topics of one partition, 64 MB and 2 GB, have batches of about 64 KB, a second of record time apart. One connection
sends one request at a time: a fetch of the batch at a random offset, which is received whole, and a search for a random
batch's time. Every response is checked.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers

_SHORT_BYTES = 64_000_000


def _run(bench: Bench) -> Numbers:
    found: dict[str, Numbers] = {}
    for name, size in (("short", _SHORT_BYTES), ("long", bench.scale.log_bytes)):
        topic = bench.topic(configs={"retention.ms": "-1"})
        filled = bench.client("lookups.fill", topic=topic, total_bytes=size)
        found[name] = bench.client(
            "lookups.look_up",
            topic=topic,
            batches=int(filled["batches"]),
            records=int(filled["records"]),
            count=bench.scale.look_ups,
        )
    bench.busy = 0.0
    short, long = found["short"], found["long"]
    return {
        "lookup.fetch-short": short["fetch"],
        "lookup.fetch": long["fetch"],
        "lookup.fetch.growth": long["fetch"] / short["fetch"],
        "lookup.time": long["time"],
        "lookup.time.growth": long["time"] / short["time"],
    }


MEASURES = (
    Measure(
        name="lookup",
        figures=(
            Figure(
                "lookup.fetch-short", "fetch at a random offset of 64 MB, p50", "us", ratio=0.4, to_kfake=1, decimals=0
            ),
            Figure("lookup.fetch", "fetch at a random offset of 2 GB, p50", "us", ratio=0.3, to_kfake=1, decimals=0),
            Figure("lookup.fetch.growth", "the same beside 64 MB", "x", value=1.3, decimals=2),
            Figure("lookup.time", "look-up by time in 2 GB, p50", "us", ratio=1.0, decimals=0),
            Figure("lookup.time.growth", "the same beside 64 MB", "x", value=1.3, decimals=2),
        ),
        run=_run,
        when="once",
    ),
)
