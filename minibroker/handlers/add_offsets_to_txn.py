"""AddOffsetsToTxn: a transaction is going to commit offsets of a group (KIP-98).

Versions 0-4. The group's partition of `__consumer_offsets` joins the transaction, as if AddPartitionsToTxn had named
it. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from typing import Final

from minibroker.call import Call
from minibroker.topics import CONSUMER_OFFSETS
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FIRST_WITH_PRODUCER_FENCED: Final = 2


def handle(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    """Have the group's partition in the transaction."""
    state = call.state
    error = state.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(CONSUMER_OFFSETS, state.groups.store.partition_of(request.group_id))],
    )
    if error is ErrorCode.PRODUCER_FENCED and call.api_version < _FIRST_WITH_PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=error)
