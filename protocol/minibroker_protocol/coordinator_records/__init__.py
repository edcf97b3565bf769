"""The records of Kafka's coordinators in internal topics, and the messages that consumers exchange through a group.

Each key and each value begins with its version (see `versioned`). Only coordinators need these modules, so import them
where they are used.
"""

from minibroker_protocol.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from minibroker_protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    read_group_key,
)
from minibroker_protocol.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from minibroker_protocol.coordinator_records.versioned import decode_versioned, encode_versioned

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionsSchema",
    "TopicPartition",
    "TransactionLogKey",
    "TransactionLogValue",
    "UnknownKey",
    "decode_versioned",
    "encode_versioned",
    "read_group_key",
]
