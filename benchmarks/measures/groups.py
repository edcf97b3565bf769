"""Consumer groups: the time until a consumer has partitions, the cost of idle members, and committed offsets.

`assignment`: from creating a consumer, alone in a new group, until it gets its assignment, and until the assignment is
not empty: kafka-python 3 joins before it requests its topic's metadata, a tenth of a second after it has connected.
Kafka has `group.initial.rebalance.delay.ms=0`, which is minibroker's default. With Kafka's own default of 3 s, it takes
that much longer. `heartbeats`: 1,000 groups of two members each, on 2,000 connections, with a heartbeat of each member
every 3 s. `idle-consumers`: 1,000 consumers with fetch sessions, whose fetches return nothing after 500 ms.
`offset-fetch`: a group has committed 10,000 partitions, and OffsetFetch requests a hundred of them, and all.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers
from benchmarks.wire import CREATE_TOPICS

_FIND_COORDINATOR, _JOIN_GROUP, _OFFSET_COMMIT = 10, 11, 8
_PARTITIONS = 6


def _assignment(bench: Bench) -> Numbers:
    bench.require(_FIND_COORDINATOR, _JOIN_GROUP)
    topic = bench.topic(_PARTITIONS) if bench.peer.name != "mock" else bench.topic()
    numbers: Numbers = {}
    for client in ("librdkafka", "kafka-python"):
        got = bench.client("groups.first_assignment", topic=topic, client=client, count=bench.scale.joins)
        numbers[f"assignment.{client}"] = got["p50"]
        numbers[f"assignment.{client}-partitions"] = got["with_partitions"]
    bench.busy = 0.0
    return numbers


def _heartbeats(bench: Bench) -> Numbers:
    bench.require(_FIND_COORDINATOR, _JOIN_GROUP, CREATE_TOPICS)
    seconds = bench.scale.heartbeat_seconds
    got = bench.client("groups.heartbeats", topic=bench.topic(), groups=bench.scale.groups, seconds=seconds)
    return {
        "heartbeats.cpu": got["cpu"] / got["seconds"] * 100,
        "heartbeats.each": got["cpu"] / got["heartbeats"] * 1e6,
    }


def _idle_consumers(bench: Bench) -> Numbers:
    scale = bench.scale
    got = bench.client(
        "groups.idle_consumers", topic=bench.topic(), consumers=scale.groups, seconds=scale.heartbeat_seconds
    )
    return {
        "idle-consumers.cpu": got["cpu"] / got["seconds"] * 100,
        "idle-consumers.each": got["cpu"] / got["fetches"] * 1e6,
    }


def _offset_fetch(bench: Bench) -> Numbers:
    bench.require(_OFFSET_COMMIT, CREATE_TOPICS)
    each = bench.scale.committed_partitions // 2
    topics = [bench.topic(each), bench.topic(each)]  # Kafka creates fewer than 10,000 partitions at once.
    got = bench.client("groups.offset_fetch", topics=topics, partitions=each, count=200)
    return {
        "offset-fetch.few": got["few"],
        "offset-fetch.all": got["all"],
        "offset-fetch.proportion": got["each"] / (got["few"] / 100),
    }


MEASURES = (
    Measure(
        name="assignment",
        figures=(
            Figure(
                "assignment.librdkafka",
                "first assignment in a new group, librdkafka",
                "ms",
                value=100,
                to_kfake=1.2,
                decimals=0,
            ),
            Figure(
                "assignment.kafka-python", "first assignment in a new group, kafka-python", "ms", value=50, decimals=0
            ),
            Figure("assignment.librdkafka-partitions", "the first with partitions, librdkafka", "ms", decimals=0),
            Figure("assignment.kafka-python-partitions", "the first with partitions, kafka-python", "ms", decimals=0),
        ),
        run=_assignment,
        when="round",
    ),
    Measure(
        name="heartbeats",
        figures=(
            Figure("heartbeats.cpu", "1,000 groups of 2, heartbeats", "% CPU", value=10),
            Figure("heartbeats.each", "one heartbeat", "CPU us", decimals=0),
        ),
        run=_heartbeats,
        when="once",
    ),
    Measure(
        name="idle-consumers",
        figures=(
            Figure("idle-consumers.cpu", "1,000 idle consumers", "% CPU"),
            Figure("idle-consumers.each", "one fetch of an idle consumer", "CPU us", decimals=0),
        ),
        run=_idle_consumers,
        when="round",
    ),
    Measure(
        name="offset-fetch",
        figures=(
            Figure("offset-fetch.few", "100 of 10,000 committed partitions", "CPU us", decimals=0),
            Figure("offset-fetch.all", "all of 10,000 committed partitions", "CPU us", decimals=0),
            # The cost is proportional to the request, but its fixed part weighs more on few partitions.
            Figure(
                "offset-fetch.proportion", "a partition when all are asked / of a hundred", "x", value=1.25, decimals=2
            ),
        ),
        run=_offset_fetch,
        when="once",
    ),
)
