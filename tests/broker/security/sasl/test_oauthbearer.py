"""OAUTHBEARER without a connection, with unsigned and signed tokens."""

import base64
import json
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm

from minibroker.clock import ManualClock
from minibroker.security.sasl.mechanism import SaslAuthenticationError, SaslError
from minibroker.security.sasl.oauthbearer import (
    OAuthBearerServer,
    TokenError,
    TokenRules,
    Validate,
    signed_validator,
    unsecured_validator,
)
from tests.patience import eventually

NOW_S = 1_700_000_000
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60, "scope": "read write"}
INVALID = b'{"status":"invalid_token"}'


def now_ms() -> int:
    return NOW_S * 1000


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


DEEP = base64.urlsafe_b64encode(b"[" * 30_000).decode()
"""JSON that is too deeply nested for any parser."""


def unsecured(claims: Any, header: Any = None) -> str:
    return f"{part({'alg': 'none'} if header is None else header)}.{part(claims)}."


def first(token: str, authorization_id: str = "", more: str = "") -> bytes:
    return f"n,{authorization_id},\x01auth=Bearer {token}\x01{more}\x01".encode()


def refusal(validate: Validate, token: str) -> bytes:
    """Return the response to a client whose token is invalid. The next message ends the exchange."""
    server = OAuthBearerServer(validate)
    challenge = server.evaluate(first(token))
    assert not server.is_complete
    with pytest.raises(SaslAuthenticationError) as error:
        server.evaluate(b"\x01")
    assert str(error.value).encode() == challenge
    return challenge


@pytest.fixture
def lax() -> Validate:
    return unsecured_validator({}, now_ms)


def test_a_token_says_who_the_client_is_and_for_how_long(lax: Validate) -> None:
    server = OAuthBearerServer(lax)
    assert server.evaluate(first(unsecured(CLAIMS), more="logicalCluster=x\x01")) == b""
    assert (server.user, server.expires_ms) == ("alice", (NOW_S + 60) * 1000)
    assert OAuthBearerServer(lax).evaluate(first(unsecured(CLAIMS), authorization_id="a=alice")) == b""
    with pytest.raises(SaslAuthenticationError, match="different from the token's principal name"):
        OAuthBearerServer(lax).evaluate(first(unsecured(CLAIMS), authorization_id="a=bob"))


@pytest.mark.parametrize(
    "claims",
    [
        {**CLAIMS, "sub": 5},
        {**CLAIMS, "sub": " "},
        {"sub": "alice"},
        {**CLAIMS, "exp": NOW_S},
        {**CLAIMS, "exp": "soon"},
        {**CLAIMS, "exp": True},
        {**CLAIMS, "exp": 1e300},
        {**CLAIMS, "iat": NOW_S + 10},
        {**CLAIMS, "iat": NOW_S - 1, "exp": NOW_S - 1},
        {**CLAIMS, "scope": 5},
        [],
        "text",
    ],
)
def test_claims_that_do_not_count_now_are_refused(lax: Validate, claims: Any) -> None:
    assert refusal(lax, unsecured(claims)) == INVALID


@pytest.mark.parametrize(
    "token",
    [
        *("a", "a.b", "a.b.c", "....", "YQ.YQ.", f"{DEEP}.{part(CLAIMS)}.", f"{part({'alg': 'none'})}.{DEEP}."),
        *(unsecured(CLAIMS, {"alg": "HS256"}), unsecured(CLAIMS) + "c2ln"),
    ],
)
def test_what_is_no_unsecured_token_is_refused(lax: Validate, token: str) -> None:
    assert refusal(lax, token) == INVALID


def test_the_options_of_the_login_module_count() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "who",
        "unsecuredValidatorScopeClaimName": "may",
        "unsecuredValidatorRequiredScope": "read write",
        "unsecuredValidatorAllowableClockSkewMs": "5000",
    }
    validate = unsecured_validator(options, now_ms)
    claims: dict[str, Any] = {"who": "bob", "exp": NOW_S - 4, "may": ["write", "read", "other"]}
    assert validate(unsecured(claims)).principal == "bob"
    assert refusal(validate, unsecured({**claims, "exp": NOW_S - 5})) == INVALID
    challenge = refusal(validate, unsecured({**claims, "may": "read"}))
    assert challenge == b'{"status":"insufficient_scope", "scope":"[read, write]"}'
    with pytest.raises(ValueError, match="AllowableClockSkewMs"):
        unsecured_validator({"unsecuredValidatorAllowableClockSkewMs": "-1"}, now_ms)


@pytest.mark.parametrize(
    "message",
    [b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Basic abc\x01\x01", b"n,,\x01auth=Bearer a b\x01\x01", b"\xff" * 9],
)
def test_a_message_of_another_form_is_refused(lax: Validate, message: bytes) -> None:
    with pytest.raises(SaslError, match="Invalid OAUTHBEARER"):
        OAuthBearerServer(lax).evaluate(message)


Sign = Callable[..., str]


@pytest.fixture
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def jwks(tmp_path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    path = tmp_path / "keys of ours.json"
    path.write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}]}))
    return path


def rules(jwks: Path, **fields: Any) -> TokenRules:
    return TokenRules(jwks.as_uri(), **fields)


def test_a_signed_token_says_who_the_client_is(jwks: Path, key: ec.EllipticCurvePrivateKey) -> None:
    validate = signed_validator(rules(jwks), now_ms)
    for headers in ({"kid": "one"}, None):
        assert validate(jwt.encode(CLAIMS, key, "ES256", headers)).principal == "alice"
    strict = signed_validator(rules(jwks, audiences=["kafka", "x"], issuer="us", principal_claim="who"), now_ms)
    claims = {**CLAIMS, "aud": ["kafka"], "iss": "us", "who": "carol"}
    assert strict(jwt.encode(claims, key, "ES256")).principal == "carol"
    for other in ({"aud": "others"}, {"iss": "them"}, {"aud": None}, {"who": None}):
        changed = {name: value for name, value in (claims | other).items() if value is not None}
        assert refusal(strict, jwt.encode(changed, key, "ES256")) == INVALID


@pytest.mark.parametrize(
    "change",
    [{"exp": NOW_S - 31}, {"exp": None}, {"iat": None}, {"iat": NOW_S + 31}, {"nbf": NOW_S + 31}, {"scope": {"a": 1}}],
)
def test_a_signed_token_that_does_not_count_now_is_refused(
    jwks: Path, key: ec.EllipticCurvePrivateKey, change: dict[str, Any]
) -> None:
    claims = {name: value for name, value in {**CLAIMS, **change}.items() if value is not None}
    assert refusal(signed_validator(rules(jwks), now_ms), jwt.encode(claims, key, "ES256")) == INVALID


def test_clocks_may_differ_by_the_skew(jwks: Path, key: ec.EllipticCurvePrivateKey) -> None:
    token = jwt.encode({**CLAIMS, "iat": NOW_S - 60, "exp": NOW_S - 29}, key, "ES256")
    assert signed_validator(rules(jwks), now_ms)(token).principal == "alice"
    assert refusal(signed_validator(rules(jwks, clock_skew_seconds=0), now_ms), token) == INVALID


def test_a_signature_of_nobody_or_of_somebody_else_is_refused(jwks: Path, key: ec.EllipticCurvePrivateKey) -> None:
    validate = signed_validator(rules(jwks), now_ms)
    good = jwt.encode(CLAIMS, key, "ES256", {"kid": "one"})
    other = ec.generate_private_key(ec.SECP256R1())
    public = jwks.read_bytes()
    head, _, signature = good.split(".")
    for token in (
        jwt.encode(CLAIMS, other, "ES256", {"kid": "one"}),
        jwt.encode(CLAIMS, key, "ES256", {"kid": "two"}),
        jwt.encode(CLAIMS, rsa.generate_private_key(65537, 2048), "RS256"),
        jwt.encode(CLAIMS, public[:64], "HS256"),  # A public key must not be used as a shared secret.
        unsecured(CLAIMS),
        f"{head}.{part({**CLAIMS, 'sub': 'admin'})}.{signature}",
        "a.b.c",
    ):
        assert refusal(validate, token) == INVALID


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "x"}]}', "\0"])
def test_a_file_without_keys_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"keys\.json holds no keys"):
        signed_validator(rules(path), now_ms)


def test_an_url_without_keys_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'ftp://idp\.test/keys' is not supported: it must begin with file:"):
        signed_validator(TokenRules("ftp://idp.test/keys"), now_ms)
    with pytest.raises(FileNotFoundError):
        signed_validator(rules(tmp_path / "missing.json"), now_ms)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ValueError, match=rf"http://127\.0\.0\.1:{port}/keys gives no keys that can be used"):
        signed_validator(TokenRules(f"http://127.0.0.1:{port}/keys"), now_ms)


class Provider:
    """The endpoint of an identity provider, which answers with a file."""

    def __init__(self, path: Path) -> None:
        self.requests = 0
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.requests += 1
                self.send_response(200 if path.exists() else 503)
                self.end_headers()
                self.wfile.write(path.read_bytes() if path.exists() else b"")

            def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the library's name
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def provider(jwks: Path) -> Iterator[Provider]:
    provider = Provider(jwks)
    yield provider
    provider.server.shutdown()
    provider.server.server_close()


def test_keys_come_from_an_endpoint_and_follow_it(
    provider: Provider, jwks: Path, key: ec.EllipticCurvePrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(NOW_S * 1000)
    validate = signed_validator(TokenRules(provider.url, refresh_ms=60_000), clock.now_ms)
    token = jwt.encode({**CLAIMS, "exp": NOW_S + 3600}, key, "ES256", {"kid": "one"})
    assert validate(token).principal == "alice"
    newer = ec.generate_private_key(ec.SECP256R1())
    renewed = jwt.encode({**CLAIMS, "exp": NOW_S + 3600}, newer, "ES256", {"kid": "two"})
    public = ECAlgorithm.to_jwk(newer.public_key(), as_dict=True)
    jwks.write_text(json.dumps({"keys": [{**public, "kid": "two", "alg": "ES256"}]}))
    assert refusal(validate, renewed) == INVALID
    assert provider.requests == 1  # The keys are new.

    clock.advance(10_000)
    eventually(lambda: accepts(validate, renewed))
    assert refusal(validate, token) == INVALID
    assert provider.requests == 2

    jwks.unlink()
    clock.advance(60_000)
    assert accepts(validate, renewed)  # An endpoint that fails changes nothing.
    eventually(lambda: "503" in caplog.text)
    assert accepts(validate, renewed)
    assert provider.requests == 3

    # It is asked again soon after a failure, also where the clock has been set back, and its nonsense changes nothing.
    for number, (delay_ms, content) in enumerate([(10_000, "[" * 100_000), (-50_000, '{"keys": [{"alg": ["x"]}]}')]):
        jwks.write_text(content)
        clock.advance(delay_ms)
        caplog.clear()
        assert accepts(validate, renewed)
        eventually(lambda: "gives no keys that can be used" in caplog.text)
        assert provider.requests == 4 + number


def accepts(validate: Validate, token: str) -> bool:
    try:
        validate(token)
    except TokenError:
        return False
    return True
