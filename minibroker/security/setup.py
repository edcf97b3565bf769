"""Sets up TLS and passwords for a test broker in one call.

The result includes the certificates, the broker's configuration, and the configurations of its clients.
"""

import os
import shutil
import ssl
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Final

from minibroker.cluster.listeners import PROTOCOLS
from minibroker.security.sasl.jaas import quote, user_options
from minibroker.security.sasl.mechanism import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from minibroker.security.tls.certificates import Certificates, paths_of, write_certificates

SECURE_PROTOCOLS: Final = PROTOCOLS[1:]
"""The protocols supported by `Security`. The default protocol of a listener is PLAINTEXT."""
_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM_SHA_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    SCRAM_SHA_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_CLIENT_AUTH: Final = ("none", "requested", "required")


class Security:
    """The security of a broker, and the matching configurations of clients.

        with Broker(security=Security(users={"alice": "secret"})) as broker:
            KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **broker.security.kafka_python("alice"))

    Args:
        protocol: SSL, SASL_PLAINTEXT or SASL_SSL.
        users: Passwords by user name, for all mechanisms that use passwords.
        mechanisms: The SASL mechanisms. Client configurations use the first one.
        client_auth: Whether clients must present a certificate: none, requested or required (`ssl.client.auth`).
        hosts: Names and addresses of the broker to include in its certificate, in addition to those of the loopback
            interface.
        certificates: A directory written by `minibroker certificates`. By default, new certificates are created in
            a temporary directory that is removed with this object.

    Raises:
        ValueError: A setting is invalid.
        MissingExtraError: TLS is used without the extra `security`. This error is a ValueError, too.
    """

    def __init__(
        self,
        protocol: str = "SASL_SSL",
        *,
        users: Mapping[str, str] | None = None,
        mechanisms: Iterable[str] = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512),
        client_auth: str = "none",
        hosts: Iterable[str] = (),
        certificates: str | None = None,
    ) -> None:
        if protocol not in SECURE_PROTOCOLS:
            raise ValueError(f"protocol: {protocol!r} is not one of {', '.join(SECURE_PROTOCOLS)}")
        if client_auth not in _CLIENT_AUTH:
            raise ValueError(f"client_auth: {client_auth!r} is not one of {', '.join(_CLIENT_AUTH)}")
        self.protocol = protocol
        self.users = dict(users or {})
        self.mechanisms = list(mechanisms)
        for name in self.mechanisms:
            if name not in _MODULES:
                raise ValueError(f"mechanisms: {name!r} is not one of {', '.join(_MODULES)}")
        if self.has_sasl and not self.mechanisms:
            raise ValueError(f"mechanisms: {protocol} needs one of {', '.join(_MODULES)}")
        if self.users and not self.has_sasl:
            raise ValueError(f"users: {protocol} has no logins; SASL_SSL and SASL_PLAINTEXT have users")
        for option, is_set in (("client_auth", client_auth != "none"), ("certificates", certificates is not None)):
            if is_set and not self.has_tls:
                raise ValueError(f"{option}: {protocol} has no TLS; SSL and SASL_SSL have it")
        self.client_auth = client_auth
        self.certificates: Certificates | None = None
        if self.has_tls:
            self.certificates = _create_certificates(self, hosts) if certificates is None else paths_of(certificates)

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients must log in."""
        return self.protocol.startswith("SASL")

    def settings(self) -> dict[str, str]:
        """Return the broker's configuration. Its listener has the name of its protocol."""
        prefix = f"listener.name.{self.protocol.lower()}."
        settings: dict[str, str] = {}
        if self.certificates is not None:
            settings[f"{prefix}ssl.keystore.type"] = settings[f"{prefix}ssl.truststore.type"] = "PEM"
            settings[f"{prefix}ssl.keystore.location"] = self.certificates.server_keystore
            settings[f"{prefix}ssl.truststore.location"] = self.certificates.ca
            if self.client_auth != "none":
                settings[f"{prefix}ssl.client.auth"] = self.client_auth
        if self.has_sasl:
            settings["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            users = user_options(self.users)
            for mechanism in self.mechanisms:
                login = "" if mechanism == OAUTHBEARER else users
                settings[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = f"{_MODULES[mechanism]} required{login};"
        return settings

    def librdkafka(self, user: str | None = None) -> dict[str, str]:
        """Return the configuration of confluent-kafka and other clients based on librdkafka."""
        settings = {"security.protocol": self.protocol}
        files = self.certificates
        if files is not None:
            settings["ssl.ca.location"] = files.ca
            if self.client_auth != "none":
                settings["ssl.certificate.location"] = files.client_certificate
                settings["ssl.key.location"] = files.client_key
        if user is not None and self.has_sasl:
            settings |= {"sasl.mechanism": self.mechanisms[0], "sasl.username": user}
            settings["sasl.password"] = self._find_password(user)
        return settings

    def kafka_python(self, user: str | None = None) -> dict[str, Any]:
        """Return the configuration of kafka-python as keyword arguments."""
        settings: dict[str, Any] = self._make_python_settings(user)
        files = self.certificates
        if files is not None:
            settings["ssl_cafile"] = files.ca
            if self.client_auth != "none":
                settings["ssl_certfile"], settings["ssl_keyfile"] = files.client_certificate, files.client_key
        return settings

    def aiokafka(self, user: str | None = None) -> dict[str, Any]:
        """Return the configuration of aiokafka as keyword arguments."""
        settings = self._make_python_settings(user)
        if self.certificates is not None:
            settings["ssl_context"] = self.context()
        return settings

    def java(self, user: str | None = None) -> dict[str, str]:
        """Return the configuration of Kafka's own clients and tools."""
        settings = {"security.protocol": self.protocol}
        files = self.certificates
        if files is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": files.ca}
            if self.client_auth != "none":
                settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": files.client_keystore}
        if user is not None and self.has_sasl:
            mechanism = settings["sasl.mechanism"] = self.mechanisms[0]
            login = f"username={quote(user)} password={quote(self._find_password(user))}"
            settings["sasl.jaas.config"] = f"{_MODULES[mechanism]} required {login};"
        return settings

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of a client that uses Python's `ssl`.

        Raises:
            RuntimeError: The protocol has no TLS.
        """
        files = self.certificates
        if files is None:
            raise RuntimeError(f"{self.protocol} has no TLS")
        context = ssl.create_default_context(cafile=files.ca)
        if self.client_auth != "none":
            context.load_cert_chain(files.client_certificate, files.client_key)
        return context

    def _find_password(self, user: str) -> str:
        if user not in self.users:
            raise ValueError(f"there is no user {user!r}; there are {', '.join(self.users) or 'none'}")
        return self.users[user]

    def _make_python_settings(self, user: str | None) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if user is not None and self.has_sasl:
            settings |= {"sasl_mechanism": self.mechanisms[0], "sasl_plain_username": user}
            settings["sasl_plain_password"] = self._find_password(user)
        return settings


def _create_certificates(owner: Security, hosts: Iterable[str]) -> Certificates:
    directory = tempfile.mkdtemp(prefix="minibroker-certificates-")
    weakref.finalize(owner, shutil.rmtree, directory, ignore_errors=True)
    return write_certificates(os.path.join(directory, "certificates"), hosts)
