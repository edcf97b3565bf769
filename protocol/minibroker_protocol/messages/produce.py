"""Produce (key 0): appends record batches to partitions."""

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
    """The batches for one partition. From version 3 on, there must be exactly one batch, in format v2."""

    index: Int32
    records: Records


@structure
class TopicProduceData:
    """The partitions of one topic. From version 13 on, a topic id identifies the topic (KIP-516)."""

    name: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: Array[PartitionProduceData]


@message(versions="0-13", flexible="9+")
class ProduceRequest:
    """A request to append batches.

    With an `acks` of 0, the broker sends no response. With 1, it responds after the leader has written the records,
    and with -1, after all in-sync replicas have them. From version 12 on, the request itself adds partitions to the
    transaction (KIP-890).
    """

    transactional_id: Annotated[NullableString, since(3)] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]


@structure
class BatchIndexAndErrorMessage:
    """The index of an invalid record in a rejected batch, and the reason for the rejection (KIP-467)."""

    batch_index: Int32
    batch_index_error_message: NullableString = None


@structure
class PartitionProduceResponse:
    """The result for one partition.

    `log_append_time_ms` is -1 unless the broker sets the timestamps (`message.timestamp.type=LogAppendTime`). If
    the broker does not lead the partition, `current_leader` redirects the producer to the leader (KIP-951).
    """

    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Annotated[Int64, since(2)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[Array[BatchIndexAndErrorMessage], since(8)] = empty()
    error_message: Annotated[NullableString, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, tagged(0, "10+"), since(10)] = LeaderIdAndEpoch()


@structure
class TopicProduceResponse:
    """The partitions of one topic. From version 13 on, a topic id identifies the topic."""

    name: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: Array[PartitionProduceResponse]


@message(versions="0-13", flexible="9+")
class ProduceResponse:
    """One result per requested partition.

    `node_endpoints` has the addresses of the current leaders that the response names.
    """

    responses: Array[TopicProduceResponse]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    node_endpoints: Annotated[Array[NodeEndpoint], tagged(0, "10+"), since(10)] = empty()
