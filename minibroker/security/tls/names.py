"""The name in a client's certificate: its subject in Java's format, mapped by `ssl.principal.mapping.rules`.

The default is the result of `X500Principal.getName()` (RFC 2253), which lists the last part of the subject first. The
rules are those of KIP-371 (`SslPrincipalMapper`).
"""

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker_storage.installation_hints import missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.x509 import NameAttribute

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = re.compile(r'[,=+<>#;"\\]')
_OUTER_BLANKS: Final = re.compile(r"\A[ \r]+|[ \r]+\Z")
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|\Z)",
    re.DOTALL,
)
_BACK_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)
_LONG_FORM: Final = 0x80


class MappingRuleError(ValueError):
    """Invalid mapping rules."""


class NoMappingError(Exception):
    """A name to which no rule applies. The client with that name is rejected."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) in Java's format."""
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise missing_extra("The name in a client's certificate", "cryptography") from None
    subject = x509.load_der_x509_certificate(certificate).subject
    format_attribute = partial(_format_attribute, lambda attribute: x509.Name([attribute]).public_bytes())
    return ",".join("+".join(map(format_attribute, rdn)) for rdn in reversed(subject.rdns))


def _format_attribute(
    encode_name: "Callable[[NameAttribute[str | bytes]], bytes]", attribute: "NameAttribute[str | bytes]"
) -> str:
    keyword = _KEYWORDS.get(attribute.oid.dotted_string)
    value = attribute.value
    if keyword is None or isinstance(value, bytes):
        return f"{keyword or attribute.oid.dotted_string}=#{_value_in(encode_name(attribute)).hex()}"
    text = _ESCAPED.sub(r"\\\g<0>", value).replace("\0", "\\00")
    return f"{keyword}=" + _OUTER_BLANKS.sub(lambda blanks: "".join(f"\\{blank}" for blank in blanks[0]), text)


def _value_in(data: bytes) -> bytes:
    """Return the encoded value, which follows the headers of a name, a set and a pair, and the encoded type."""
    for _ in range(3):
        data = data[_header_size(data) :]
    return data[_header_size(data) + data[1] :]  # The length of an object identifier always fits into one byte.


def _header_size(data: bytes) -> int:
    """Return the size of a DER value's type and length, in bytes."""
    return 2 if data[1] < _LONG_FORM else 2 + data[1] - _LONG_FORM


class PrincipalMapper:
    """The rules of `ssl.principal.mapping.rules`. The first matching rule applies.

    Raises:
        MappingRuleError: The rules are invalid.
    """

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules: list[tuple[re.Pattern[str], str, str] | None] = []
        position = 0
        text = rules.strip() or "DEFAULT"
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise MappingRuleError(f"ssl.principal.mapping.rules: {text[position:]!r} is not a rule")
            position = match.end()
            self._rules.append(None if match["default"] else _compile_rule(match))

    def name_of(self, subject: str) -> str:
        """Return the principal's name for the subject of a certificate.

        Raises:
            NoMappingError: No rule applies.
        """
        for rule in self._rules:
            if rule is None:
                return subject
            pattern, replacement, case = rule
            if pattern.fullmatch(subject):
                name = pattern.sub(replacement, subject)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        raise NoMappingError(f"no rule of ssl.principal.mapping.rules applies to {subject}")


def _compile_rule(match: re.Match[str]) -> tuple[re.Pattern[str], str, str]:
    try:
        pattern = re.compile(match["pattern"])
    except re.error as error:
        raise MappingRuleError(f"ssl.principal.mapping.rules: {match['pattern']!r}: {error}") from None
    groups = [
        int(reference[2]) for reference in _BACK_REFERENCE.finditer(match["replacement"]) if reference[2] is not None
    ]
    if max(groups, default=0) > pattern.groups:
        raise MappingRuleError(f"ssl.principal.mapping.rules: {match['pattern']!r} has no group {max(groups)}")
    return pattern, _BACK_REFERENCE.sub(_convert_reference, match["replacement"]), match["case"]


def _convert_reference(match: re.Match[str]) -> str:
    r"""Convert Java's $1 for a group to \g<1>, and \x for a literal x to x."""
    if match[2] is not None:
        return f"\\g<{match[2]}>"
    return "\\\\" if match[1] == "\\" else match[1]
