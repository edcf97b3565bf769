"""Share groups: the cost of acquiring and accepting records, and of idle members.

`share-fetch`: one member, alone in its group, acquires 1 KB records in batches of 64 KB. It requests 500 at a time, as
the Java client does, and accepts them with its next fetch. The group may have 2,000 acquired records, as in Kafka 4.
The same records are then fetched plainly: 512 KB at a time, about the size of a response to the member, and 1 MB.
`share-heartbeats`: 100 groups of ten members, on 1,000 connections, with a heartbeat of each member every 5 s, as in
Kafka.

Kafka has share groups from 4.1 on, so run this with its jars: `--kafka-libs`.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers

_HEARTBEAT, _SHARE_FETCH = 76, 78
_MEMBERS = 10
_RECORD_SIZE, _BATCH_BYTES, _PLAIN = 1_024, 64_000, {"512 KB": 512 * 1024, "1 MB": 1024 * 1024}


def _share_fetch(bench: Bench) -> Numbers:
    bench.require(_SHARE_FETCH)
    topic = bench.topic()
    total = bench.scale.bulk_bytes
    shared = bench.client(
        "share.fetch", topic=topic, record_size=_RECORD_SIZE, batch_bytes=_BATCH_BYTES, total_bytes=total
    )
    numbers = {"share-fetch.cpu": shared["cpu"] / shared["records"] * 1e9}
    for label, size in _PLAIN.items():
        plain = bench.client("raw.fetch", topic=topic, max_bytes=size, total_bytes=int(shared["bytes"]))
        numbers[f"share-fetch.{label}"] = plain["cpu"] / plain["bytes"] * shared["bytes"] / shared["cpu"]
    return numbers


def _share_heartbeats(bench: Bench) -> Numbers:
    bench.require(_HEARTBEAT)
    got = bench.client(
        "share.heartbeats",
        topic=bench.topic(),
        groups_count=bench.scale.groups // _MEMBERS,
        members=_MEMBERS,
        seconds=bench.scale.heartbeat_seconds,
    )
    return {
        "share-heartbeats.cpu": got["cpu"] / got["seconds"] * 100,
        "share-heartbeats.each": got["cpu"] / got["heartbeats"] * 1e6,
    }


MEASURES = (
    Measure(
        name="share-fetch",
        figures=(
            Figure("share-fetch.cpu", "share fetch, 1 KB records", "CPU ns/record", ratio=1, decimals=0),
            *(
                Figure(
                    f"share-fetch.{label}",
                    f"records per CPU s, share fetch / fetch by {label}",
                    "x",
                    value=0.5 if label == "512 KB" else None,
                    higher_is_better=True,
                    decimals=2,
                )
                for label in _PLAIN
            ),
        ),
        run=_share_fetch,
        when="round",
    ),
    Measure(
        name="share-heartbeats",
        figures=(
            Figure("share-heartbeats.cpu", "1,000 members of 100 share groups, heartbeats", "% CPU", value=10),
            Figure("share-heartbeats.each", "one heartbeat of a share group", "CPU us", decimals=0),
        ),
        run=_share_heartbeats,
        when="once",
    ),
)
