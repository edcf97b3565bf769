"""InitProducerId: a producer id for an idempotent producer.

Versions 0-4, without a transactional id. A producer that sends the id it has (version 3, KIP-360) gets a new one, as
from Kafka when there is no transactional id; an id without an epoch, or an epoch without an id, is INVALID_REQUEST.
With a transactional id the answer is INVALID_REQUEST too: there is no transaction coordinator yet.
"""

from minibroker.call import Call
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minibroker_protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """Hand out a fresh producer id, in epoch 0."""
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if request.transactional_id is not None or has_id is not has_epoch:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=NO_PRODUCER_EPOCH)
    try:
        producer_id = call.state.producer_ids.next()
    except OSError:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_epoch=NO_PRODUCER_EPOCH)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
