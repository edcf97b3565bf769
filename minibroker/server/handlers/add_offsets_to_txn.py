"""AddOffsetsToTxn: a transaction is going to commit offsets of a group (KIP-98).

Versions 0-4. The group's partition of `__consumer_offsets` joins the transaction, as if AddPartitionsToTxn had named
it. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import as_producers_know_it
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_group, on_transactional_id
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.messages.transactions import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

NEEDS: Final = on_transactional_id(Operation.WRITE) & on_group(Operation.READ)


def handle(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    """Have the group's partition in the transaction."""
    error = call.services.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(CONSUMER_OFFSETS, call.services.groups.store.partition_of(request.group_id))],
        node=call.node,
    )
    return AddOffsetsToTxnResponse(error_code=as_producers_know_it(error, call.api_version))
