r"""Java's .properties files, such as Kafka's server.properties, as `java.util.Properties.load` reads them.

A line is `key=value`, `key:value` or `key value`, and blanks around the separator are ignored. Lines that begin with
`#` or `!` are comments. A backslash at the end of a line joins the next line to it, without the next line's leading
blanks. In keys and values `\t`, `\n`, `\r`, `\f` and `\uXXXX` stand for characters. A backslash before any other
character stands for that character.
"""

from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_IN_KEYS = "=: #!"
_HEX = frozenset("0123456789abcdefABCDEF")
_HEX_DIGITS = 4


class PropertiesError(ValueError):
    """The error for a text that is not a .properties file. The message begins with the line number."""


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse the text of a .properties file. As in Java, the last value of a repeated key counts.

    Java decodes such files as ISO-8859-1, while this function takes text and leaves decoding to the caller. In Java
    a file that ends with a lone backslash may have an empty property. Here it has none.

    Raises:
        PropertiesError: A `\u` is not followed by four hexadecimal digits. The message names the line.
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
    """Yield each logical line, with its continuations joined, and the number of its first line, counted from 1."""
    joined = ""
    first = 0
    # Java recognizes only these line ends, while str.splitlines recognizes more.
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
    """Return the positions at which the key ends and the value begins."""
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
        if not piece:  # The text between two backslashes in a row is empty.
            out.append("\\" + next(pieces, ""))
        elif piece[0] == "u":
            digits = piece[1 : 1 + _HEX_DIGITS]
            if len(digits) < _HEX_DIGITS or not _HEX.issuperset(digits):
                raise PropertiesError(f"\\{piece[: 1 + _HEX_DIGITS]} is not \\u with four hexadecimal digits")
            out.append(chr(int(digits, 16)) + piece[1 + _HEX_DIGITS :])
        else:
            out.append(_ESCAPES.get(piece[0], piece[0]) + piece[1:])
    # Java escapes a character above U+FFFF as two surrogates. Encoding and decoding them combines them.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def format_properties(properties: Mapping[str, str]) -> str:
    """Format properties as text that `parse_properties` and Java read back unchanged."""
    return "".join(f"{_escape(key, _IN_KEYS)}={_escape(value, '')}\n" for key, value in properties.items())


def _escape(text: str, special: str) -> str:
    for character, escape in (("\\", "\\"), *((value, name) for name, value in _ESCAPES.items())):
        text = text.replace(character, f"\\{escape}")
    for character in special:
        text = text.replace(character, f"\\{character}")
    return f"\\{text}" if text.startswith(" ") and not special else text
