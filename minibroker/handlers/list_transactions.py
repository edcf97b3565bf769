"""ListTransactions: the transactional ids that the broker coordinates (KIP-664).

Versions 0-2; from version 1 on filtered by how long their transactions have run, too (KIP-994), from version 2 on by a
regular expression that the whole transactional id has to match (KIP-1152; INVALID_REGULAR_EXPRESSION, see
`minibroker.regular_expressions`). COORDINATOR_LOAD_IN_PROGRESS while not all of them are known.
"""

from minibroker.call import Call
from minibroker.regular_expressions.expression import RegularExpression, RegularExpressionError
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.transactions.transaction import STATES_BY_NAME, Transaction
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


def handle(request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    """List what the filters let through."""
    store = call.state.transactions.store
    if store.is_loading:
        return _refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = RegularExpression(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except RegularExpressionError:
        return _refusal(ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = call.state.clock.now_ms()
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[name for name in request.state_filters if name not in STATES_BY_NAME],
        transaction_states=[
            TransactionState(
                transactional_id=known.transactional_id,
                producer_id=known.producer_id,
                transaction_state=known.state.wire_name,
            )
            for known in store.all()
            if not store.log.coordinator_error(known.transactional_id, call.node)
            and _passes(known, request, now_ms)
            and (pattern is None or pattern.matches(known.transactional_id))
            and call.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, known.transactional_id)
        ],
    )


def _refusal(code: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=[])


def _passes(known: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    return (
        (not request.producer_id_filters or known.producer_id in request.producer_id_filters)
        and (not request.state_filters or known.state.wire_name in request.state_filters)
        and (request.duration_filter < 0 or now_ms - known.start_ms > request.duration_filter)
    )
