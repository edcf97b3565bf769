"""EndTxn: commit a transaction, or abort it (KIP-98).

Versions 0-4. The markers are in all logs when the answer leaves; Kafka answers when the end is decided and writes
them then. INVALID_TXN_STATE when there is no transaction, or it has ended the other way; to repeat the request is no
error. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from typing import Final

from minibroker.call import Call
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

_FIRST_WITH_PRODUCER_FENCED: Final = 2


def handle(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """End the transaction."""
    error = call.state.transactions.end(
        request.transactional_id, request.producer_id, request.producer_epoch, commit=request.committed
    )
    if error is ErrorCode.PRODUCER_FENCED and call.api_version < _FIRST_WITH_PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=error)
