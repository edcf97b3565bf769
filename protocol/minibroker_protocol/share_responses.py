"""Responses of ShareFetch (key 78) and ShareAcknowledge (key 79) of Kafka's share groups (KIP-932).

The broker does not serve these APIs. The declarations exist for programs that look for addresses in responses of other
brokers (`addresses`): the leaders that such a response names have their endpoints at its end.
"""

from typing import Annotated

from minibroker_protocol.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    Uuid,
    message,
    since,
    structure,
)


@structure
class AcquiredRecords:
    """A range of offsets that the member holds now, and how often it was delivered."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@structure
class ShareFetchPartition:
    """The records of one partition, and the outcome of the acknowledgements that came with the request."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: LeaderIdAndEpoch
    records: Records = None
    acquired_records: Array[AcquiredRecords]


@structure
class ShareFetchTopic:
    """The partitions of one topic, which is named by its id."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[ShareFetchPartition]


@message(versions="0-2", flexible="0+")
class ShareFetchResponse:
    """One outcome per partition; `node_endpoints` are those of the leaders that it names."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(1)] = 0
    responses: Array[ShareFetchTopic]
    node_endpoints: Array[NodeEndpoint]


@structure
class ShareAcknowledgePartition:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch


@structure
class ShareAcknowledgeTopic:
    """The partitions of one topic, which is named by its id."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[ShareAcknowledgePartition]


@message(versions="0-2", flexible="0+")
class ShareAcknowledgeResponse:
    """One outcome per partition; `node_endpoints` are those of the leaders that it names."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: Array[ShareAcknowledgeTopic]
    node_endpoints: Array[NodeEndpoint]
