"""Envelopes are for controllers, from brokers that they know."""

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import EnvelopeRequest
from tests.broker.harness import Harness


def test_an_envelope_is_not_opened(harness: Harness) -> None:
    request = EnvelopeRequest(request_data=b"anything", request_principal=None, client_host_address=b"\x7f\0\0\1")
    response = harness.ask(request, 0)
    assert (response.error_code, response.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
