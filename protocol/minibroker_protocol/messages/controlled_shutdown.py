"""ControlledShutdown (key 7): TODO."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    String,
    message,
    since,
    structure,
)


@message(versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    """TODO."""

    broker_id: Int32
    broker_epoch: Annotated[Int64, since(2)] = -1


@structure
class RemainingPartition:
    """TODO."""

    topic_name: String
    partition_index: Int32


@message(versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    """TODO."""

    error_code: Int16
    remaining_partitions: Array[RemainingPartition]
