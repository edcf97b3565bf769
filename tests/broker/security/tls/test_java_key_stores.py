"""Key stores written by the JDK's keytool."""

import socket
import ssl
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from minibroker import Broker
from minibroker.security.tls.key_stores import KeyStoreError, read_key_store, read_trust_store
from tests.broker.socket_client import address_of
from tests.clients import toolchains
from tests.kafka import jars
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

_STORE_PASSWORD, _KEY_PASSWORD = "of-the-store", "of-the-key"
_RSA: Final = ("-keyalg", "RSA", "-keysize", "2048")
_EC: Final = ("-keyalg", "EC", "-groupname", "secp256r1")
Make = Callable[..., str]
pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return a function that writes a key store with given options once, and returns its path."""
    folder: Path = tmp_path_factory.mktemp("stores")

    @cache
    def write(kind: str, *options: str, alias: str = "key", into: str = "", key_password: str = _STORE_PASSWORD) -> str:
        path = into or str(folder / f"{len(list(folder.iterdir()))}.{kind}")
        command = [toolchains.tool("keytool"), "-genkeypair", "-alias", alias, "-dname", "CN=localhost"]
        command += ["-keystore", path, "-storetype", kind, "-storepass", _STORE_PASSWORD, "-keypass", key_password]
        command += [f"-J{option}" for option in jars.SHORT_LIVED]
        subprocess.run([*command, *options], check=True, capture_output=True, timeout=PATIENCE_S)
        return path

    return write


@pytest.mark.parametrize("kind", one_in(2, ["JKS", "JCEKS"]))
def test_a_key_with_a_password_of_its_own_is_read(make: Make, kind: str) -> None:
    path = make(kind, *_RSA, key_password=_KEY_PASSWORD)
    store = read_key_store(path, kind, _STORE_PASSWORD, _KEY_PASSWORD)
    assert isinstance(load_pem_private_key(store.pem, None), RSAPrivateKey)
    assert store.pem.count(b"BEGIN CERTIFICATE") == 1
    with pytest.raises(KeyStoreError, match=r"ssl\.key\.password is not the password of the key 'key'"):
        read_key_store(path, kind, _STORE_PASSWORD, None)
    with pytest.raises(KeyStoreError, match=r"the password of the store is wrong.*\(ssl\.keystore\.password\)"):
        read_key_store(path, kind, "wrong", _KEY_PASSWORD)
    with pytest.raises(KeyStoreError, match=r"ssl\.truststore\.location: .*the password of the store is wrong"):
        read_trust_store(path, kind, "wrong")
    assert read_trust_store(path, kind, None).encode() in store.pem


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_one_of_several_keys_is_used_with_its_own_certificates(make: Make, kind: str) -> None:
    path = make(kind, *_EC, alias="first")
    make(kind, *_RSA, alias="second", into=path)
    store = read_key_store(path, kind, _STORE_PASSWORD, _STORE_PASSWORD)
    key, certificate = load_pem_private_key(store.pem, None), load_pem_x509_certificate(store.pem)
    assert key.public_key() == certificate.public_key()
    assert store.pem.count(b"BEGIN CERTIFICATE") == 1


def test_a_store_without_a_key_that_can_be_served_says_so(make: Make, tmp_path: Path) -> None:
    with pytest.raises(KeyStoreError, match="the private key is one of DSA, which only Java serves"):
        read_key_store(make("JKS", "-keyalg", "DSA"), "JKS", _STORE_PASSWORD, _STORE_PASSWORD)
    whole = Path(make("JKS", *_RSA, key_password=_KEY_PASSWORD)).read_bytes()
    (tmp_path / "cut").write_bytes(whole[:200])
    with pytest.raises(KeyStoreError, match="the store is cut short"):
        read_key_store(str(tmp_path / "cut"), "JKS", None, _KEY_PASSWORD)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JKS", (*_RSA, "-sigalg", "SHA1withRSA")),
        pytest.param("JKS", ("-keyalg", "RSA", "-keysize", "1024", "-sigalg", "MD5withRSA"), marks=pytest.mark.torture),
        pytest.param("PKCS12", (*_RSA, "-J-Dkeystore.pkcs12.legacy"), marks=pytest.mark.torture),
        pytest.param("PKCS12", (*_RSA, "-sigalg", "SHA1withRSA"), marks=pytest.mark.torture),
        pytest.param("JCEKS", _EC, marks=pytest.mark.torture),
    ],
)
def test_a_listener_shows_the_certificate_of_a_store_as_java_does(
    make: Make, kind: str, options: tuple[str, ...]
) -> None:
    config = {
        "ssl.keystore.location": make(kind, *options),
        "ssl.keystore.type": kind,
        "ssl.keystore.password": _STORE_PASSWORD,
        "ssl.key.password": _STORE_PASSWORD,
    }
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.set_ciphers("ALL:!aNULL:@SECLEVEL=0")
    with (
        Broker(listeners="SSL://127.0.0.1:0", config=config) as broker,
        socket.create_connection(address_of(broker.bootstrap_servers), PATIENCE_S) as plain,
        client.wrap_socket(plain) as connection,
    ):
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    assert ssl.DER_cert_to_PEM_cert(shown).encode() in _pem(config)


def _pem(config: dict[str, str]) -> bytes:
    location, kind = config["ssl.keystore.location"], config["ssl.keystore.type"]
    return read_key_store(location, kind, _STORE_PASSWORD, _STORE_PASSWORD).pem
