"""Delegation tokens (KIP-48, KIP-373): user names and passwords that the broker creates on a client's request.

They are stored in the section "tokens" of the cluster's metadata. The password of a token is the HMAC of its id, with
`delegation.token.secret.key` as the key. With id and password, a client logs in by SCRAM as the token's owner. The
rules are those of `DelegationTokenControlManager`. Whenever a token is changed, all expired tokens are removed.
"""

import base64
import hmac
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from minibroker.security.principals import Principal
from minibroker.security.sasl.scram import ScramAccount, derive_credential

if TYPE_CHECKING:
    from minibroker.cluster.core import Core

_SECTION: Final = "tokens"
_ID_BYTES: Final = 16


class DelegationToken(NamedTuple):
    """A delegation token. Times are in milliseconds since the epoch.

    Attributes:
        owner: The user that clients log in as with the token.
        requester: The user that requested the token, possibly for another owner.
        renewers: Other users that are allowed to renew and expire the token.
        expires_ms: The expiry time, which renewals can extend up to `max_ms`.
    """

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @classmethod
    def read(cls, value: dict[str, Any]) -> Self:
        """Return a token from its stored form."""
        owner, requester = Principal(*value["owner"]), Principal(*value["requester"])
        renewers = tuple(Principal(*renewer) for renewer in value["renewers"])
        return cls(value["id"], owner, requester, renewers, value["issued_ms"], value["expires_ms"], value["max_ms"])

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Return whether the principal may renew the token, as its owner or a renewer."""
        return principal == self.owner or principal in self.renewers

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the token has expired."""
        return self.expires_ms < now_ms or self.max_ms < now_ms


class DelegationTokens:
    """The delegation tokens of a cluster. Without a secret key, tokens are disabled (`is_enabled` is False)."""

    def __init__(self, core: "Core") -> None:
        self._metadata = core.metadata
        self._clock = core.clock
        older = core.config.optional_text("delegation.token.master.key")
        secret = core.config.optional_text("delegation.token.secret.key") or older
        self._secret = (secret or "").encode()
        self.is_enabled = bool(secret)
        self._max_lifetime_ms = core.config.integer("delegation.token.max.lifetime.ms")
        self._renewal_ms = core.config.integer("delegation.token.expiry.time.ms")
        self._section: list[dict[str, Any]] | None = None
        self._rows: dict[str, dict[str, Any]] = {}
        self._tokens: dict[str, DelegationToken] = {}
        self._by_hmac: dict[bytes, str] = {}

    def all(self) -> list[DelegationToken]:
        """Return the tokens that have not expired."""
        now_ms = self._clock.now_ms()
        return [token for token in self._load_tokens().values() if not token.is_expired(now_ms)]

    def _load_tokens(self) -> dict[str, DelegationToken]:
        """Return all stored tokens by id. They are loaded again if the section was replaced elsewhere."""
        section = self._metadata.read(_SECTION)
        if section is not self._section:
            self._section = section
            self._rows = {row["id"]: row for row in section or ()}
            self._tokens = {id_: DelegationToken.read(row) for id_, row in self._rows.items()}
            self._by_hmac = {self.hmac_of(token): id_ for id_, token in self._tokens.items()}
        return self._tokens

    def create(
        self, owner: Principal, requester: Principal, renewers: Iterable[Principal], max_lifetime_ms: int
    ) -> DelegationToken:
        """Create and store a token. A lifetime of 0 or less means the longest allowed.

        Raises:
            OSError: The metadata cannot be written.
        """
        now_ms = self._clock.now_ms()
        lifetime_ms = min(self._max_lifetime_ms, max_lifetime_ms) if max_lifetime_ms > 0 else self._max_lifetime_ms
        max_ms = now_ms + lifetime_ms
        expires_ms = min(max_ms, now_ms + self._renewal_ms)
        id_ = secrets.token_urlsafe(_ID_BYTES)
        token = DelegationToken(id_, owner, requester, tuple(renewers), now_ms, expires_ms, max_ms)
        self._store(token)
        return token

    def hmac_of(self, token: DelegationToken) -> bytes:
        """Return the HMAC that proves possession of the token."""
        return hmac.digest(self._secret, token.id.encode(), "sha512")

    def with_hmac(self, proof: bytes) -> DelegationToken | None:
        """Return the stored token with this HMAC, even if it has expired, or None."""
        tokens = self._load_tokens()
        id_ = self._by_hmac.get(proof)
        return None if id_ is None else tokens[id_]

    def renew(self, token: DelegationToken, period_ms: int) -> DelegationToken:
        """Extend a token's lifetime by a period. If the period is 0 or less, the default period is used.

        Raises:
            OSError: The metadata cannot be written.
        """
        period_ms = min(self._renewal_ms, period_ms) if period_ms > 0 else self._renewal_ms
        return self._set_expiry(token, self._clock.now_ms() + period_ms)

    def expire(self, token: DelegationToken, period_ms: int) -> DelegationToken | None:
        """Set a token to expire after a period. If the period is negative, remove the token and return None.

        Raises:
            OSError: The metadata cannot be written.
        """
        if period_ms < 0:
            self._store(token, is_gone=True)
            return None
        return self._set_expiry(token, self._clock.now_ms() + period_ms)

    def is_expired(self, token: DelegationToken) -> bool:
        """Return whether the token has expired."""
        return token.is_expired(self._clock.now_ms())

    def account(self, mechanism: str, name: str) -> ScramAccount | None:
        """Return the account for a SCRAM login with a token. The password is the token's HMAC in base64."""
        token = self._load_tokens().get(name)
        if token is None or not self.is_enabled or self.is_expired(token):
            return None
        password = base64.b64encode(self.hmac_of(token)).decode()
        return ScramAccount(derive_credential(mechanism, password), token.owner.name, token.expires_ms)

    def _set_expiry(self, token: DelegationToken, at_ms: int) -> DelegationToken:
        changed = token._replace(expires_ms=min(token.max_ms, at_ms))
        self._store(changed)
        return changed

    def _store(self, token: DelegationToken, *, is_gone: bool = False) -> None:
        """Store a token or remove it, and remove all expired tokens.

        Raises:
            OSError: The metadata cannot be written. Nothing has changed.
        """
        self._load_tokens()
        now_ms = self._clock.now_ms()
        rows = {**self._rows, token.id: token._asdict()}
        removed_ids = [id_ for id_, kept in self._tokens.items() if kept.is_expired(now_ms)]
        if is_gone:
            removed_ids.append(token.id)
        for id_ in removed_ids:
            rows.pop(id_, None)
        section = list(rows.values()) or None
        self._metadata.write(_SECTION, section)
        self._section, self._rows = section, rows
        for id_ in removed_ids:
            if id_ in self._tokens:
                del self._by_hmac[self.hmac_of(self._tokens.pop(id_))]
        if token.id in rows:
            self._tokens[token.id] = token
            self._by_hmac[self.hmac_of(token)] = token.id
