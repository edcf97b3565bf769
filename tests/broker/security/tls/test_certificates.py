"""The files of `minibroker certificates`, and key stores read by the broker."""

import ipaddress
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from minibroker.cli.main import main
from minibroker.security.tls.certificates import Certificates, paths_of, write_certificates
from minibroker.security.tls.key_stores import KeyStoreError, read_key_store, read_trust_store
from minibroker.security.tls.names import MappingRuleError, NoMappingError, PrincipalMapper, subject_of
from minibroker_storage import installation_hints
from minibroker_storage.installation_hints import missing


def certificate(path: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(path).read_bytes())


def test_the_authority_has_signed_what_the_broker_and_the_client_show(certificates: Certificates) -> None:
    authority = certificate(certificates.ca)
    for path in (certificates.server_certificate, certificates.client_certificate):
        certificate(path).verify_directly_issued_by(authority)
    names = certificate(certificates.server_certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["localhost", "kafka.test"]
    assert ipaddress.ip_address("10.1.2.3") in names.value.get_values_for_type(x509.IPAddress)
    assert certificate(certificates.client_certificate).subject.rfc4514_string() == "CN=client"


def test_private_keys_are_for_their_owner_alone(certificates: Certificates) -> None:
    for path in (certificates.server_key, certificates.server_keystore, certificates.client_keystore_p12):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_there_are_none_in_the_place_of_others(certificates: Certificates) -> None:
    with pytest.raises(FileExistsError, match="clients may trust"):
        write_certificates(os.path.dirname(certificates.ca))
    assert paths_of(os.path.dirname(certificates.ca)) == certificates


def test_the_command_names_what_it_has_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certificates", str(tmp_path / "made"), "--host", "kafka.test", "--client", "alice"]) == 0
    written = capsys.readouterr().out.split()
    assert written == list(paths_of(str(tmp_path / "made")))[:-1]
    assert all(map(os.path.exists, written))
    assert certificate(str(tmp_path / "made/client.pem")).subject.rfc4514_string() == "CN=alice"
    assert main(["certificates", str(tmp_path / "made")]) == 1
    assert main(["certificates", str(tmp_path / "other"), "--password", "short"]) == 1
    assert main(["certificates", str(tmp_path / "other"), "--host", "no host"]) == 1
    assert "is not a host name" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_extra_is_named_where_it_is_missing() -> None:
    assert str(installation_hints.missing_extra("TLS", "cryptography")) == (
        f"TLS: {missing('cryptography', 'security')}"
    )


def test_pem_and_pkcs12_hold_the_same_key(certificates: Certificates) -> None:
    pem = read_key_store(certificates.server_keystore, "PEM", None, None)
    for kind in ("PKCS12", "JKS"):  # Java reads PKCS12 with either type.
        store = read_key_store(certificates.server_keystore_p12, kind, certificates.password, None)
        one, other = (load_pem_private_key(each.pem, each.password) for each in (pem, store))
        assert isinstance(one, ec.EllipticCurvePrivateKey)
        assert isinstance(other, ec.EllipticCurvePrivateKey)
        assert one.private_numbers() == other.private_numbers()
    trusted = read_trust_store(certificates.truststore_p12, "PKCS12", certificates.password)
    assert trusted == read_trust_store(certificates.ca, "PEM", None)


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (b"\xfe\xed\xfe\xed\x00\x00\x00\x02", "JKS", "the password of the store is wrong, or the store is damaged"),
        (b"\xce\xce\xce\xce", "JCEKS", "the password of the store is wrong, or the store is damaged"),
        (b"nonsense", "PEM", "is not in PEM"),
        (b"-----BEGIN PRIVATE KEY-----", "JKS", "for PEM set the type to PEM"),
        (b"nonsense", "PKCS12", "is not a key store in PKCS12"),
        (b"", "JKS", "is not a key store in PKCS12"),
        (b"\x30\x03abc", "PKCS12", "parsing|deserialize"),
        (b"x", "BKS", "the type 'BKS' is not one of"),
    ],
)
def test_a_store_that_cannot_be_read_is_named_with_what_helps(
    tmp_path: Path, content: bytes, kind: str, reason: str
) -> None:
    path = tmp_path / "store"
    path.write_bytes(content)
    with pytest.raises(KeyStoreError, match=f"ssl.keystore.location: .*{reason}"):
        read_key_store(str(path), kind, "secret", None)
    with pytest.raises(KeyStoreError, match=f"ssl.truststore.location: .*{reason}"):
        read_trust_store(str(path), kind, "secret")


def test_pem_on_one_line_is_read_as_by_kafka(certificates: Certificates, tmp_path: Path) -> None:
    whole = Path(certificates.server_keystore).read_bytes()
    path = tmp_path / "line"
    path.write_bytes(b"Bag Attributes\n" + whole.replace(b"\n", b" "))
    assert read_key_store(str(path), "PEM", None, None).pem == whole


def test_a_wrong_password_is_told(certificates: Certificates) -> None:
    for password in ("wrong!", None):
        with pytest.raises(KeyStoreError, match=r"Is ssl\.keystore\.password right"):
            read_key_store(certificates.server_keystore_p12, "PKCS12", password, None)
    with pytest.raises(KeyStoreError, match="holds no private key"):
        read_key_store(certificates.truststore_p12, "PKCS12", certificates.password, None)


def named(*parts: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    """Return a certificate (DER) with this subject. Each part of the subject can have several attributes."""
    key = ec.generate_private_key(ec.SECP256R1())
    sets = [x509.RelativeDistinguishedName([x509.NameAttribute(*each) for each in part]) for part in parts]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(x509.Name(sets)).issuer_name(x509.Name(sets))
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


SUBJECTS = [
    ([[(NameOID.COUNTRY_NAME, "DE")], [(NameOID.ORGANIZATION_NAME, "Ours")], [(NameOID.COMMON_NAME, "alice")]]),
    ([[(NameOID.COMMON_NAME, 'a,b=c+d<e>f#g;h"i\\j')]]),
    ([[(NameOID.COMMON_NAME, " alice  ")], [(NameOID.STATE_OR_PROVINCE_NAME, "x y")]]),
    ([[(NameOID.EMAIL_ADDRESS, "a@b.test")], [(NameOID.USER_ID, "42")], [(NameOID.DOMAIN_COMPONENT, "test")]]),
    ([[(NameOID.COMMON_NAME, "álice"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "x")], [(NameOID.TITLE, "Dr")]]),
    ([[(NameOID.STREET_ADDRESS, "s"), (NameOID.LOCALITY_NAME, "l")]]),
]
AS_JAVA_PRINTS_THEM = [
    "CN=alice,O=Ours,C=DE",
    r"CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j",
    r"ST=x y,CN=\ alice\ \ ",
    "DC=test,UID=42,1.2.840.113549.1.9.1=#16086140622e74657374",
    "2.5.4.12=#0c024472,OU=x+CN=álice",
    "L=l+STREET=s",
]


@pytest.mark.parametrize(("subject", "printed"), list(zip(SUBJECTS, AS_JAVA_PRINTS_THEM, strict=True)))
def test_a_subject_is_printed_as_java_prints_it(
    subject: list[list[tuple[x509.ObjectIdentifier, str]]], printed: str
) -> None:
    assert subject_of(named(*subject)) == printed


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=alice,O=Ours", "CN=alice,O=Ours"),
        ("", "CN=alice", "CN=alice"),
        ("RULE:^CN=(.*?),O=Ours.*$/$1/", "CN=Alice,O=Ours", "Alice"),
        ("RULE:^CN=(.*?),O=Ours.*$/$1/U,DEFAULT", "CN=Alice,O=Ours", "ALICE"),
        ("RULE:^CN=(.*?),O=Ours.*$/$1/L, DEFAULT", "CN=Alice,O=Theirs", "CN=Alice,O=Theirs"),
        ("RULE:^.*CN=([^,]*),O=([^,]*).*$/$1@$2/L", "CN=Alice,O=Ours,C=DE", "alice@ours"),
        (r"RULE:^CN=(\w+)\/x$/\$$1/,DEFAULT", "CN=a/x", "$a"),
    ],
)
def test_rules_make_names_of_subjects(rules: str, subject: str, name: str) -> None:
    assert PrincipalMapper(rules).name_of(subject) == name


def test_who_fits_no_rule_is_not_let_in() -> None:
    with pytest.raises(NoMappingError, match="no rule"):
        PrincipalMapper("RULE:^CN=alice$/alice/").name_of("CN=bob")


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:(/x/", "nonsense", "RULE:a/b/X", "RULE:a/$1/"])
def test_a_rule_that_cannot_be_read_is_told(rules: str) -> None:
    with pytest.raises(MappingRuleError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapper(rules)


def test_python_itself_trusts_them(certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=certificates.ca)
    context.load_cert_chain(certificates.client_certificate, certificates.client_key)
    assert len(context.get_ca_certs()) == 1
