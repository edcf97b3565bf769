"""The time until a broker with a long log serves again, after a kill and after a clean stop.

2 GB of 1 KB records in batches of about 1 MB were produced just before, evenly to two partitions. The broker is killed
with `kill -9` and restarted on the same files, then stopped with SIGTERM and restarted again. The time is measured from
just before the spawn until both partitions have returned their end offset, and the last batch of each has been fetched.
The client tries every millisecond. The page cache is left alone and contains the log.
"""

import signal

from benchmarks import wire
from benchmarks.model import Bench, Figure, Measure, Numbers

_PARTITIONS = 2


def _run(bench: Bench) -> Numbers:
    topic = bench.topic(_PARTITIONS)
    ends: list[int] = []
    for partition in range(_PARTITIONS):
        filled = bench.client(
            "raw.produce",
            topic=topic,
            partition=partition,
            record_size=1_024,
            total_bytes=bench.scale.log_bytes // _PARTITIONS,
        )
        ends.append(int(filled["records"]))
    bench.busy = 0.0

    def is_served(connection: wire.Connection) -> bool:
        for partition, end in enumerate(ends):
            if connection.offset(topic, partition) != end:
                return False
            fetch_range = wire.FetchRange(partition, end - 1, 1024 * 1024)
            connection.socket.sendall(wire.fetch_request(topic, [fetch_range], wire.FetchOptions(max_wait=0)))
            (found,) = wire.fetched(connection.receive(), 11).partitions
            if found.error or not found.records:
                return False
            wire.check_batch(found.records)
        return True

    killed = bench.peer.restart(signal.SIGKILL, is_served)
    return {"restart.killed": killed, "restart.clean": bench.peer.restart(signal.SIGTERM, is_served)}


MEASURES = (
    Measure(
        name="restart",
        figures=(
            Figure("restart.killed", "serving 2 GB again after kill -9", "ms", value=1_000, decimals=0),
            Figure("restart.clean", "serving 2 GB again after a stop", "ms", value=300, decimals=0),
        ),
        run=_run,
        when="once",
        left_out={"mock": "its records are in memory"},
    ),
)
