"""Produce (key 0): batches of records, one per partition, to be appended."""

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
    """The batches for one partition; from version 3 on exactly one batch of format v2."""

    index: Int32
    records: Records


@structure
class TopicProduceData:
    """The partitions of one topic, which from version 13 on is named by its id (KIP-516)."""

    name: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: Array[PartitionProduceData]


@message(versions="0-13", flexible="9+")
class ProduceRequest:
    """`acks`: 0 asks for no response at all, 1 for the leader's write, -1 for that of all in-sync replicas.

    From version 12 on the partitions of a transaction's batches join it with this very request (KIP-890).
    """

    transactional_id: Annotated[NullableString, since(3)] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]


@structure
class BatchIndexAndErrorMessage:
    """Which record of a refused batch was at fault (KIP-467)."""

    batch_index: Int32
    batch_index_error_message: NullableString = None


@structure
class PartitionProduceResponse:
    """The outcome for one partition.

    `log_append_time_ms` is -1 unless the topic stamps records itself (`message.timestamp.type=LogAppendTime`).
    `current_leader` is for producers that asked a broker that does not lead the partition (KIP-951).
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
    """The partitions of one topic, which from version 13 on is named by its id."""

    name: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: Array[PartitionProduceResponse]


@message(versions="0-13", flexible="9+")
class ProduceResponse:
    """One outcome per partition asked; `node_endpoints` are those of the leaders that it names."""

    responses: Array[TopicProduceResponse]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    node_endpoints: Annotated[Array[NodeEndpoint], tagged(0, "10+"), since(10)] = field(default_factory=empty)
