"""EndTxn: commit a transaction, or abort it (KIP-98).

Versions 0-5. The markers are in all logs when the answer leaves; Kafka answers when the end is decided and writes
them then. INVALID_TXN_STATE when there is no transaction, or it has ended the other way; to repeat the request is no
error. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2. Version 5 raises the producer's epoch and returns it
(KIP-890), with another id when the epochs of the old one are used up; it may also abort a transaction that has written
nothing.
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import as_producers_know_it
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_transactional_id
from minibroker_protocol.messages.transactions import EndTxnRequest, EndTxnResponse
from minibroker_protocol.schema import first_version

_FIRST_WITH_NEXT_EPOCH: Final = first_version(EndTxnResponse, "producer_epoch")

NEEDS: Final = on_transactional_id(Operation.WRITE)


def handle(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """End the transaction."""
    error, producer_id, producer_epoch = call.services.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
        raises_epoch=call.api_version >= _FIRST_WITH_NEXT_EPOCH,
        node=call.node,
    )
    code = as_producers_know_it(error, call.api_version)
    return EndTxnResponse(error_code=code, producer_id=producer_id, producer_epoch=producer_epoch)
