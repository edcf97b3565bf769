"""The share coordinator's states of share-partitions, for group coordinators and leaders (KIP-932)."""

from typing import Any

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_state.state import MOST_BATCHES, Change, SharePartitionKey
from minibroker.coordinators.share_state.state import StateBatch as StoredBatch
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.requirements import on_cluster
from minibroker.server.requests.share.states import answer_each
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


@handles(ApiKey.INITIALIZE_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION))
def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, call: Call
) -> Steps[InitializeShareGroupStateResponse]:
    """InitializeShareGroupState: begin the state of share-partitions, as the group coordinator asks (KIP-932).

    Version 0. A state that exists is begun again, unless its epoch is higher (FENCED_STATE_EPOCH). Errors of all
    these APIs: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE;
    UNKNOWN_TOPIC_OR_PARTITION and, for a negative number, INVALID_REQUEST. A request without a group has an empty
    answer, as in Kafka.

    Begin each state (`ShareCoordinatorService.initializeState`).
    """
    states, node = call.services.share_states, call.node

    def initialize(key: SharePartitionKey, asked: InitializedPartition) -> PartitionResult:
        code, message = states.initialize(key, asked.state_epoch, asked.start_offset, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    results = yield from answer_each(request, initialize, InitializeStateResult, may_be_empty=True)
    return InitializeShareGroupStateResponse(results=results)


@handles(ApiKey.READ_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(explained=True))
def read_share_group_state(request: ReadShareGroupStateRequest, call: Call) -> Steps[ReadShareGroupStateResponse]:
    """ReadShareGroupState: read the state of share-partitions, as the leader of a partition asks (KIP-932).

    Version 0. The leader's epoch is noted: an earlier one is FENCED_LEADER_EPOCH from then on. INVALID_REQUEST
    where no state was begun. A request without a group, or with a topic without partitions, has an empty answer, as
    in Kafka.

    Return each state (`ShareCoordinatorService.readState`).
    """
    states, node = call.services.share_states, call.node

    def read(key: SharePartitionKey, asked: ReadPartition) -> ReadPartitionResult:
        outcome = states.read(key, asked.leader_epoch, node)
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

    return ReadShareGroupStateResponse(results=(yield from answer_each(request, read, ReadStateResult)))


@handles(ApiKey.WRITE_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(explained=True))
def write_share_group_state(request: WriteShareGroupStateRequest, call: Call) -> Steps[WriteShareGroupStateResponse]:
    """WriteShareGroupState: change the state of share-partitions, as the leader of a partition asks (KIP-932).

    Versions 0-1. FENCED_STATE_EPOCH and FENCED_LEADER_EPOCH for epochs lower than the state's; -1 is not compared.
    INVALID_REQUEST where no state was begun. A request without a group, or with a topic without partitions, has an
    empty answer, as in Kafka.

    Change each state (`ShareCoordinatorService.writeState`).
    """
    states, node = call.services.share_states, call.node

    def write(key: SharePartitionKey, asked: WrittenPartition) -> PartitionResult:
        batches = [
            StoredBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
            for batch in asked.state_batches[: MOST_BATCHES + 1]  # with more than that the whole is refused
        ]
        change = Change(asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches)
        code, message = states.write(key, asked.state_epoch, change, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    return WriteShareGroupStateResponse(results=(yield from answer_each(request, write, WriteStateResult)))


@handles(ApiKey.DELETE_SHARE_GROUP_STATE, needs=on_cluster(Operation.CLUSTER_ACTION))
def delete_share_group_state(request: DeleteShareGroupStateRequest, call: Call) -> Steps[DeleteShareGroupStateResponse]:
    """DeleteShareGroupState: delete the state of share-partitions, as the group coordinator asks (KIP-932).

    Version 0. NONE also where there is no state. A request without a group, or with a topic without partitions, has
    an empty answer, as in Kafka.

    Delete each state (`ShareCoordinatorService.deleteState`).
    """
    states, node = call.services.share_states, call.node

    def delete(key: SharePartitionKey, _: Any) -> PartitionResult:
        code, message = states.delete(key, node)
        return PartitionResult(partition=key.partition, error_code=code, error_message=message)

    return DeleteShareGroupStateResponse(results=(yield from answer_each(request, delete, DeleteStateResult)))


@handles(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, needs=on_cluster(Operation.CLUSTER_ACTION), refusal=Refusal(explained=True)
)
def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, call: Call
) -> Steps[ReadShareGroupStateSummaryResponse]:
    """ReadShareGroupStateSummary: read the offsets of share-partitions, as the group coordinator asks (KIP-932).

    Versions 0-1. Offsets are -1 where no state was begun. From version 1 on it returns how many offsets are done
    with (KIP-1226). A request without a group, or with a topic without partitions, has an empty answer, as in
    Kafka.

    Return the offsets of each state (`ShareCoordinatorService.readStateSummary`).
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

    results = yield from answer_each(request, summarize, ReadStateSummaryResult)
    return ReadShareGroupStateSummaryResponse(results=results)
