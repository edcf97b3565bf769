"""The keys that the broker only tells to who asks, and checks when they are set."""

from minibroker.config.broker_keys import (
    general,
    groups,
    kraft,
    logs,
    metrics,
    network,
    quotas,
    remote_storage,
    replication,
    sasl,
    security,
    share_groups,
    streams_groups,
    transactions,
    zookeeper,
)

SUBJECTS = (
    general,
    groups,
    kraft,
    logs,
    metrics,
    network,
    quotas,
    remote_storage,
    replication,
    sasl,
    security,
    share_groups,
    streams_groups,
    transactions,
    zookeeper,
)
REST = tuple(key for subject in SUBJECTS for key in subject.KEYS)
