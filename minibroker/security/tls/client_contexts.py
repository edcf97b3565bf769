"""TLS of a program that is a client of a broker, by Kafka's client properties."""

import ssl
import tempfile
from collections.abc import Mapping

from minibroker.security.tls.key_stores import KeyStoreError, read_key_store, read_trust_store


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """The context that the keys `ssl.*` describe. ValueError for a store that cannot be used."""
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, each certificate in the store is an authority
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
    try:
        _trust(context, properties)
        _show_certificate(context, properties)
    except (KeyStoreError, OSError, ssl.SSLError, ValueError) as error:
        raise ValueError(f"Failed to load the TLS settings: {error}") from None
    return context


def _trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
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
