"""SCRAM without a connection: correct passwords, wrong passwords, and replayed messages."""

import base64
import hashlib

import pytest

from minibroker.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, SaslAuthenticationError, SaslError
from minibroker.security.sasl.scram import (
    HASHES,
    FindAccount,
    ScramAccount,
    ScramServer,
    derive_credential,
    derive_salted_credential,
)
from tests.broker.security.sasl.scram_client import ScramClient

MECHANISMS = pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])


def accounts(mechanism: str) -> FindAccount:
    """Return accounts of alice and "a,b=c" with passwords, and of one token."""
    known = {
        ("alice", False): ScramAccount(derive_credential(mechanism, "secret"), "alice"),
        ("a,b=c", False): ScramAccount(derive_credential(mechanism, "secret"), "a,b=c"),
        ("token", True): ScramAccount(derive_credential(mechanism, "hmac"), "owner", 5000),
    }
    return lambda name, is_token: known.get((name, is_token))


def test_the_example_of_the_standard_is_computed_alike() -> None:
    """RFC 7677, section 3: the client's proof and the server's signature."""
    credential = derive_credential(SCRAM_SHA_256, "pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert client.answer(challenge).endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert client.trusts(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert credential.iterations == 4096


@MECHANISMS
@pytest.mark.parametrize("name", ["alice", "a=2Cb=3Dc"])
def test_who_knows_the_password_gets_in_and_sees_that_the_broker_knows_it_too(mechanism: str, name: str) -> None:
    server, client = ScramServer(mechanism, accounts(mechanism)), ScramClient(mechanism, name, "secret")
    challenge = server.evaluate(client.first())
    assert challenge.startswith(b"r=abc")
    assert not server.is_complete
    assert client.trusts(server.evaluate(client.answer(challenge)))
    assert server.user == name.replace("=2C", ",").replace("=3D", "=")


@MECHANISMS
def test_a_delegation_token_logs_its_owner_in(mechanism: str) -> None:
    server = ScramServer(mechanism, accounts(mechanism))
    client = ScramClient(mechanism, "token", "hmac", extensions=",tokenauth=true")
    server.evaluate(client.answer(server.evaluate(client.first())))
    assert (server.user, server.expires_ms, server.is_token) == ("owner", 5000, True)


@MECHANISMS
def test_a_wrong_password_is_refused_at_the_end(mechanism: str) -> None:
    server, client = ScramServer(mechanism, accounts(mechanism)), ScramClient(mechanism, "alice", "wrong")
    proof = client.answer(server.evaluate(client.first()))
    with pytest.raises(SaslError, match="Invalid client credentials"):
        server.evaluate(proof)
    with pytest.raises(SaslError, match="the exchange is over"):
        server.evaluate(proof)


def test_messages_that_were_heard_before_prove_nothing() -> None:
    find = accounts(SCRAM_SHA_256)
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    first = ScramServer(SCRAM_SHA_256, find)
    first.evaluate(client.answer(first.evaluate(client.first())))
    again = ScramServer(SCRAM_SHA_256, find)
    again.evaluate(client.first())
    with pytest.raises(SaslError, match="Invalid client nonce"):
        again.evaluate(client.final)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,n=alice",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice,r=",
        b"n,,r=abc,n=alice",
        b"n,,n=alice,r=abc,",
        "n,,n=álice,r=abc".encode(),
    ],
)
def test_a_first_message_of_another_form_is_refused(message: bytes) -> None:
    with pytest.raises(SaslError, match="Invalid SCRAM"):
        ScramServer(SCRAM_SHA_256, accounts(SCRAM_SHA_256)).evaluate(message)


@pytest.mark.parametrize(
    "change", [(b"p=", b"p=AAAA"), (b",p=", b",x=1,q="), (b"c=biws", b"c=b"), (b"r=abc", b"r=abd")]
)
def test_a_last_message_that_was_changed_on_its_way_is_refused(change: tuple[bytes, bytes]) -> None:
    server = ScramServer(SCRAM_SHA_256, accounts(SCRAM_SHA_256))
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    proof = client.answer(server.evaluate(client.first()))
    with pytest.raises(SaslError):
        server.evaluate(proof.replace(*change))


def test_a_short_proof_is_no_proof() -> None:
    server = ScramServer(SCRAM_SHA_256, accounts(SCRAM_SHA_256))
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    client.answer(server.evaluate(client.first()))
    with pytest.raises(SaslError, match="Invalid client credentials"):
        server.evaluate(client.final.partition(b",p=")[0] + b",p=")


def test_unknown_users_and_tokens_are_refused_and_so_is_another_authorization_id() -> None:
    find = accounts(SCRAM_SHA_256)
    for name, extensions in (("nobody", ""), ("token", ""), ("alice", ",tokenauth=true")):
        with pytest.raises(SaslError, match="there is no"):
            ScramServer(SCRAM_SHA_256, find).evaluate(
                ScramClient(SCRAM_SHA_256, name, "x", extensions=extensions).first()
            )
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        ScramServer(SCRAM_SHA_256, find).evaluate(b"n,a=bob,n=alice,r=abc")


@MECHANISMS
def test_a_salted_password_gives_the_same_credential_as_the_password(mechanism: str) -> None:
    whole = derive_credential(mechanism, "secret", salt=b"salt", iterations=5000)
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], b"secret", b"salt", 5000)
    assert derive_salted_credential(mechanism, salted, b"salt", 5000) == whole
    assert b"secret" not in b"".join((whole.stored_key, whole.server_key))
