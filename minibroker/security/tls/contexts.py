"""TLS contexts of Python's `ssl` from Kafka's configuration (`ssl.*`; `DefaultSslEngineFactory`).

`server_context` is for a listener, `client_context` for a program that is a client of a broker.
"""

import ssl
import tempfile
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.security.tls.key_stores import KeyStore, KeyStoreError, normalize_pem, read_key_store, read_trust_store

if TYPE_CHECKING:
    from minibroker.security.settings import ListenerSettings


_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS_1_3_SUITES: Final = ("TLS_AES_", "TLS_CHACHA20_")
_ADVICE: Final = "`minibroker certificates DIR` writes some for tests"


_WEAK_REASONS: Final = frozenset({"CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "EE_KEY_TOO_SMALL"})
"""Reasons for which OpenSSL rejects certificates that Java accepts: SHA-1 or MD5 signatures, and short keys."""
_UNREADABLE_REASONS: Final = frozenset({None, "", "BAD_DECRYPT", "BAD_PASSWORD_READ", "NO_START_LINE"})
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")


class TlsError(ValueError):
    """An invalid TLS configuration of a listener. The message names the key."""


def server_context(settings: "ListenerSettings", *, may_ask: bool) -> ssl.SSLContext:
    """Return the TLS context of a listener.

    Args:
        settings: The settings of the listener.
        may_ask: Whether `ssl.client.auth` applies. With SASL, this key must be set for the listener itself.

    Raises:
        TlsError: A setting is invalid.
        KeyStoreError: A key store or trust store cannot be used.
        MissingExtraError: The package cryptography is missing.
        OSError: A file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    protocols = settings.items("ssl.enabled.protocols")
    versions = [_VERSIONS[name] for name in protocols if name in _VERSIONS]
    if not versions:
        raise TlsError(
            f"ssl.enabled.protocols: of {', '.join(protocols)} none is served, only {', '.join(_VERSIONS)} are"
        )
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    suites = settings.items("ssl.cipher.suites")
    if suites:
        _choose_suites(context, suites)
    _load_key(context, _key_store(settings), settings)
    client_auth = settings.text("ssl.client.auth") or "none"
    requests_certificates = client_auth != "none" and may_ask
    if requests_certificates:
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
    # As in Kafka, an unreadable store is an error even if no client certificates are requested.
    if requests_certificates or settings.text("ssl.truststore.location") is not None:
        _load_trusted(context, settings)
    return context


def _key_store(settings: "ListenerSettings") -> KeyStore:
    key, chain = settings.text("ssl.keystore.key"), settings.text("ssl.keystore.certificate.chain")
    password = settings.text("ssl.key.password")
    if key is not None and chain is not None:
        return KeyStore(normalize_pem(f"{key}\n{chain}\n".encode()), password.encode() if password else None)
    path = settings.text("ssl.keystore.location")
    if path is None:
        raise TlsError(f"ssl.keystore.location is missing: TLS takes a key and a certificate, and {_ADVICE}")
    store_password = settings.text("ssl.keystore.password")
    return read_key_store(path, _store_type(settings, "ssl.keystore.type"), store_password, password)


def _store_type(settings: "ListenerSettings", key: str) -> str:
    return (settings.text(key) or "JKS").upper()


def _load_key(context: ssl.SSLContext, store: KeyStore, settings: "ListenerSettings") -> None:
    """Load a key through a temporary file that only this user can read, because `ssl` does not accept bytes."""
    source = settings.text("ssl.keystore.location") or "ssl.keystore.key"
    with tempfile.NamedTemporaryFile(prefix="minibroker-") as file:
        file.write(store.pem)
        file.flush()
        # Without a password, OpenSSL would prompt for one in the terminal.
        load = partial(context.load_cert_chain, file.name, password=store.password or b"")
        try:
            try:
                load()
            except ssl.SSLError as error:
                if error.reason not in _WEAK_REASONS:
                    raise
                _allow_weak(context)
                load()
        except ssl.SSLError as error:
            raise KeyStoreError(f"{source}: {_explain_error(error.reason, store)}") from None


def _explain_error(reason: str | None, store: KeyStore) -> str:
    """Explain why a key cannot be loaded.

    Many versions of OpenSSL and Python do not distinguish a wrong password from data that is not PEM.
    """
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the first certificate"
    if reason in _UNREADABLE_REASONS:
        if not any(mark in store.pem for mark in _ENCRYPTED):
            return "it holds no private key with a certificate in PEM"
        problem = "cannot be decrypted" if store.password else "is encrypted, and there is no ssl.key.password"
        return f"the private key {problem}. Is ssl.key.password right?"
    return reason or ""


def _allow_weak(context: ssl.SSLContext) -> None:
    """Accept the same weak keys and signatures in certificates that Java accepts. The ciphers do not change."""
    ciphers = [cipher["name"] for cipher in context.get_ciphers() if not cipher["name"].startswith("TLS_")]
    context.set_ciphers(":".join([*ciphers, "@SECLEVEL=0"]))


def _load_trusted(context: ssl.SSLContext, settings: "ListenerSettings") -> None:
    """Load the trusted certificates, or those of the system if there is no trust store."""
    trusted = settings.text("ssl.truststore.certificates")
    path = settings.text("ssl.truststore.location")
    if trusted is None and path is not None:
        kind = _store_type(settings, "ssl.truststore.type")
        trusted = read_trust_store(path, kind, settings.text("ssl.truststore.password"))
    if trusted is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    try:
        context.load_verify_locations(cadata=normalize_pem(trusted.encode()).decode())
    except (ssl.SSLError, ValueError):
        raise KeyStoreError(f"{path or 'ssl.truststore.certificates'} holds no certificates in PEM") from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # As in Java, trust each certificate in the store.
    _allow_weak(context)


def _choose_suites(context: ssl.SSLContext, suites: list[str]) -> None:
    """Enable the named TLS 1.2 cipher suites. Python's `ssl` cannot choose among those of TLS 1.3."""
    older = [_openssl_name(name) for name in suites if not name.startswith(_TLS_1_3_SUITES)]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    if len(older) == len(suites):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise TlsError(f"ssl.cipher.suites: none of {', '.join(suites)} is known") from None


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384.

    A name that is already OpenSSL's is returned unchanged.
    """
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = (
        cipher.replace("AES_", "AES").replace("_CBC_", "_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    )
    return f"{'' if exchange == 'RSA' else exchange + '-'}{cipher}".replace("_", "-")


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS context described by the keys `ssl.*`.

    Raises:
        ValueError: A store cannot be used.
    """
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # As in Java, trust each certificate in the store.
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
    try:
        _trust_as_configured(context, properties)
        _show_certificate(context, properties)
    except (KeyStoreError, OSError, ssl.SSLError, ValueError) as error:
        raise ValueError(f"Failed to load the TLS settings: {error}") from None
    return context


def _trust_as_configured(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    inline = properties.get("ssl.truststore.certificates", "")
    path = properties.get("ssl.truststore.location", "")
    if inline:
        context.load_verify_locations(cadata=inline)
    elif path:
        kind = properties.get("ssl.truststore.type", "JKS").upper()
        password = properties.get("ssl.truststore.password", "")
        context.load_verify_locations(cadata=read_trust_store(path, kind, password))


def _show_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    path = properties.get("ssl.keystore.location", "")
    inline = properties.get("ssl.keystore.key", "")
    key_password = properties.get("ssl.key.password") or None
    if path:
        kind = properties.get("ssl.keystore.type", "JKS").upper()
        store = read_key_store(path, kind, properties.get("ssl.keystore.password") or None, key_password)
        pem, password = store.pem, store.password
    elif inline:
        pem = (inline + "\n" + properties.get("ssl.keystore.certificate.chain", "")).encode()
        password = key_password.encode() if key_password else None
    else:
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)
