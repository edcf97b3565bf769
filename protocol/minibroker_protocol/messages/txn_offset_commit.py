"""TxnOffsetCommit (key 28): offsets that count once the transaction is committed (KIP-98, KIP-447)."""

from typing import Annotated

from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    message,
    since,
    structure,
    versions,
)


@structure
class TxnOffsetCommitRequestPartition:
    """`committed_offset` is that of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: NullableString


@structure
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic, which from version 6 on is named by its id (KIP-1319)."""

    name: Annotated[String, versions("0-5")] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: Array[TxnOffsetCommitRequestPartition]


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    """From version 3 on the consumer's generation, or its epoch, is checked, too, unless it is -1 (KIP-447).

    From version 5 on the group's partition joins the transaction with this very request (KIP-890).
    """

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[NullableString, since(3)] = None
    topics: Array[TxnOffsetCommitRequestTopic]


@structure
class TxnOffsetCommitResponsePartition:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


@structure
class TxnOffsetCommitResponseTopic:
    """The partitions of one topic, which from version 6 on is named by its id (KIP-1319)."""

    name: Annotated[String, versions("0-5")] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: Array[TxnOffsetCommitResponsePartition]


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    """One outcome per partition asked."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic]
