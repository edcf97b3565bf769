"""Handlers for the share coordinator, which keeps the state of share-partitions (KIP-932).

Group coordinators and partition leaders send these requests.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from minibroker.cluster.routing.slices import Served
from minibroker.coordinators.share_state.state import MAX_BATCHES, Change, SharePartitionKey
from minibroker.coordinators.share_state.state import StateBatch as StoredBatch
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.elements import for_each_partition
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    InitializedPartition,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
    ReadPartition,
    ReadPartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateResult,
    ReadStateSummaryResult,
    StateBatch,
    SummarizedPartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
    WrittenPartition,
)

R = TypeVar("R")


def _serve_each(
    request: Any,
    serve: Callable[[SharePartitionKey, Any], Any],
    result: Callable[..., Any],
    response: Callable[..., R],
    *,
    may_be_empty: bool = False,
) -> Served[R]:
    """Serve each share-partition of a request. Without a group there are no results, as in Kafka.

    Args:
        request: A request with a `group_id` and `topics`.
        serve: Returns the result of a share-partition, given its key and its part of the request.
        result: The class of the result of a topic.
        response: The class of the response.
        may_be_empty: Whether topics without partitions are allowed. Otherwise a request with one gets no results.
    """
    if not request.group_id or not (may_be_empty or all(topic.partitions for topic in request.topics)):
        return response(results=[])
    return for_each_partition(
        request.topics,
        "partitions",
        lambda topic, requested: serve(
            SharePartitionKey(request.group_id, topic.topic_id, requested.partition), requested
        ),
        lambda topic, partitions: result(topic_id=topic.topic_id, partitions=partitions),
        lambda results: response(results=results),
    )


@handles(ApiKey.INITIALIZE_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION))
def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, call: Call
) -> Served[InitializeShareGroupStateResponse]:
    """InitializeShareGroupState: initialize the state of share-partitions for the group coordinator (KIP-932).

    Version 0 is served (`ShareCoordinatorService.initializeState`). An existing state is initialized again, unless
    its epoch is higher (FENCED_STATE_EPOCH). A request without a group gets an empty response, as in Kafka.

    Error codes of all APIs in this module:

    - NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE: the coordinator is another broker,
      still loading, or unavailable.
    - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist.
    - INVALID_REQUEST: the partition number is negative.
    """
    states, node = call.services.share_states, call.node

    def initialize(key: SharePartitionKey, requested: InitializedPartition) -> PartitionResult:
        code, message = states.initialize(key, requested.state_epoch, requested.start_offset, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    return _serve_each(request, initialize, InitializeStateResult, InitializeShareGroupStateResponse, may_be_empty=True)


@handles(ApiKey.READ_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(explained=True))
def read_share_group_state(request: ReadShareGroupStateRequest, call: Call) -> Served[ReadShareGroupStateResponse]:
    """ReadShareGroupState: return the state of share-partitions to their leader (KIP-932).

    Version 0 is served (`ShareCoordinatorService.readState`). The leader's epoch is saved, and requests with an
    earlier epoch get FENCED_LEADER_EPOCH from then on. Without an initialized state the error is INVALID_REQUEST. A
    request without a group, or with a topic without partitions, gets an empty response, as in Kafka.
    """
    states, node = call.services.share_states, call.node

    def read(key: SharePartitionKey, requested: ReadPartition) -> ReadPartitionResult:
        outcome = states.read(key, requested.leader_epoch, node)
        batches = [
            StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.deliveries,
            )
            for batch in outcome.batches
        ]
        return ReadPartitionResult(
            partition=key.partition,
            error_code=outcome.code,
            error_message=outcome.message,
            state_epoch=outcome.state_epoch,
            start_offset=outcome.start_offset,
            state_batches=batches,
        )

    return _serve_each(request, read, ReadStateResult, ReadShareGroupStateResponse)


@handles(ApiKey.WRITE_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(explained=True))
def write_share_group_state(request: WriteShareGroupStateRequest, call: Call) -> Served[WriteShareGroupStateResponse]:
    """WriteShareGroupState: change the state of share-partitions for their leader (KIP-932).

    Versions 0-1 are served (`ShareCoordinatorService.writeState`). A state epoch or leader epoch that is lower than
    the saved one gets FENCED_STATE_EPOCH or FENCED_LEADER_EPOCH. An epoch of -1 is not checked. Without an
    initialized state the error is INVALID_REQUEST. A request without a group, or with a topic without partitions,
    gets an empty response, as in Kafka.
    """
    states, node = call.services.share_states, call.node

    def write(key: SharePartitionKey, requested: WrittenPartition) -> PartitionResult:
        batches = [
            StoredBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
            # Read at most one batch more than the maximum: a list with that many is refused as a whole.
            for batch in requested.state_batches[: MAX_BATCHES + 1]
        ]
        change = Change(requested.leader_epoch, requested.start_offset, requested.delivery_complete_count, batches)
        code, message = states.write(key, requested.state_epoch, change, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    return _serve_each(request, write, WriteStateResult, WriteShareGroupStateResponse)


@handles(ApiKey.DELETE_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION))
def delete_share_group_state(
    request: DeleteShareGroupStateRequest, call: Call
) -> Served[DeleteShareGroupStateResponse]:
    """DeleteShareGroupState: delete the state of share-partitions for the group coordinator (KIP-932).

    Version 0 is served (`ShareCoordinatorService.deleteState`). Deleting a state that does not exist is not an error. A
    request without a group, or with a topic without partitions, gets an empty response, as in Kafka.
    """
    states, node = call.services.share_states, call.node

    def delete(key: SharePartitionKey, _: Any) -> PartitionResult:
        code, message = states.delete(key, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    return _serve_each(request, delete, DeleteStateResult, DeleteShareGroupStateResponse)


@handles(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(explained=True)
)
def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, call: Call
) -> Served[ReadShareGroupStateSummaryResponse]:
    """ReadShareGroupStateSummary: return the offsets of share-partitions to the group coordinator (KIP-932).

    Versions 0-1 are served (`ShareCoordinatorService.readStateSummary`). Without an initialized state, offsets are -1.
    Version 1 adds the number of offsets whose delivery is complete (KIP-1226). A request without a group, or with a
    topic without partitions, gets an empty response, as in Kafka.
    """
    states, node = call.services.share_states, call.node

    def summarize(key: SharePartitionKey, _: Any) -> SummarizedPartitionResult:
        summary = states.summary(key, node)
        return SummarizedPartitionResult(
            partition=key.partition,
            error_code=summary.code,
            error_message=summary.message,
            state_epoch=summary.state_epoch,
            leader_epoch=summary.leader_epoch,
            start_offset=summary.start_offset,
            delivery_complete_count=summary.delivery_complete_count,
        )

    return _serve_each(request, summarize, ReadStateSummaryResult, ReadShareGroupStateSummaryResponse)
