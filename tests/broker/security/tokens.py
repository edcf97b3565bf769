"""Brokers with delegation tokens and their clients, without sockets."""

from typing import Any

from minibroker.security.principals import USER, Principal
from minibroker.server.handlers.delegation_tokens import create_delegation_token as create_token
from minibroker.server.requests.call import Call
from minibroker_protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tests.broker.harness import Harness

SECRET = {"delegation.token.secret.key": "a secret of the cluster"}
DAY_MS = 24 * 3_600_000


def call_of(harness: Harness, user: str = "alice", *, protocol: str = "SASL_SSL", version: int = 3) -> Call:
    """Return a request of a user, after all earlier requests."""
    harness.run_soon()
    session = harness.session(principal=Principal(USER, user), protocol=protocol)
    return Call(harness.core, harness.services, version, "test", session)


def create(harness: Harness, *renewers: str, call: Call | None = None, **fields: Any) -> CreateDelegationTokenResponse:
    """Create a token of alice or of the caller."""
    given: dict[str, Any] = {"max_lifetime_ms": -1, **fields}
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=USER, principal_name=name) for name in renewers], **given
    )
    response = create_token(request, call or call_of(harness))
    assert isinstance(response, CreateDelegationTokenResponse)
    return response
