"""1,000 idle connections: their memory, and their effect on other clients.

On a new broker, after an uncounted series of ping-pongs, the p99 of one-record Produce requests over one connection is
measured without and with the idle connections, in five alternating pairs. Each idle connection has sent one
ApiVersions. `RSS` is the largest growth caused by opening the connections, and the ratio is the median of the pairs.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers


def _run(bench: Bench) -> Numbers:
    got = bench.client(
        "raw.idle_connections",
        topic=bench.topic(),
        connections=bench.scale.connections,
        count=bench.scale.idle_pings,
        pairs=5,
    )
    return {
        "connections.rss": got["rss"] / 1e6,
        "connections.without": got["without"],
        "connections.with": got["with"],
        "connections.ratio": got["ratio"],
    }


MEASURES = (
    Measure(
        name="connections",
        figures=(
            Figure("connections.rss", "1,000 idle connections, RSS", "MB", value=10),
            Figure("connections.without", "one-record produce p99 without them", "us", decimals=0),
            Figure("connections.with", "one-record produce p99 with them", "us", decimals=0),
            # The target is no change, but the noise of a p99 amounts to a quarter.
            Figure("connections.ratio", "p99 with them / without", "x", value=1.25, decimals=2),
        ),
        run=_run,
        when="once",
    ),
)
