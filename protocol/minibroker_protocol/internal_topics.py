"""Names of Kafka's internal topics, as in `org.apache.kafka.common.internals.Topic`."""

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""The group coordinator's topic, with groups and their committed offsets."""
TRANSACTION_STATE: Final = "__transaction_state"
"""The transaction coordinator's topic, with transactional ids and their transactions."""
SHARE_GROUP_STATE: Final = "__share_group_state"
"""The share coordinator's topic, with the states of share-partitions."""
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""The topics that the coordinators create and use."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""The metadata log of Kafka in KRaft mode. Its directory is beside those of topics, but clients cannot see it."""
SCHEMAS_TOPIC: Final = "_schemas"
"""The topic of schema registries. To the broker it is a topic like any other."""
