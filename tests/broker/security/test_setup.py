"""`Security` rejects contradictory settings. Messages and working features without the extra `security`."""

import sys
from typing import Any

import pytest

from minibroker.security.setup import Security
from minibroker.security.tls.certificates import Certificates
from minibroker_storage.installation_hints import missing
from tests.programs import run_program


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        ("SSL", {"users": {"alice": "secret"}}, "users: SSL has no logins"),
        ("SASL_PLAINTEXT", {"client_auth": "required"}, "client_auth: SASL_PLAINTEXT has no TLS"),
        ("SASL_PLAINTEXT", {"certificates": "somewhere"}, "certificates: SASL_PLAINTEXT has no TLS"),
        ("PLAINTEXT", {}, "protocol: 'PLAINTEXT' is not one of SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("SASL_SSL", {"mechanisms": []}, "mechanisms: SASL_SSL needs one of PLAIN"),
        ("SASL_SSL", {"mechanisms": ["MD5"]}, "mechanisms: 'MD5' is not one of PLAIN"),
        ("SSL", {"client_auth": "always"}, "client_auth: 'always' is not one of none"),
    ],
)
def test_what_would_have_no_effect_is_refused(protocol: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Security(protocol, **options)


WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Missing:
    find_distributions = PathFinder.find_distributions
    @staticmethod
    def find_spec(name, path=None, target=None):
        wanted = name.partition(".")[0] in {"cryptography", "jwt"}
        return None if wanted else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Missing

from minibroker import Broker, Security

def told(work):
    try:
        work()
    except ValueError as error:
        print(error)

def start(listeners="SSL://127.0.0.1:0", **config):
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": sys.argv[1]}
    given |= {name.replace("_", "."): value for name, value in config.items()}
    with Broker(listeners=listeners, config=given):
        print("runs")

told(lambda: Security("SSL"))
told(lambda: start())
told(lambda: start(ssl_keystore_type="PKCS12", ssl_keystore_location=sys.argv[2]))
told(lambda: start(ssl_client_auth="required"))
passwords = Security("SASL_PLAINTEXT", users={"alice": "secret"}, mechanisms=["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
with Broker(security=passwords):
    print("runs")
signed = {"sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json"}
told(lambda: Broker(security=passwords, config=signed).start())
"""


def test_passwords_and_pem_take_nothing_and_the_rest_names_the_extra(certificates: Certificates) -> None:
    stores = certificates.server_keystore, certificates.server_keystore_p12
    command = [sys.executable, "-c", WITHOUT, *stores]
    done = run_program(command)
    assert done.stdout.splitlines() == [
        f"Making certificates: {missing('cryptography', 'security')}",
        "runs",
        f"A key store in PKCS12 or JKS: {missing('cryptography', 'security')}",
        f"The name in a client's certificate: {missing('cryptography', 'security')}",
        "runs",
        f"OAUTHBEARER with signed tokens: {missing('pyjwt', 'security')}",
    ], done.stderr
