"""Small requests: the time for one, the number per second, and the time until a consumer has a produced record.

`ping-pong`: Produce requests (v7, acks=-1) with one record of 100 B on one raw connection, each sent after the previous
response. `pipelined`: the same requests over 16 connections, each to one of 4 partitions in turn, with 32 unanswered
requests on each connection. One client process with one selector sends prebuilt requests. `tail`: from produce() of a
librdkafka producer (linger 0) to the return of poll() of a librdkafka consumer that waits at the end of the partition.
Both are in one process. Records are sent one at a time, each after a random pause of up to 2 ms.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers

_PARTITIONS = 4


def _ping_pong(bench: Bench) -> Numbers:
    got = bench.client("raw.ping_pong", topic=bench.topic(), count=bench.scale.pings)
    bench.busy = 0.0  # The client and the broker take turns by design.
    us = got["cpu"] / got["requests"] * 1e6
    return {"ping-pong.p50": got["p50"], "ping-pong.p99": got["p99"], "ping-pong.cpu": us}


def _pipelined(bench: Bench) -> Numbers:
    topic = bench.topic(_PARTITIONS)
    got = bench.client("raw.pipelined", topic=topic, partitions=_PARTITIONS, seconds=bench.scale.pipelined_seconds)
    return {"pipelined.rate": got["requests"] / got["seconds"], "pipelined.cpu": got["cpu"] / got["requests"] * 1e6}


def _tail(bench: Bench) -> Numbers:
    scale = bench.scale
    got = bench.client(
        "librdkafka.tail_latency", topic=bench.topic(), count=scale.tail_records, seconds=scale.tail_seconds
    )
    bench.busy = 0.0
    return {"tail.p50": got["p50"], "tail.p99": got["p99"]}


MEASURES = (
    Measure(
        name="ping-pong",
        figures=(
            Figure("ping-pong.cpu", "one-record produce", "CPU us", to_kfake=0.7, decimals=0),
            Figure("ping-pong.p50", "one-record produce, p50", "us", ratio=0.5, to_kfake=0.9, decimals=0),
            Figure("ping-pong.p99", "one-record produce, p99", "us", decimals=0),
        ),
        run=_ping_pong,
        when="round",
    ),
    Measure(
        name="pipelined",
        figures=(
            Figure("pipelined.cpu", "16 connections x 32 in flight", "CPU us"),
            Figure(
                "pipelined.rate",
                "16 connections x 32 in flight",
                "requests/s",
                ratio=6,
                to_kfake=1.5,
                higher_is_better=True,
                decimals=0,
            ),
        ),
        run=_pipelined,
        when="round",
    ),
    Measure(
        name="tail",
        figures=(
            Figure("tail.p50", "produce to consume, p50", "ms", ratio=0.6, to_kfake=0.9, decimals=2),
            Figure("tail.p99", "produce to consume, p99", "ms", ratio=0.2, to_kfake=0.8, decimals=2),
        ),
        run=_tail,
        when="round",
    ),
)
