"""ControlledShutdown (key 7): a broker with ZooKeeper asks its controller to be stopped; gone in Kafka 4.0."""

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
    """The broker that wants to stop. Version 0 is the one request without a client id in its header."""

    broker_id: Int32
    broker_epoch: Annotated[Int64, since(2)] = -1


@structure
class RemainingPartition:
    """A partition that the broker leads still."""

    topic_name: String
    partition_index: Int32


@message(versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    """The outcome, and what keeps the broker from stopping."""

    error_code: Int16
    remaining_partitions: Array[RemainingPartition]
