"""DescribeTransactions: the transactions of transactional ids (KIP-664).

Version 0. INVALID_REQUEST for an empty id, TRANSACTIONAL_ID_NOT_FOUND for one that is not known.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.transactions.transaction import by_topic
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import transactional_ids_at
from minibroker.server.requests.requirements import asked_by_handler, on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

NAMES: Final = transactional_ids_at("transactional_ids")
NEEDS: Final = on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID) & asked_by_handler(
    "DESCRIBE on each of its topics, or it is hidden"
)


def handle(request: DescribeTransactionsRequest, call: Call) -> Steps[DescribeTransactionsResponse]:
    """Look every transactional id up by itself."""
    found: list[TransactionState] = []
    for transactional_id in request.transactional_ids:
        found.append(_describe(transactional_id, call))
        yield
    return DescribeTransactionsResponse(transaction_states=found)


def _describe(transactional_id: str, call: Call) -> TransactionState:
    store = call.services.transactions.store
    error = store.readiness(transactional_id, call.node) if transactional_id else ErrorCode.INVALID_REQUEST
    known = None if error else store.get(transactional_id)
    if known is None:
        return TransactionState(
            error_code=error or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=known.state.wire_name,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(known.partitions).items()
            if call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        ],
    )
