"""ListTransactions: the transactional ids that the broker coordinates (KIP-664).

Versions 0-2. Version 1 also filters by how long the transactions have run (KIP-994). Version 2 also filters by a
regular expression, which the whole transactional id has to match (KIP-1152; INVALID_REGULAR_EXPRESSION, see
`minibroker.config.names.regular_expressions`). COORDINATOR_LOAD_IN_PROGRESS while not all of them are known.
"""

from collections.abc import Callable
from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.config.names.regular_expressions.expression import RegularExpression, RegularExpressionError
from minibroker.coordinators.transactions.transaction import STATES_BY_NAME, Transaction
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

NEEDS: Final = asked_by_handler("DESCRIBE on each transactional id, or it is hidden")


def handle(request: ListTransactionsRequest, call: Call) -> Steps[ListTransactionsResponse]:
    """List what the filters let through."""
    store = call.services.transactions.store
    if store.is_loading:
        return _refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    now_ms = call.core.clock.now_ms()
    passes = _filter(request, now_ms)
    found: dict[str, Transaction] = {}
    for known in store.all():
        if passes(known) and not store.log.coordinator_error(known.transactional_id, call.node):
            found[known.transactional_id] = known
        yield
    if request.transactional_id_pattern:
        try:
            matching = yield from RegularExpression(request.transactional_id_pattern).matching(found)
        except RegularExpressionError:
            return _refusal(ErrorCode.INVALID_REGULAR_EXPRESSION)
        found = {name: found[name] for name in matching}
    states: list[ListedTransaction] = []
    for known in found.values():
        if call.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, known.transactional_id):
            states.append(
                ListedTransaction(
                    transactional_id=known.transactional_id,
                    producer_id=known.producer_id,
                    transaction_state=known.state.wire_name,
                )
            )
        yield
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[name for name in request.state_filters if name not in STATES_BY_NAME],
        transaction_states=states,
    )


def _refusal(code: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=[])


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    producer_ids, states, duration = (
        set(request.producer_id_filters),
        set(request.state_filters),
        request.duration_filter,
    )

    def passes(known: Transaction) -> bool:
        return (
            (not producer_ids or known.producer_id in producer_ids)
            and (not states or known.state.wire_name in states)
            and (duration < 0 or now_ms - known.start_ms > duration)
        )

    return passes
