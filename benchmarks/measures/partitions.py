"""5,000 partitions: creating them, and requesting the metadata of all of them.

On a new broker, one CreateTopics request (v2) creates one topic of 5,000 partitions, and another one 50 topics of 100
partitions. Each is timed until its response. The second figure is the time until one fetch of all 5,000 partitions has
no error: Kafka responds before it has created the logs. Metadata v1 for each of the two sets is timed to the last byte
of the response, as the median of 20 responses. The JVM is not warmed up here, because a test suite that creates topics
uses new brokers.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers
from benchmarks.wire import CREATE_TOPICS

_TOPICS = 50


def _run(bench: Bench) -> Numbers:
    bench.require(CREATE_TOPICS)
    got = bench.client("raw.many_partitions", partitions=bench.scale.partitions, topics=_TOPICS, repeats=20)
    return {
        "partitions.one": got["one"],
        "partitions.usable": got["usable"],
        "partitions.several": got["several"],
        "partitions.metadata-one": got["metadata_one"],
        "partitions.metadata-several": got["metadata_several"],
    }


MEASURES = (
    Measure(
        name="partitions",
        figures=(
            Figure("partitions.one", "create 1 topic x 5,000 partitions", "s", value=0.2, decimals=2),
            Figure("partitions.usable", "the same, until all can be read", "s", value=0.2, decimals=2),
            Figure("partitions.several", "create 50 topics x 100 partitions", "s", value=0.2, decimals=2),
            Figure("partitions.metadata-one", "Metadata for 1 x 5,000", "ms", value=10),
            Figure("partitions.metadata-several", "Metadata for 50 x 100", "ms", value=10),
        ),
        run=_run,
        when="once",
    ),
)
