"""The cost of compaction for producers.

One partition of a compacted topic is filled with records of 100 B over 20,000 keys, in segments of 8 MB. One-record
requests are then sent to another topic, one at a time, until the cleaner has finished. The p99 of the requests sent
while the partition's directory had a cleaned file is compared with that of the others.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers, UnsupportedError
from benchmarks.peers import MockPeer

_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "8000000", "min.cleanable.dirty.ratio": "0.1"}


def _run(bench: Bench) -> Numbers:
    if bench.peer.name == MockPeer.name:
        raise UnsupportedError("it has no files")
    pinged, compacted = bench.topic(), bench.topic(configs=_CONFIGS)
    bench.client("raw.ping_pong", topic=pinged, count=5_000)
    bench.client(
        "compaction.fill", topic=compacted, total_bytes=bench.scale.compacted_bytes, keys=20_000, value_size=100
    )
    got = bench.client(
        "compaction.ping_while_cleaning",
        topic=pinged,
        directory=f"{bench.peer.data}/{compacted}-0",
        seconds=60.0,
        calm_pings=5_000,
    )
    bench.busy = 0.0
    return {"compaction.busy": got["busy"], "compaction.ratio": got["ratio"]}


MEASURES = (
    Measure(
        name="compaction",
        figures=(
            Figure("compaction.busy", "one-record produce while compacting, p99", "us", decimals=0),
            Figure("compaction.ratio", "the same beside no compaction", "x", value=2.0, decimals=2),
        ),
        run=_run,
        when="once",
        left_out={"kfake": "it has no directory for each partition, which would show when it cleans"},
    ),
)
