"""DescribeUserScramCredentials: the mechanisms for which users have SCRAM credentials, with iterations (KIP-554).

Version 0. Null or an empty list asks for all users that have any. A user that has none is RESOURCE_NOT_FOUND, one
that is named twice DUPLICATE_RESOURCE. Users that are written in a `sasl.jaas.config` are not returned.
"""

from collections import Counter
from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.security.sasl.scram import NUMBERS
from minibroker.security.sasl.scram_credentials import ScramCredentials
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

NEEDS: Final = on_cluster(Operation.DESCRIBE)


def handle(request: DescribeUserScramCredentialsRequest, call: Call) -> DescribeUserScramCredentialsResponse:
    """Return the credentials."""
    stored = call.services.security.scram
    named = Counter(each.name for each in request.users or ()) or dict.fromkeys(stored.users(), 1)
    results = [_result(stored, user, times) for user, times in named.items()]
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, error_message="", results=results)


def refuse(
    request: DescribeUserScramCredentialsRequest, _version: int, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    """Kafka adds a result without a name for each user."""
    results = [
        DescribeUserScramCredentialsResult(user="", error_code=code, error_message=None, credential_infos=[])
        for _ in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=results)


def _result(stored: ScramCredentials, user: str, times: int) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.NONE, None
    infos: list[CredentialInfo] = []
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    else:
        infos = [
            CredentialInfo(mechanism=NUMBERS[name], iterations=each.iterations)
            for name, each in stored.of_user(user).items()
        ]
        if not infos:
            code = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message, credential_infos=infos)
