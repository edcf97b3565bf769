"""PLAIN without a connection, and login configurations in JAAS syntax."""

import pytest

from minibroker.security.sasl.jaas import JaasError, JaasLogin, parse_jaas, server_logins
from minibroker.security.sasl.mechanism import PlainServer, SaslAuthenticationError, plain_passwords

PASSWORDS = {"alice": "sécret", "bob": "b"}


WRONG = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_a_right_password_says_who_the_client_is(authorization_id: str) -> None:
    server = PlainServer(PASSWORDS)
    assert server.evaluate(f"{authorization_id}\0alice\0sécret".encode()) == b""
    assert (server.is_complete, server.user, server.expires_ms) == (True, "alice", None)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("\0alice\0wrong", WRONG),
        ("\0alice\0b", WRONG),
        ("\0nobody\0secret", WRONG),
        ("\0\0secret", "Authentication failed: username not specified"),
        ("\0alice\0", "Authentication failed: password not specified"),
        ("bob\0alice\0sécret", "Client requested an authorization id that is different from username"),
    ],
)
def test_what_is_wrong_is_told_without_telling_which_users_there_are(token: str, reason: str) -> None:
    server = PlainServer(PASSWORDS)
    with pytest.raises(SaslAuthenticationError, match=reason):
        server.evaluate(token.encode())
    assert not server.is_complete


@pytest.mark.parametrize("token", [b"", b"alice", b"\0alice\0secret\0more", b"\xff\xfe", bytes(1000)])
def test_a_message_of_another_form_is_refused(token: bytes) -> None:
    with pytest.raises(SaslAuthenticationError, match="expected 3 tokens"):
        PlainServer(PASSWORDS).evaluate(token)


def test_users_are_the_options_of_the_login_module() -> None:
    options = {"username": "admin", "password": "x", "user_alice": "1", "user_b_c": "2", "user_": "3"}
    assert plain_passwords(options) == {"alice": "1", "b_c": "2"}


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_login_module_has_a_name_and_options() -> None:
    login = parse_jaas(f"""{PLAIN}  required username="admin"\n password='p w' user_admin=x user_b = "a\\"b;\\\\" ;""")
    assert login == JaasLogin(PLAIN, {"username": "admin", "password": "p w", "user_admin": "x", "user_b": 'a"b;\\'})
    assert parse_jaas('M Required "user_a b"="";').options == {"user_a b": ""}
    assert parse_jaas("M optional;") == JaasLogin("M", {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a login module is missing"),
        ("M;", "there must be one of required"),
        ("M required", "the semicolon at the end is missing"),
        ("M required a;", "option number 1 is not"),
        ("M required a=;", "option number 1 is not"),
        ("M required a=secret b", "option number 2 is not"),
        ('M required a="secret;', "has no counterpart"),
        ("M required; N required;", "there must be one login module"),
    ],
)
def test_what_is_wrong_is_told_without_telling_passwords(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as error:
        parse_jaas(text)
    assert "secret" not in str(error.value)


def test_the_server_section_of_a_file_has_a_login_for_each_mechanism() -> None:
    logins = server_logins(
        f"""
        // for the brokers
        KafkaServer {{
          {PLAIN} required
            user_alice="a}};b";
          /* with
             stored credentials */
          x.ScramLoginModule required;
        }};
        KafkaClient {{ x.Other required; }};
        """
    )
    assert logins == {
        "plain.sasl.jaas.config": f'{PLAIN} required user_alice="a}};b";',
        "scram-sha-256.sasl.jaas.config": "x.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": "x.ScramLoginModule required;",
    }
    with pytest.raises(JaasError, match="no section KafkaServer"):
        server_logins("KafkaClient { x.Other required; };")
