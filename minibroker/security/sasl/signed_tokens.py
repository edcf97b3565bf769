"""Tokens that an identity provider has signed: JWTs, checked with the public keys of a JWKS file.

The rules are those of Kafka's `OAuthBearerValidatorCallbackHandler` with a `file:` URL: a signature by one of the keys,
`exp` and `iat`, and an audience and an issuer where some are expected. Signatures are PyJWT's to judge.
"""

import json
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from minibroker.security.missing_extra import missing_extra
from minibroker.security.sasl.oauthbearer import BearerToken, TokenError, Validate, bearer_token, scopes_of

_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_ALGORITHMS: Final = (
    *(f"{kind}{size}" for kind in ("RS", "PS") for size in (256, 384, 512)),
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Of signatures that only the holder of a private key can make; a public key must not pass for a shared secret."""


class TokenRules(NamedTuple):
    """The rules for a token, by the keys `sasl.oauthbearer.*`.

    Attributes:
        jwks_url: `file:` and the path of a JSON Web Key Set (RFC 7517).
        audiences: one of them has to be in `aud`; empty for any, as with None for `issuer`.
    """

    jwks_url: str
    audiences: Sequence[str] = ()
    issuer: str | None = None
    scope_claim: str = "scope"
    principal_claim: str = "sub"
    clock_skew_seconds: int = 30


def signed_validator(rules: TokenRules, now_ms: Callable[[], int]) -> Validate:
    """A validator; the keys are read now. ValueError for a file that holds none, OSError if it cannot be read."""
    try:
        import jwt  # noqa: PLC0415 - only signed tokens need it
    except ImportError:
        raise missing_extra("OAUTHBEARER with signed tokens", "pyjwt") from None
    keys = _keys(jwt, rules.jwks_url)

    def validate(token: str) -> BearerToken:
        claims = _claims(jwt, keys, token, rules)
        if claims.get("iat") is None:
            raise TokenError("the claim iat is missing")
        scopes_of(claims, rules.scope_claim)
        skew_ms = rules.clock_skew_seconds * 1000
        begins = claims.get("nbf")
        if isinstance(begins, int | float) and begins * 1000 > now_ms() + skew_ms:
            raise TokenError("the token is not valid yet")
        return bearer_token(claims, rules.principal_claim, now_ms(), skew_ms)

    return validate


def _keys(jwt: ModuleType, url: str) -> list[Any]:
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise ValueError(f"{_URL}: {url!r} is not supported: it must be a file, such as file:///etc/kafka/jwks.json")
    with open(url2pathname(parts.path), "rb") as file:
        try:
            return list(jwt.PyJWKSet.from_dict(json.load(file)).keys)
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{_URL}: {parts.path} holds no keys that can be used: {error}") from None


def _claims(jwt: ModuleType, keys: Sequence[Any], token: str, rules: TokenRules) -> dict[str, Any]:
    """The claims of a token with a good signature; when it counts the broker's own clock decides. TokenError."""
    by_ourselves = ("verify_exp", "verify_iat", "verify_nbf", "verify_sub", "verify_jti")
    options = {**dict.fromkeys(by_ourselves, False), "verify_aud": bool(rules.audiences)}
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, RecursionError) as error:
        raise TokenError(f"the token is not a JWT: {error}") from None
    reason = f"there is no key {kid!r}"
    for key in keys:
        if kid is not None and key.key_id != kid:
            continue
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name] if key.algorithm_name in _ALGORITHMS else [],
                audience=list(rules.audiences) or None,
                issuer=rules.issuer,
                options=options,
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            reason = str(error)
        else:
            return claims
    raise TokenError(reason)
