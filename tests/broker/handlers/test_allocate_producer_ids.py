"""Only a broker that is known is given producer ids, and here there is none that would ask."""

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import AllocateProducerIdsRequest
from tests.broker.harness import Harness


def test_nobody_is_given_producer_ids(harness: Harness) -> None:
    response = harness.ask(AllocateProducerIdsRequest(broker_id=1), 0)
    assert (response.error_code, response.producer_id_len) == (ErrorCode.STALE_BROKER_EPOCH, 0)
