r"""Java's .properties files, as `java.util.Properties.load` reads them: the form of Kafka's server.properties.

A line is `key=value`, `key:value` or `key value`; blanks around the separator do not count. Lines that begin with `#`
or `!` are comments. A backslash at the end of a line joins the next one to it, without its leading blanks. In keys and
values `\t`, `\n`, `\r`, `\f` and `\uXXXX` stand for characters; a backslash before anything else means that itself.
"""

from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_IN_KEYS = "=: #!"
_HEX = frozenset("0123456789abcdefABCDEF")
_HEX_DIGITS = 4


class PropertiesError(ValueError):
    """The text is not a .properties file. The message begins with the number of the line."""


def parse_properties(text: str) -> dict[str, str]:
    r"""Read the text of a .properties file; of a key that occurs twice the last value counts, as in Java.

    Raises PropertiesError, which names the line, for a `\u` without four hexadecimal digits. Java reads such files as
    ISO-8859-1; this takes text, so decoding is the caller's choice. A file that ends with a lone backslash has no empty
    property here, which in Java it may have.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        try:
            properties[_unescape(line[:key_end])] = _unescape(line[value_start:])
        except PropertiesError as error:
            raise PropertiesError(f"line {number}: {error}") from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that says something, joined over its continuations, with the number of its first line from 1."""
    joined = ""
    first = 0
    # Only these three end a line in Java; str.splitlines knows more.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, natural in enumerate(lines, 1):
        line = natural.lstrip(_BLANKS)
        if not joined:
            if not line or line[0] in "#!":
                continue
            first = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined = ""
    if joined:
        yield first, joined


def _split(line: str) -> tuple[int, int]:
    """Find where the key ends and where the value begins."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in {"=", ":"}:
        value = value[1:].lstrip(_BLANKS)
    return end, len(line) - len(value)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    pieces = iter(text.split("\\"))
    out.append(next(pieces))
    for piece in pieces:
        if not piece:  # Two backslashes in a row: what follows the second is plain.
            out.append("\\" + next(pieces, ""))
        elif piece[0] == "u":
            digits = piece[1 : 1 + _HEX_DIGITS]
            if len(digits) < _HEX_DIGITS or not _HEX.issuperset(digits):
                raise PropertiesError(f"\\{piece[: 1 + _HEX_DIGITS]} is not \\u with four hexadecimal digits")
            out.append(chr(int(digits, 16)) + piece[1 + _HEX_DIGITS :])
        else:
            out.append(_ESCAPES.get(piece[0], piece[0]) + piece[1:])
    # Java escapes a character beyond U+FFFF as two surrogates, which only together are a character here.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def format_properties(properties: Mapping[str, str]) -> str:
    """Text that `parse_properties`, and Java, read as these properties."""
    return "".join(f"{_escape(key, _IN_KEYS)}={_escape(value, '')}\n" for key, value in properties.items())


def _escape(text: str, special: str) -> str:
    for character, escape in (("\\", "\\"), *((value, name) for name, value in _ESCAPES.items())):
        text = text.replace(character, f"\\{escape}")
    for character in special:
        text = text.replace(character, f"\\{character}")
    return f"\\{text}" if text.startswith(" ") and not special else text
