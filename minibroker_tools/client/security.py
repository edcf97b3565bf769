"""TLS and SASL for a client configured with Kafka's properties."""

import base64
import hashlib
import hmac
import os
import secrets
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from minibroker.security.sasl.jaas import JaasError, JaasLogin, login_config_of, parse_jaas, section_of
from minibroker.security.sasl.scram import HASHES
from minibroker.security.tls.contexts import client_context
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from minibroker_tools.client.settings import Settings
from minibroker_tools.failures import ApiError, ToolError

if TYPE_CHECKING:
    from minibroker_tools.client.connection import Connection

_NONCE_BYTES: Final = 24

Send = Callable[[bytes], bytes]


def encrypt(plain: socket.socket, host: str, settings: Settings) -> ssl.SSLSocket:
    """Return the socket wrapped in TLS.

    Raises:
        ToolError: The TLS handshake failed, or a key store or trust store cannot be read.
    """
    try:
        context = client_context(settings.properties)
    except ValueError as error:
        raise ToolError(str(error)) from None
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except (ssl.SSLError, ssl.CertificateError) as error:
        raise ToolError(f"SSL handshake failed: {host}: {error}") from None


def log_in(connection: "Connection", settings: Settings) -> None:
    """Log in with `sasl.mechanism` and `sasl.jaas.config`.

    Raises:
        ToolError: The broker refused the login, or the configuration is invalid. In that case nothing has been sent.
    """
    mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism != "PLAIN" and mechanism not in HASHES:
        raise ToolError(f"sasl.mechanism: {mechanism} is not one of PLAIN, {', '.join(HASHES)}")
    options = _load_login(settings).options
    if "username" not in options or "password" not in options:
        raise ToolError("sasl.jaas.config: username and password are required")
    handshake = connection.ask(SaslHandshakeRequest(mechanism=mechanism))
    if handshake.error_code:
        enabled = ", ".join(handshake.mechanisms)
        raise ToolError(
            f"Client SASL mechanism '{mechanism}' not enabled in the server, enabled mechanisms are [{enabled}]"
        )

    def send(token: bytes) -> bytes:
        response = connection.ask(SaslAuthenticateRequest(auth_bytes=token))
        if response.error_code:
            raise ToolError(ApiError(response.error_code, response.error_message).message)
        return bytes(response.auth_bytes)

    if mechanism == "PLAIN":
        send(b"\0" + options["username"].encode() + b"\0" + options["password"].encode())
    else:
        _authenticate_scram(send, HASHES[mechanism], options)


def _load_login(settings: Settings) -> JaasLogin:
    text = settings.get("sasl.jaas.config") or _read_jaas_file()
    if not text:
        raise ToolError("sasl.jaas.config is missing, and KAFKA_OPTS names no file with a section KafkaClient")
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise ToolError(f"sasl.jaas.config: {error}") from None


def _read_jaas_file() -> str:
    """Return the KafkaClient section of the JAAS file named in KAFKA_OPTS, or an empty string.

    The Java property `java.security.auth.login.config` in KAFKA_OPTS holds the file's path.
    """
    path = login_config_of(os.environ.get("KAFKA_OPTS", ""))
    if path is None:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return section_of(file.read(), "KafkaClient")
    except OSError as error:
        raise ToolError(f"KAFKA_OPTS: java.security.auth.login.config={path}: {error.strerror}") from None
    except JaasError:
        return ""


def _authenticate_scram(send: Send, name: str, options: dict[str, str]) -> None:
    """Authenticate with SCRAM (RFC 5802), without channel binding."""
    user = options["username"].replace("=", "=3D").replace(",", "=2C")
    extensions = ",tokenauth=true" if options.get("tokenauth", "").lower() == "true" else ""
    client_first = f"n={user},r={secrets.token_urlsafe(_NONCE_BYTES)}{extensions}"
    server_first = send(f"n,,{client_first}".encode()).decode()
    fields = dict(field.split("=", 1) for field in server_first.split(",") if "=" in field)
    if not {"r", "s", "i"} <= fields.keys() or not fields["i"].isdecimal():
        raise ToolError("the broker's SCRAM message makes no sense")
    salted = hashlib.pbkdf2_hmac(name, options["password"].encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    without_proof = f"c=biws,r={fields['r']}"
    auth_message = f"{client_first},{server_first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), auth_message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = send(f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), auth_message, name)
    if server_final != f"v={base64.b64encode(expected).decode()}":
        raise ToolError("the broker does not know the password itself: its SCRAM signature is wrong")
