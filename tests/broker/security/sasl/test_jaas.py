"""Login configurations in the syntax of JAAS."""

import pytest

from minibroker.security.sasl.jaas import JaasError, JaasLogin, parse_jaas, server_logins

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_login_module_has_a_name_and_options() -> None:
    login = parse_jaas(f"""{PLAIN}  required username="admin"\n password='p w' user_admin=x user_b = "a\\"b;\\\\" ;""")
    assert login == JaasLogin(PLAIN, {"username": "admin", "password": "p w", "user_admin": "x", "user_b": 'a"b;\\'})
    assert login.name == "PlainLoginModule"
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
