"""The syntax of `sasl.jaas.config`: a login module, a flag, options (`JaasConfig`, Java's `ConfigFile`).

org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<word>[^\s"'=;]+)|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<sign>[=;])|(?P<end>\Z))""",
    re.DOTALL,
)
_LOGIN_CONFIG: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_COMMENT: Final = re.compile(r"^[ \t]*//[^\n]*|/\*.*?\*/", re.MULTILINE | re.DOTALL)
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_SECTION: Final = rf"\s*\{{((?:{_QUOTED}|[^\"}}])*)\}}\s*;"
_LOGINS: Final = re.compile(rf"(?:{_QUOTED}|[^;\"])+;")
_MECHANISMS: Final = {
    "PlainLoginModule": ("plain",),
    "ScramLoginModule": ("scram-sha-256", "scram-sha-512"),
    "OAuthBearerLoginModule": ("oauthbearer",),
}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


class JaasError(ValueError):
    """An invalid login configuration. The message contains no part of it, because it can include passwords."""


class JaasLogin(NamedTuple):
    """A login module with its options."""

    module: str
    options: dict[str, str]


def login_config_of(java_options: str) -> str | None:
    """Return the path that Java options such as KAFKA_OPTS set with `java.security.auth.login.config`."""
    match = _LOGIN_CONFIG.search(java_options)
    return None if match is None else match[1].strip("\"'")


def parse_jaas(text: str) -> JaasLogin:
    """Parse a text that contains exactly one login module, and return the module.

    Raises:
        JaasError: The text is invalid.
    """
    tokens = _tokenize(text)
    module, flag = (tokens.pop(0)[0] if tokens else "" for _ in range(2))
    if not module:
        raise JaasError("a login module is missing")
    if flag.lower() not in _FLAGS:
        raise JaasError(f"after the login module there must be one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while tokens and tokens[0] != (";", True):
        (key, _), equals, (value, is_sign) = [*tokens[:3], *[("", True)] * 3][:3]
        if equals != ("=", True) or is_sign:
            raise JaasError(f"the option number {len(options) + 1} is not NAME=VALUE")
        options[key] = value
        tokens = tokens[3:]
    if not tokens:
        raise JaasError("the semicolon at the end is missing")
    if len(tokens) > 1:
        raise JaasError("there must be one login module, but more follows its semicolon")
    return JaasLogin(module, options)


def section_of(text: str, name: str) -> str:
    """Return the logins in a section of a JAAS file.

    Raises:
        JaasError: The file has no such section.
    """
    match = re.search(rf"(?<![\w.]){name}{_SECTION}", _COMMENT.sub("", text))
    if match is None:
        raise JaasError(f"there is no section {name}")
    return match[1].strip()


def server_logins(text: str) -> dict[str, str]:
    """Return the logins in the section `KafkaServer` of a JAAS file, as settings such as `plain.sasl.jaas.config`.

    Raises:
        JaasError: The file is invalid or has no such section.
    """
    settings: dict[str, str] = {}
    for login in filter(str.strip, _LOGINS.findall(section_of(text, "KafkaServer"))):
        class_name = parse_jaas(login).module.rpartition(".")[2]
        for mechanism in _MECHANISMS.get(class_name, ()):
            settings[f"{mechanism}.sasl.jaas.config"] = " ".join(login.split())
    return settings


def user_logins(passwords: Mapping[str, str]) -> dict[str, str]:
    """Return settings such as `plain.sasl.jaas.config` that let users log in with PLAIN and SCRAM.

    They take effect for the mechanisms that are enabled.
    """
    options = user_options(passwords)
    return {
        f"{mechanism}.sasl.jaas.config": f"org.apache.kafka.common.security.{package}.{module} required{options};"
        for package, module in (("plain", "PlainLoginModule"), ("scram", "ScramLoginModule"))
        for mechanism in _MECHANISMS[module]
    }


def user_options(passwords: Mapping[str, str]) -> str:
    """Return the options that set users and their passwords, each preceded by a space."""
    return "".join(f" {quote(f'user_{name}')}={quote(password)}" for name, password in passwords.items())


def quote(text: str) -> str:
    """Return a text in quotation marks, escaped for a login configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tokenize(text: str) -> list[tuple[str, bool]]:
    """Split text into words and delimiters (= or ;), each with a flag that is true for a delimiter."""
    tokens: list[tuple[str, bool]] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quotation mark has no counterpart")
        if match["end"] is not None:
            return tokens
        position = match.end()
        quoted_text = match["double"] if match["double"] is not None else match["single"]
        if quoted_text is not None:
            tokens.append((_ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), quoted_text), False))
        else:
            tokens.append((match["word"] or match["sign"], match["sign"] is not None))
