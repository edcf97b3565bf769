"""Names of Kafka's own topics, as `org.apache.kafka.common.internals.Topic` has them."""

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""The group coordinator's topic: groups and their committed offsets."""
TRANSACTION_STATE: Final = "__transaction_state"
"""The transaction coordinator's topic: transactional ids and their transactions."""
SHARE_GROUP_STATE: Final = "__share_group_state"
"""The topic of the share coordinator: the states of share-partitions."""
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""The topics of the coordinators, which make them: they know how."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""The metadata log of an Apache Kafka in KRaft mode. It lies beside the topics, and no client sees it."""
