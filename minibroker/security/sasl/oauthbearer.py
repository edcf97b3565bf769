"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token, in which an issuer names its user.

The messages are those of Kafka's `OAuthBearerSaslServer`; what a token has to be is for the validators to say:
`unsecured_tokens` and `signed_tokens`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from minibroker.security.sasl.mechanism import OAUTHBEARER, SASL_NAME, SaslAuthenticationError, SaslError, SaslServer

_SEPARATOR: Final = "\x01"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<wanted>{SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01){{0,100}})\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_MS: Final = 1000

Claims = Mapping[str, Any]


class BearerToken(NamedTuple):
    """A token that was found good: whose it is, and when it ends (milliseconds since the epoch)."""

    principal: str
    expires_ms: int


class TokenError(Exception):
    """A token that is not good; the message is for the broker's own log. `scope` is what the token should have had."""

    def __init__(self, reason: str, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


Validate = Callable[[str], BearerToken]
"""Checks a token as it came. TokenError."""


class OAuthBearerServer(SaslServer):
    """One exchange: one message with a token; when it is no good, an error that the client has to confirm."""

    mechanism = OAUTHBEARER

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._error: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Take the token, or the confirmation of an error. Kafka takes other tokens then, without an end."""
        if self._error is not None:
            raise SaslAuthenticationError(self._error)
        match = _FIRST.fullmatch(token.decode(errors="replace"))
        if match is None:
            raise SaslError("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split(_SEPARATOR) if pair)
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None or auth["scheme"].lower() != "bearer":
            raise SaslError("Invalid OAUTHBEARER client first message: it has no bearer token")
        try:
            found = self._validate(auth["token"])
        except TokenError as error:
            self._error = _refusal(error.scope)
            return self._error.encode()
        if match["wanted"] and match["wanted"] != found.principal:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({match['wanted']}) that is different "
                f"from the token's principal name ({found.principal})"
            )
        self.user, self.expires_ms = found
        return b""


def _refusal(scope: str | None) -> str:
    if scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{scope}"}}'


def bearer_token(claims: Claims, principal_claim: str, now_ms: int, skew_ms: int) -> BearerToken:
    """The token that the claims stand for, if they are valid now (`OAuthBearerValidationUtils`). TokenError."""
    principal = claims.get(principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise TokenError(f"the claim {principal_claim} is not a name")
    expires, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires is None:
        raise TokenError("the claim exp is missing")
    if issued is not None and issued * _MS > now_ms + skew_ms:
        raise TokenError("the token was issued in the future")
    if now_ms - skew_ms >= expires * _MS:
        raise TokenError("the token has expired")
    if issued is not None and expires <= issued:
        raise TokenError("the token ends before it begins")
    return BearerToken(principal.strip(), int(expires * _MS))


def _seconds(claims: Claims, name: str) -> float | None:
    """A claim that is a time. TokenError for something else."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1 << 53:
        raise TokenError(f"the claim {name} is not a time")
    return value


def scopes_of(claims: Claims, name: str) -> list[str]:
    """The scopes of a claim: a text with blanks in between, or a list of texts. TokenError for something else."""
    value: Any = claims.get(name)
    if value is None:
        return []
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        words = cast("list[object]", value)
        if all(isinstance(each, str) for each in words):
            return [each for each in (str(word).strip() for word in words) if each]
    raise TokenError(f"the claim {name} is neither a text nor a list of texts")
