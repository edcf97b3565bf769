"""ReadShareGroupStateSummary: read the offsets of share-partitions, as the group coordinator asks (KIP-932).

Versions 0-1. Offsets are -1 where no state was begun. From version 1 on it returns how many offsets are done with
(KIP-1226). A request without a group, or with a topic without partitions, has an empty answer, as in Kafka.
"""

from typing import Any, Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker.server.requests.share.states import answer_each
from minibroker_protocol.messages.share_group_state import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    SummarizedPartitionResult,
)

NEEDS: Final = on_cluster(Operation.CLUSTER_ACTION)
REFUSAL: Final = Refusal(explained=True)


def handle(request: ReadShareGroupStateSummaryRequest, call: Call) -> Steps[ReadShareGroupStateSummaryResponse]:
    """Return the offsets of each state (`ShareCoordinatorService.readStateSummary`)."""
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
