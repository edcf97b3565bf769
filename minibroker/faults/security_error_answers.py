"""Answers that say nothing but an error, for the APIs of SASL, SCRAM and delegation tokens: see `error_answers`."""

from typing import Any, Final

from minibroker.faults.declarations import Answering, alone, messages_of
from minibroker_protocol.error_codes import ErrorCode

_NO_TIME: Final = -1


def _sasl_authenticate(_request: Any, _version: int, code: ErrorCode) -> Any:
    response: Any = messages_of("sasl_authenticate").SaslAuthenticateResponse
    return response(error_code=code, error_message=None, auth_bytes=b"")


def _create_delegation_token(_request: Any, version: int, code: ErrorCode) -> Any:
    requester = {"token_requester_principal_type": "User", "token_requester_principal_name": "ANONYMOUS"}
    response: Any = messages_of("create_delegation_token").CreateDelegationTokenResponse
    return response(
        error_code=code,
        principal_type="User",
        principal_name="ANONYMOUS",
        **(requester if version >= 3 else {}),  # noqa: PLR2004 - the first version that has them
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
        token_id="",
        hmac=b"",
    )


def _describe_user_scram_credentials(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("describe_user_scram_credentials")
    results = [
        m.DescribeUserScramCredentialsResult(user="", error_code=code, error_message=None, credential_infos=[])
        for _ in request.users or ()
    ]
    return m.DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=results)


def _alter_user_scram_credentials(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("alter_user_scram_credentials")
    users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    results = [m.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None) for user in users]
    return m.AlterUserScramCredentialsResponse(results=results)


SECURITY_ANSWERS: Final[dict[str, Answering]] = {
    "SaslHandshake": alone("sasl_handshake", "SaslHandshakeResponse", mechanisms=list),
    "SaslAuthenticate": _sasl_authenticate,
    "CreateDelegationToken": _create_delegation_token,
    "RenewDelegationToken": alone("renew_delegation_token", "RenewDelegationTokenResponse", expiry_timestamp_ms=int),
    "ExpireDelegationToken": alone("expire_delegation_token", "ExpireDelegationTokenResponse", expiry_timestamp_ms=int),
    "DescribeDelegationToken": alone("describe_delegation_token", "DescribeDelegationTokenResponse", tokens=list),
    "DescribeUserScramCredentials": _describe_user_scram_credentials,
    "AlterUserScramCredentials": _alter_user_scram_credentials,
}
