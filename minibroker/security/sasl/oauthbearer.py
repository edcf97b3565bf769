"""OAUTHBEARER (RFC 7628, KIP-255): the client sends a token, in which an issuer names the user.

The messages are those of Kafka's `OAuthBearerSaslServer`. Two validators check the tokens:

- `signed_validator` accepts JWTs signed by an identity provider, and verifies them with its public keys (JWKS), from a
  file or its endpoint. The rules are those of Kafka's `OAuthBearerValidatorCallbackHandler`: a signature by one of the
  keys, `exp` and `iat`, and the audience and issuer, if configured. PyJWT fetches keys and verifies signatures.
- `unsecured_validator` accepts unsigned tokens, for tests. With such a token a client can claim to be any user. The
  rules and options are those of Kafka's default, `OAuthBearerUnsecuredValidatorCallbackHandler`.
"""

import base64
import binascii
import json
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from types import ModuleType
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from minibroker.security.sasl.mechanism import OAUTHBEARER, SASL_NAME, SaslAuthenticationError, SaslError, SaslServer
from minibroker_storage.installation_hints import missing_extra

_logger: Final = logging.getLogger(__name__)
_SEPARATOR: Final = "\x01"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01){{0,100}})\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_MS: Final = 1000

Claims = Mapping[str, Any]


class BearerToken(NamedTuple):
    """A valid token: its principal, and its expiry time in milliseconds since the epoch."""

    principal: str
    expires_ms: int


class TokenError(Exception):
    """An invalid token. The message is for the broker's own log.

    Attributes:
        scope: The required scope, if the token lacks it.
    """

    def __init__(self, reason: str, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


Validate = Callable[[str], BearerToken]
"""Checks a token as received, and raises TokenError if it is invalid."""


class OAuthBearerServer(SaslServer):
    """An OAUTHBEARER exchange. If the token is invalid, the client gets an error message that it must acknowledge."""

    mechanism = OAUTHBEARER

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._error: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Validate a token. If an error was sent before, fail after the client's acknowledgement.

        Kafka instead accepts any number of further tokens after an error.
        """
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
            bearer = self._validate(auth["token"])
        except TokenError as error:
            self._error = '{"status":"invalid_token"}'
            if error.scope is not None:
                self._error = f'{{"status":"insufficient_scope", "scope":"{error.scope}"}}'
            return self._error.encode()
        authorization_id = match["authorization_id"]
        if authorization_id and authorization_id != bearer.principal:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({bearer.principal})"
            )
        self.user, self.expires_ms = bearer
        return b""


def bearer_token(claims: Claims, principal_claim: str, now_ms: int, skew_ms: int) -> BearerToken:
    """Return the token described by the claims if they are valid now (`OAuthBearerValidationUtils`).

    Raises:
        TokenError: A claim is missing or invalid, or the token has expired.
    """
    principal = claims.get(principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise TokenError(f"the claim {principal_claim} is not a name")
    expires, issued = _read_time(claims, "exp"), _read_time(claims, "iat")
    if expires is None:
        raise TokenError("the claim exp is missing")
    if issued is not None and issued * _MS > now_ms + skew_ms:
        raise TokenError("the token was issued in the future")
    if now_ms - skew_ms >= expires * _MS:
        raise TokenError("the token has expired")
    if issued is not None and expires <= issued:
        raise TokenError("the token ends before it begins")
    return BearerToken(principal.strip(), int(expires * _MS))


def _read_time(claims: Claims, name: str) -> float | None:
    """Return the value of a time claim.

    Raises:
        TokenError: The claim is not a time.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1 << 53:
        raise TokenError(f"the claim {name} is not a time")
    return value


def scopes_of(claims: Claims, name: str) -> list[str]:
    """Return the scopes in a claim. The claim is a list of strings, or one string with spaces between the scopes.

    Raises:
        TokenError: The claim has another type.
    """
    value: Any = claims.get(name)
    if value is None:
        return []
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        elements = cast("list[object]", value)
        if all(isinstance(scope, str) for scope in elements):
            return [scope for element in elements if (scope := str(element).strip())]
    raise TokenError(f"the claim {name} is neither a text nor a list of texts")


_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_NOT_KEYS: Final = (ValueError, TypeError, AttributeError, RecursionError)
"""What PyJWT lets through where JSON is no set of keys."""
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric algorithms only: otherwise a public key could be used as a shared secret."""


class TokenRules(NamedTuple):
    """The rules for a token, from the keys `sasl.oauthbearer.*`.

    Attributes:
        jwks_url: The `file:`, `http:` or `https:` URL of a JSON Web Key Set (RFC 7517).
        audiences: `aud` must contain one of these. If empty, any audience is accepted, as any issuer is if `issuer`
            is None.
    """

    jwks_url: str
    audiences: Sequence[str] = ()
    issuer: str | None = None
    scope_claim: str = "scope"
    principal_claim: str = "sub"
    clock_skew_seconds: int = 30
    refresh_ms: int = 3_600_000


def signed_validator(rules: TokenRules, now_ms: Callable[[], int]) -> Validate:
    """Return a validator for signed tokens. The keys are read now, not at the first login.

    Raises:
        ValueError: The file or endpoint has no usable keys, or the endpoint does not answer.
        OSError: The file cannot be read.
    """
    try:
        import jwt  # noqa: PLC0415 - only signed tokens need it
    except ImportError:
        raise missing_extra("OAUTHBEARER with signed tokens", "pyjwt") from None
    if urlsplit(rules.jwks_url).scheme in {"http", "https"}:
        keys_for = _Endpoint(jwt, rules, now_ms).keys_for
    else:
        keys = _load_keys(jwt, rules.jwks_url)

        def keys_for(_kid: str | None, /) -> Sequence[Any]:
            return keys

    def validate(token: str) -> BearerToken:
        claims = _verify_signature(jwt, keys_for, token, rules)
        if claims.get("iat") is None:
            raise TokenError("the claim iat is missing")
        scopes_of(claims, rules.scope_claim)
        skew_ms = rules.clock_skew_seconds * 1000
        begins = claims.get("nbf")
        if isinstance(begins, int | float) and begins * 1000 > now_ms() + skew_ms:
            raise TokenError("the token is not valid yet")
        return bearer_token(claims, rules.principal_claim, now_ms(), skew_ms)

    return validate


class _Endpoint:
    """The keys at a URL, as Kafka's `RefreshingHttpsJwks` keeps them.

    A thread fetches them again when a login finds them too old, names a key that is not among them, or comes after a
    fetch that has failed. If the login fails for that, the client's next one may succeed.
    """

    _COOLDOWN_MS: Final = 10_000
    """How long keys are kept at least, whatever keys logins name."""
    _TIMEOUT_S: Final = 10

    def __init__(self, jwt: ModuleType, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._jwt, self._rules, self._now_ms = jwt, rules, now_ms
        self._client = jwt.PyJWKClient(rules.jwks_url, cache_jwk_set=False, timeout=self._TIMEOUT_S)
        self._asked_ms = now_ms()
        self._has_failed = False
        self._keys = self._fetch()

    def keys_for(self, kid: str | None, /) -> Sequence[Any]:
        now_ms = self._now_ms()
        age_ms = abs(now_ms - self._asked_ms)  # The broker's clock can be set back.
        is_wanted = self._has_failed or (kid is not None and all(key.key_id != kid for key in self._keys))
        if age_ms >= (min(self._COOLDOWN_MS, self._rules.refresh_ms) if is_wanted else self._rules.refresh_ms):
            self._asked_ms = now_ms
            threading.Thread(target=self._refresh, daemon=True).start()
        return self._keys

    def _refresh(self) -> None:
        try:
            self._keys = self._fetch()
            self._has_failed = False
        except ValueError as error:
            self._has_failed = True
            _logger.warning("%s", error)

    def _fetch(self) -> list[Any]:
        try:
            return list(self._client.get_jwk_set().keys)
        except (self._jwt.PyJWTError, HTTPException, OSError, *_NOT_KEYS) as error:
            raise ValueError(f"{_URL}: {self._rules.jwks_url} gives no keys that can be used: {error}") from None


def _load_keys(jwt: ModuleType, url: str) -> list[Any]:
    split_url = urlsplit(url)
    if split_url.scheme != "file":
        raise ValueError(f"{_URL}: {url!r} is not supported: it must begin with file:, http: or https:")
    with open(url2pathname(split_url.path), "rb") as file:
        try:
            return list(jwt.PyJWKSet.from_dict(json.load(file)).keys)
        except (jwt.PyJWTError, *_NOT_KEYS) as error:
            raise ValueError(f"{_URL}: {split_url.path} holds no keys that can be used: {error}") from None


def _verify_signature(
    jwt: ModuleType, keys_for: Callable[[str | None], Sequence[Any]], token: str, rules: TokenRules
) -> dict[str, Any]:
    """Return the claims of a token with a valid signature. Times are checked later, with the broker's own clock.

    Raises:
        TokenError: The token is not a JWT, or no key verifies its signature.
    """
    by_ourselves = ("verify_exp", "verify_iat", "verify_nbf", "verify_sub", "verify_jti")
    options = {**dict.fromkeys(by_ourselves, False), "verify_aud": bool(rules.audiences)}
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, RecursionError) as error:
        raise TokenError(f"the token is not a JWT: {error}") from None
    reason = f"there is no key {kid!r}"
    for key in keys_for(kid):
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


_OPTION: Final = "unsecuredValidator"
_SECTIONS: Final = 3


def unsecured_validator(options: Mapping[str, str], now_ms: Callable[[], int]) -> Validate:
    """Return a validator with the options of an `OAuthBearerLoginModule`.

    Raises:
        ValueError: An option is invalid.
    """
    principal_claim = options.get(f"{_OPTION}PrincipalClaimName", "").strip() or "sub"
    scope_claim = options.get(f"{_OPTION}ScopeClaimName", "").strip() or "scope"
    required = options.get(f"{_OPTION}RequiredScope", "").split()
    skew = options.get(f"{_OPTION}AllowableClockSkewMs", "").strip() or "0"
    if not re.fullmatch(r"\d{1,9}", skew, re.ASCII):
        raise ValueError(f"{_OPTION}AllowableClockSkewMs: {skew!r} is not a number of milliseconds")
    skew_ms = int(skew)

    def validate(token: str) -> BearerToken:
        claims = _parse_unsecured(token)
        validated = bearer_token(claims, principal_claim, now_ms(), skew_ms)
        scopes = scopes_of(claims, scope_claim)
        if any(scope not in scopes for scope in required):
            raise TokenError(f"the scope {scopes} lacks one of {required}", scope=f"[{', '.join(required)}]")
        return validated

    return validate


def _parse_unsecured(token: str) -> dict[str, Any]:
    """Return the claims of an unsecured JWS (RFC 7515, section 3.1; RFC 7519, section 6.1).

    Raises:
        TokenError: The token is anything else.
    """
    sections = token.split(".")
    if len(sections) != _SECTIONS or sections[2]:
        raise TokenError("the token is not an unsecured JWS: it has a signature")
    if _parse_section(sections[0]).get("alg") != "none":
        raise TokenError("the token is not an unsecured JWS: its algorithm is not none")
    return _parse_section(sections[1])


def _parse_section(section: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(base64.b64decode(section + "=" * (-len(section) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenError("the token is not a JWS") from None
    if not isinstance(value, dict):
        raise TokenError("the token is not a JWS")
    return cast("dict[str, Any]", value)
