"""Unsigned tokens, for tests: a client may claim to be any user.

The rules and their options are those of Kafka's default, `OAuthBearerUnsecuredValidatorCallbackHandler`.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from minibroker.security.sasl.oauthbearer import BearerToken, TokenError, Validate, bearer_token, scopes_of

_OPTION: Final = "unsecuredValidator"
_SECTIONS: Final = 3


def unsecured_validator(options: Mapping[str, str], now_ms: Callable[[], int]) -> Validate:
    """A validator with the options of an `OAuthBearerLoginModule`. ValueError for one that is not allowed."""
    principal_claim = options.get(f"{_OPTION}PrincipalClaimName", "").strip() or "sub"
    scope_claim = options.get(f"{_OPTION}ScopeClaimName", "").strip() or "scope"
    required = options.get(f"{_OPTION}RequiredScope", "").split()
    skew = options.get(f"{_OPTION}AllowableClockSkewMs", "").strip() or "0"
    if not re.fullmatch(r"\d{1,9}", skew, re.ASCII):
        raise ValueError(f"{_OPTION}AllowableClockSkewMs: {skew!r} is not a number of milliseconds")
    skew_ms = int(skew)

    def validate(token: str) -> BearerToken:
        claims = _claims(token)
        found = bearer_token(claims, principal_claim, now_ms(), skew_ms)
        scopes = scopes_of(claims, scope_claim)
        if any(each not in scopes for each in required):
            raise TokenError(f"the scope {scopes} lacks one of {required}", scope=f"[{', '.join(required)}]")
        return found

    return validate


def _claims(token: str) -> dict[str, Any]:
    """The claims of an unsecured JWS (RFC 7515, section 3.1; RFC 7519, section 6.1). TokenError for any other one."""
    sections = token.split(".")
    if len(sections) != _SECTIONS or sections[2]:
        raise TokenError("the token is not an unsecured JWS: it has a signature")
    if _object(sections[0]).get("alg") != "none":
        raise TokenError("the token is not an unsecured JWS: its algorithm is not none")
    return _object(sections[1])


def _object(section: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(base64.b64decode(section + "=" * (-len(section) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenError("the token is not a JWS") from None
    if not isinstance(value, dict):
        raise TokenError("the token is not a JWS")
    return cast("dict[str, Any]", value)
