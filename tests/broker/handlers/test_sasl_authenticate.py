from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest
from tests.broker.harness import Harness


def test_where_nobody_has_to_log_in_a_token_is_out_of_turn(harness: Harness) -> None:
    """With SASL it is tested in tests/broker/security/sasl/test_authentication.py."""
    for version in (0, 1, 2):
        response = harness.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), version)
        assert (response.error_code, bytes(response.auth_bytes)) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
        assert response.error_message == "SaslAuthenticate request received after successful authentication"
