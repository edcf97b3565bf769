"""All measures, in the order in which they run and are shown."""

from benchmarks.measures import (
    compaction,
    connections,
    endurance,
    fairness,
    fetch,
    groups,
    latency,
    lookups,
    partitions,
    produce,
    restart,
    sessions,
    share,
    start,
)
from benchmarks.model import Measure

MEASURES: tuple[Measure, ...] = (
    *start.MEASURES,
    *produce.MEASURES,
    *fetch.MEASURES,
    *latency.MEASURES,
    *connections.MEASURES,
    *partitions.MEASURES,
    *sessions.MEASURES,
    *endurance.MEASURES,
    *restart.MEASURES,
    *lookups.MEASURES,
    *compaction.MEASURES,
    *groups.MEASURES,
    *share.MEASURES,
    *fairness.MEASURES,
)
