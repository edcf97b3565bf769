import logging

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.harness import Harness


def test_where_nobody_has_to_log_in_a_handshake_is_out_of_turn(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """tests/broker/security/sasl/test_authentication.py tests it with SASL."""
    caplog.set_level(logging.INFO, "minibroker.support.advice")
    for version in (0, 1):
        response = harness.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    (message,) = caplog.messages
    assert "the listener PLAINTEXT has no authentication: give it security.protocol=PLAINTEXT" in message


def test_where_nobody_has_to_log_in_a_token_is_out_of_turn(harness: Harness) -> None:
    """tests/broker/security/sasl/test_authentication.py tests it with SASL."""
    for version in (0, 1, 2):
        response = harness.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), version)
        assert (response.error_code, bytes(response.auth_bytes)) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
        assert response.error_message == "SaslAuthenticate request received after successful authentication"
