"""Handlers for the SCRAM credentials of users (KIP-554)."""

from collections import Counter
from typing import Final

from minibroker.cluster.features import METADATA_VERSION
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.topic_admin import MAX_RECORDS
from minibroker.security.authorization.acls import Operation
from minibroker.security.sasl import scram as scram_mechanisms
from minibroker.security.sasl.scram import (
    MAX_ITERATIONS,
    MECHANISM_NUMBERS,
    MIN_ITERATIONS,
    ScramCredential,
    derive_salted_credential,
)
from minibroker.security.store import ScramCredentials
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, needs=on_cluster(Operation.DESCRIBE), refusal=Refusal(everywhere=True))
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials: return the SCRAM mechanisms and iterations of users (KIP-554).

    Version 0 is served. A null or empty list selects all users with credentials. Users from a `sasl.jaas.config` are
    not returned. A user without credentials gets RESOURCE_NOT_FOUND, and a repeated user gets DUPLICATE_RESOURCE.
    """
    stored = call.services.security.scram
    counts = Counter(requested.name for requested in request.users or ()) or dict.fromkeys(stored.users(), 1)
    results = [_describe_user(stored, user, count) for user, count in counts.items()]
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, error_message="", results=results)


def _describe_user(stored: ScramCredentials, user: str, count: int) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.NONE, None
    infos: list[CredentialInfo] = []
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    else:
        infos = [
            CredentialInfo(mechanism=MECHANISM_NUMBERS[name], iterations=credential.iterations)
            for name, credential in stored.of_user(user).items()
        ]
        if not infos:
            code = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message, credential_infos=infos)


_Change = ScramCredentialDeletion | ScramCredentialUpsertion
_Refusal = tuple[ErrorCode, str | None]
_MAX_SALT_BYTES: Final = 1 << 16
_FIRST_LEVEL_WITH_SCRAM: Final = 11
"""The first level of metadata.version with SCRAM credentials, 3.5-IV2."""
_UNSUPPORTED: _Refusal = (ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
_REPEATED: _Refusal = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def _refuse_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, _version: int, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    """Refuse a request with one error per user, even if a user has several changes."""
    users = dict.fromkeys(
        [*(change.name for change in request.deletions), *(change.name for change in request.upsertions)]
    )
    results = [AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None) for user in users]
    return AlterUserScramCredentialsResponse(results=results)


@handles(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    needs=on_cluster(Operation.ALTER),
    refusal=Refusal(whole=_refuse_alter_user_scram_credentials),
)
def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse | DelayedResponse:
    """AlterUserScramCredentials: store and remove SCRAM credentials, which never contain passwords (KIP-554).

    Version 0 is served. The rules are those of `ScramControlManager`. An error for one user does not affect the
    other users.

    Error codes:

    - DUPLICATE_RESOURCE: a user is repeated.
    - UNACCEPTABLE_CREDENTIAL: the name is empty, or the iterations are not between 4096 and 16384. Unlike in Kafka,
      it is also returned for a salt or salted password of more than 65,536 bytes.
    - UNSUPPORTED_SASL_MECHANISM: the mechanism is unknown.
    - RESOURCE_NOT_FOUND: the credential to remove does not exist.
    - UNSUPPORTED_VERSION: metadata.version is lower than 3.5-IV2, the version that added credentials.
    - UNKNOWN_SERVER_ERROR: the request has more than 10,000 changes. Kafka refuses more than 10,000 records.
    """
    if len(request.deletions) + len(request.upsertions) > MAX_RECORDS:
        raise RefusedRequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    stored, features = call.services.security.scram, call.services.core.features
    has_scram = (
        METADATA_VERSION not in features.supported or features.level(METADATA_VERSION) >= _FIRST_LEVEL_WITH_SCRAM
    )
    refused: dict[str, _Refusal] = {}
    changes: dict[str, tuple[str, ScramCredential | None]] = {}
    alterations: list[_Change] = [*request.deletions, *request.upsertions]
    for change in alterations:
        if change.name in refused:
            continue
        if change.name in changes:
            refusal: _Refusal | None = _REPEATED
        else:
            refusal = _find_refusal(change, stored) if has_scram else _UNSUPPORTED
        if refusal is None:
            changes[change.name] = scram_mechanisms.MECHANISM_NAMES[change.mechanism], _derive_credential(change)
        else:
            refused[change.name] = refusal
            changes.pop(change.name, None)
    try:
        stored.alter({(mechanism, user): credential for user, (mechanism, credential) in changes.items()})
    except OSError as error:
        refused |= dict.fromkeys(changes, (ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        changes.clear()
    outcomes = dict.fromkeys(changes, (ErrorCode.NONE, None)) | refused
    results = [
        AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
        for user, (code, message) in outcomes.items()
    ]
    return hold(AlterUserScramCredentialsResponse(results=results), request, call)


def _find_refusal(change: _Change, stored: ScramCredentials) -> _Refusal | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    mechanism = scram_mechanisms.MECHANISM_NAMES.get(change.mechanism)
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramCredentialDeletion):
        if stored.find(mechanism, change.name) is None:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    return _upsertion_refusal(change)


def _upsertion_refusal(change: ScramCredentialUpsertion) -> _Refusal | None:
    if change.iterations < MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if change.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not change.salted_password:
        return ErrorCode.UNKNOWN_SERVER_ERROR, None  # Kafka fails with this error on an empty salted password.
    if max(len(change.salt), len(change.salted_password)) > _MAX_SALT_BYTES:
        return (
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"The salt or the salted password has more than {_MAX_SALT_BYTES} bytes",
        )
    return None


def _derive_credential(change: _Change) -> ScramCredential | None:
    if isinstance(change, ScramCredentialDeletion):
        return None
    salted, salt = bytes(change.salted_password), bytes(change.salt)
    return derive_salted_credential(scram_mechanisms.MECHANISM_NAMES[change.mechanism], salted, salt, change.iterations)
