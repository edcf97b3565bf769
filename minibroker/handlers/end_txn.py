"""EndTxn: commit a transaction, or abort it (KIP-98).

Versions 0-4. The markers are in all logs when the answer leaves; Kafka answers when the end is decided and writes
them then. INVALID_TXN_STATE when there is no transaction, or it has ended the other way; to repeat the request is no
error. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from minibroker.call import Call
from minibroker.error_mapping import as_producers_know_it
from minibroker_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """End the transaction."""
    error = call.state.transactions.end(
        request.transactional_id, request.producer_id, request.producer_epoch, commit=request.committed, node=call.node
    )
    return EndTxnResponse(error_code=as_producers_know_it(error, call.api_version))
