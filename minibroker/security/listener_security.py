"""The security of a listener, read from the configuration when the broker starts.

A secure listener has a TLS context, the users of each SASL mechanism, or both. A plaintext listener has neither, and
does not import this module.
"""

import logging
import ssl
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from minibroker.config import BrokerConfig
from minibroker.config.keys import ConfigError, ConfigResourceType
from minibroker.security.principals import ANONYMOUS, USER, Principal
from minibroker.security.sasl.jaas import JaasError, JaasLogin, parse_jaas
from minibroker.security.sasl.mechanism import MECHANISMS, OAUTHBEARER, PLAIN, PlainServer, SaslServer, plain_passwords
from minibroker.security.sasl.scram import ScramAccount, ScramServer, derive_credential
from minibroker.security.settings import ListenerSettings
from minibroker.security.tls.names import PrincipalMapper, subject_of
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.installation_hints import MissingExtraError, missing_extra

with lazy:
    from minibroker.security.sasl import oauthbearer
    from minibroker.security.tls import contexts

if TYPE_CHECKING:
    from minibroker.cluster.core import Core
    from minibroker.security.store import SecurityStore

_logger: Final = logging.getLogger("minibroker")

TLS_PROTOCOLS: Final = ("SSL", "SASL_SSL")
SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")

_JAAS: Final = "sasl.jaas.config"
_HANDLERS: Final = (
    "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
    "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
)
"""Supported values of `sasl.server.callback.handler.class`: Kafka's own handlers, whose checks are always made."""

StartExchange = Callable[[], SaslServer]


class SecurityConfigError(ValueError):
    """An invalid configuration of a listener. The message names the key."""


class ListenerSecurity:
    """The TLS and SASL settings of one listener, for all its connections.

    Attributes:
        protocol: SSL, SASL_PLAINTEXT or SASL_SSL.
        tls: Returns the context of the next connection; None without TLS.
        mechanisms: The enabled SASL mechanisms, as sent to clients; empty without SASL.
        failure_delay_ms: The delay of the response to a failed login, in milliseconds.
        max_receive_size: The maximum size in bytes of a request from a client that has not authenticated yet.

    Raises:
        SecurityConfigError: The configuration is invalid. Some errors are other ValueErrors.
        OSError: A file cannot be read.
    """

    def __init__(
        self, core: "Core", store: "Callable[[], SecurityStore]", name: str, protocol: str, *, has_tls: bool = True
    ) -> None:
        self.name = name
        self.protocol = protocol
        self._core = core
        self._store = store
        self._settings = ListenerSettings(core.config, name)
        self.tls: Callable[[], ssl.SSLContext] | None = None
        self._mapper = PrincipalMapper(self._settings.text("ssl.principal.mapping.rules") or "DEFAULT")
        if protocol in TLS_PROTOCOLS and has_tls:
            may_ask = protocol == "SSL" or self._settings.is_own("ssl.client.auth")
            self._context_of = partial(contexts.server_context, may_ask=may_ask)
            self._context, self._stores = self._context_of(self._settings), self._settings.stores()
            self.tls = lambda: self._context
            core.hooks.check_broker.subscribe(self._check_stores)
            core.hooks.config_changed.subscribe(self._load_stores)
            # Names in certificates must be readable. Check this on start-up instead of at the first connection.
            if self._context.verify_mode is not ssl.CERT_NONE and find_spec("cryptography") is None:
                raise missing_extra("The name in a client's certificate", "cryptography")
        self._exchanges: dict[str, StartExchange] = {}
        if protocol in SASL_PROTOCOLS:
            self._exchanges = {mechanism: self._prepare_exchange(mechanism) for mechanism in self._enabled_mechanisms()}
        self.mechanisms = list(self._exchanges)
        self.failure_delay_ms = self._settings.integer("connection.failed.authentication.delay.ms")
        self.max_receive_size = self._settings.integer("sasl.server.max.receive.size")

    def _check_stores(self, config: BrokerConfig) -> None:
        """Check that the listener can use the key and trust stores of a configuration (`SslFactory`).

        Raises:
            ConfigError: The stores cannot be used.
        """
        settings = ListenerSettings(config, self.name)
        if settings.stores() != self._stores:
            try:
                self._context_of(settings)
            except (ValueError, OSError) as error:
                raise ConfigError(f"Validation of dynamic config update of SSLFactory failed: {error}") from None

    def _load_stores(self, _: ConfigResourceType) -> None:
        settings = ListenerSettings(self._core.config, self.name)
        if settings.stores() != self._stores:
            try:
                self._context, self._stores = self._context_of(settings), settings.stores()
            except (ValueError, OSError) as error:  # A restored snapshot can contain the paths of missing files.
                _logger.error("The listener %s keeps its key store: %s", self.name, error)  # noqa: TRY400 - no traceback

    def start(self, mechanism: str) -> SaslServer:
        """Start an exchange with a SASL mechanism.

        Raises:
            KeyError: The mechanism is not in `mechanisms`.
        """
        return self._exchanges[mechanism]()

    def max_reauth_ms(self, mechanism: str) -> int:
        """Return the maximum lifetime in milliseconds of a session that began with this mechanism; 0 is unlimited."""
        return self._settings.integer("connections.max.reauth.ms", mechanism)

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client that has not authenticated with SASL, by its TLS certificate in DER.

        Raises:
            NoMappingError: No rule maps the name in the client's certificate.
        """
        if certificate is None or self.protocol != "SSL":
            return ANONYMOUS
        return Principal(USER, self._mapper.name_of(subject_of(certificate)))

    def _enabled_mechanisms(self) -> list[str]:
        enabled = self._settings.items("sasl.enabled.mechanisms")
        served = [mechanism for mechanism in enabled if mechanism in MECHANISMS]
        for name in enabled:
            if name not in MECHANISMS and served:
                _logger.warning("sasl.enabled.mechanisms: %s is not served", name)
        if not served:
            raise SecurityConfigError(
                f"sasl.enabled.mechanisms: {', '.join(enabled) or 'nothing'} is not served on the listener "
                f"{self.name}, which needs one of {', '.join(MECHANISMS)}"
            )
        return served

    def _prepare_exchange(self, mechanism: str) -> StartExchange:
        handler = self._settings.text("sasl.server.callback.handler.class", mechanism)
        if handler is not None and handler not in _HANDLERS:
            raise SecurityConfigError(
                f"sasl.server.callback.handler.class: {handler} is a class of Java's, and there is no Java here"
            )
        if mechanism == PLAIN:
            passwords = plain_passwords(self._parse_login(mechanism, needed=True).options)
            return lambda: PlainServer(passwords)
        if mechanism == OAUTHBEARER:
            return self._prepare_oauthbearer()
        return self._prepare_scram(mechanism)

    def _parse_login(self, mechanism: str, *, needed: bool) -> JaasLogin:
        key = f"{self._settings.prefix}{mechanism.lower()}.{_JAAS}"
        text = self._settings.own(_JAAS, mechanism) or self._core.config.unknown.get(f"{mechanism.lower()}.{_JAAS}")
        if text is None:
            if not needed:
                return JaasLogin("", {})
            raise SecurityConfigError(
                f"{key} is missing: {mechanism} takes its users from there, such as "
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
            )
        try:
            return parse_jaas(text)
        except JaasError as error:
            raise SecurityConfigError(f"{key}: {error}") from None

    def _prepare_scram(self, mechanism: str) -> StartExchange:
        """Return a function that starts a SCRAM exchange.

        Users are searched in the stored credentials, then in the login module (our own addition). Delegation tokens
        are looked up separately.
        """
        passwords = plain_passwords(self._parse_login(mechanism, needed=False).options)
        configured = {user: derive_credential(mechanism, password) for user, password in passwords.items()}
        stored, tokens = self._store().scram, self._store().tokens

        def find(name: str, is_token: bool) -> ScramAccount | None:  # noqa: FBT001 - the type FindAccount says it
            if is_token:
                return tokens.account(mechanism, name)
            credential = stored.find(mechanism, name) or configured.get(name)
            return None if credential is None else ScramAccount(credential, name)

        return lambda: ScramServer(mechanism, find)

    def _prepare_oauthbearer(self) -> StartExchange:
        try:
            validate = self._token_validator()
        except MissingExtraError:  # This is a ValueError, too, but the configuration is valid.
            raise
        except ValueError as error:
            raise SecurityConfigError(f"{self._settings.prefix}{OAUTHBEARER.lower()}: {error}") from None
        return lambda: oauthbearer.OAuthBearerServer(validate)

    def _token_validator(self) -> "oauthbearer.Validate":
        settings, now_ms = self._settings, self._core.clock.now_ms
        url = settings.text("sasl.oauthbearer.jwks.endpoint.url", OAUTHBEARER)
        if url is None:
            return oauthbearer.unsecured_validator(self._parse_login(OAUTHBEARER, needed=False).options, now_ms)
        rules = oauthbearer.TokenRules(
            url,
            settings.items("sasl.oauthbearer.expected.audience", OAUTHBEARER),
            settings.text("sasl.oauthbearer.expected.issuer", OAUTHBEARER),
            settings.text("sasl.oauthbearer.scope.claim.name", OAUTHBEARER) or "scope",
            settings.text("sasl.oauthbearer.sub.claim.name", OAUTHBEARER) or "sub",
            settings.integer("sasl.oauthbearer.clock.skew.seconds", OAUTHBEARER),
            settings.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms", OAUTHBEARER),
        )
        return oauthbearer.signed_validator(rules, now_ms)
