"""InitProducerId: a producer id for an idempotent producer, or the sole right to a transactional id.

Versions 0-5, and 6 with `unstable.api.versions.enable`. Without a transactional id the answer is a new id in epoch 0,
also for a producer that sends the id it has (version 3, KIP-360). With one, the producers that used it before are
fenced by a new epoch; a transaction that they left open is aborted, and the answer is CONCURRENT_TRANSACTIONS: the
second try succeeds. A producer that names its id and epoch keeps the id unless it is fenced (PRODUCER_FENCED;
INVALID_PRODUCER_EPOCH before version 4). An id without an epoch, or an epoch without an id, is INVALID_REQUEST; a
timeout that is not positive or above `transaction.max.timeout.ms` is INVALID_TRANSACTION_TIMEOUT.

A transaction of version 6 may be part of one with an external coordinator, and then never times out (KIP-939), where
`transaction.two.phase.commit.enable` allows it; TRANSACTIONAL_ID_AUTHORIZATION_FAILED where it does not. To keep a
prepared transaction is UNSUPPORTED_VERSION: no release of Kafka can.
"""

from typing import Final

from minibroker.cluster.logs.error_mapping import as_producers_know_it
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import checked, missing
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from minibroker_protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

with lazy:
    from minibroker.coordinators.transactions import coordinator

_FENCED_SINCE: Final = 4


def _right_error(request: InitProducerIdRequest, call: Call) -> ErrorCode:
    """A client that may write to some topic may write to it idempotently (KIP-679)."""
    if request.transactional_id is not None:
        operations = (Operation.WRITE, Operation.TWO_PHASE_COMMIT) if request.enable2_pc else (Operation.WRITE,)
        codes = (missing(call, each, ResourceType.TRANSACTIONAL_ID, request.transactional_id) for each in operations)
        return next(filter(None, codes), ErrorCode.NONE)
    allowed = call.allows(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME) or call.allows_somewhere(
        Operation.WRITE, ResourceType.TOPIC
    )
    return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


NEEDS: Final = checked(
    _right_error,
    "WRITE on the transactional id, and TWO_PHASE_COMMIT for such a transaction; without one IDEMPOTENT_WRITE on the "
    "cluster, or WRITE on any topic",
)
REFUSAL: Final = Refusal({"producer_id": -1, "producer_epoch": -1})


def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """Hand out an id with an epoch."""
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id is not has_epoch:
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _init_transactional_id(request, call)
    try:
        producer_id = call.core.producer_ids.next()
    except OSError:
        return _refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _init_transactional_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id:
        if request.enable2_pc and not call.core.config.boolean("transaction.two.phase.commit.enable"):
            return _refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            return _refusal(ErrorCode.UNSUPPORTED_VERSION)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = coordinator.ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    code, producer_id, producer_epoch = call.services.transactions.init_producer_id(
        request.transactional_id or "",
        request.transaction_timeout_ms,
        expected,
        never_ends=request.enable2_pc,
        node=call.node,
    )
    code = as_producers_know_it(code, call.api_version, fenced_since=_FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=producer_epoch)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
