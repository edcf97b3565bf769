"""The broker's keys without effect here: they are returned by DescribeConfigs, and checked when they are set.

A module for each subject; `broker_keys` loads them at the first request for a key that it does not have itself.
"""

from minibroker.config.reported_keys import (
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
    transactions,
    zookeeper,
)
REPORTED_KEYS = tuple(key for subject in SUBJECTS for key in subject.KEYS)
