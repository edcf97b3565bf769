"""Requests to the share coordinator's APIs for brokers."""

from typing import Any

from minibroker_protocol.messages import share_group_state
from minibroker_protocol.messages.share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    InitializeShareGroupStateRequest,
    InitializeStateData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadStateData,
    ReadStateSummaryData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of

BATCH = StateBatch(first_offset=10, last_offset=14, delivery_state=2, delivery_count=1)


def ask(harness: Harness, kind: type[Any], data: type[Any], *partitions: Any, version: int, group: str = "g") -> Any:
    """Return the response to a request about partitions of the topic "t"."""
    topics = [data(topic_id=topic_of(harness).id, partitions=list(partitions))]
    return harness.ask(kind(group_id=group, topics=topics), version)


def only(response: Any) -> Any:
    """Return the result of the only partition."""
    (topic,) = response.results
    (partition,) = topic.partitions
    return partition


def initialize(harness: Harness, *, state_epoch: int = 0, start: int = -1, **fields: Any) -> Any:
    """Initialize the state of t-0."""
    partition = share_group_state.InitializedPartition(partition=0, state_epoch=state_epoch, start_offset=start)
    return ask(harness, InitializeShareGroupStateRequest, InitializeStateData, partition, version=0, **fields)


def write(harness: Harness, *batches: StateBatch, state_epoch: int = 0, leader_epoch: int = 0, start: int = 10) -> Any:
    """Write batches to the state of t-0."""
    partition = share_group_state.WrittenPartition(
        partition=0,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        delivery_complete_count=5,
        state_batches=list(batches),
    )
    return ask(harness, WriteShareGroupStateRequest, WriteStateData, partition, version=1)


def read(harness: Harness, *, leader_epoch: int = 0, partition: int = 0) -> Any:
    """Read the state of a partition of "t"."""
    partition_request = share_group_state.ReadPartition(partition=partition, leader_epoch=leader_epoch)
    return ask(harness, ReadShareGroupStateRequest, ReadStateData, partition_request, version=0)


def summary(harness: Harness, *, version: int = 1) -> Any:
    """Read the offsets in the state of t-0."""
    partition = share_group_state.ReadPartition(partition=0, leader_epoch=0)
    return ask(harness, ReadShareGroupStateSummaryRequest, ReadStateSummaryData, partition, version=version)


def delete(harness: Harness, *, partition: int = 0) -> Any:
    """Delete the state of a partition of "t"."""
    partition_request = share_group_state.DeletedPartition(partition=partition)
    return ask(harness, DeleteShareGroupStateRequest, DeleteStateData, partition_request, version=0)
