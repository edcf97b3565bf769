"""Produce (key 0): appends record batches to partitions."""

from dataclasses import field
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
    String,
    Uuid,
    empty,
    message,
    since,
    structure,
    tagged,
    versions,
)


@structure
class PartitionProduceData:
    """The batches for one partition: from version 3 on, exactly one batch of format v2."""

    index: Int32
    records: Records


@structure
class TopicProduceData:
    """The partitions of one topic, identified by topic id from version 13 on (KIP-516)."""

    name: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: Array[PartitionProduceData]


@message(versions="0-13", flexible="9+")
class ProduceRequest:
    """A request to append batches.

    An `acks` of 0 asks for no response, 1 for a response after the leader's write, and -1 for one after all in-sync
    replicas have the records. From version 12 on, the request itself adds partitions to the transaction (KIP-890).
    """

    transactional_id: Annotated[NullableString, since(3)] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]


@structure
class BatchIndexAndErrorMessage:
    """The index of an invalid record in a rejected batch, with the reason (KIP-467)."""

    batch_index: Int32
    batch_index_error_message: NullableString = None


@structure
class PartitionProduceResponse:
    """The outcome for one partition.

    `log_append_time_ms` is -1 unless the broker sets the timestamps (`message.timestamp.type=LogAppendTime`).
    `current_leader` redirects a producer whose request reached a broker that does not lead the partition (KIP-951).
    """

    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Annotated[Int64, since(2)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[Array[BatchIndexAndErrorMessage], since(8)] = field(default_factory=empty)
    error_message: Annotated[NullableString, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, tagged(0, "10+"), since(10)] = LeaderIdAndEpoch()


@structure
class TopicProduceResponse:
    """The partitions of one topic, identified by topic id from version 13 on."""

    name: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: Array[PartitionProduceResponse]


@message(versions="0-13", flexible="9+")
class ProduceResponse:
    """One result per requested partition; `node_endpoints` has the addresses of the current leaders in the response."""

    responses: Array[TopicProduceResponse]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    node_endpoints: Annotated[Array[NodeEndpoint], tagged(0, "10+"), since(10)] = field(default_factory=empty)
