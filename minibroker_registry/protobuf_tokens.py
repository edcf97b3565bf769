"""The tokens of Protobuf schemas: names, numbers, strings and signs, without white space and comments.

Limits keep a parse below a second of CPU time. Text, names and nesting have them, too.
"""

import re
from typing import Final

from minibroker_registry.protobuf_elements import ESCAPES
from minibroker_registry.schema import InvalidSchemaError

MAX_TEXT_CHARACTERS: Final = 1_000_000
MAX_TOKENS: Final = 60_000
"""Tokens of a schema, enough for 9,000 fields."""

MAX_NAME_CHARACTERS: Final = 1_024
MAX_DEPTH: Final = 32
"""Levels of messages and of option values. protoc has the same limit for messages."""

_NEXT_TOKEN: Final = re.compile(
    r"""(?: [\ \t\r\n\f\v]++ | //[^\n]*+ | /\*(?:[^*]|\*(?!/))*+\*/ )*+
    (?: ( \.?[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+      # a name
        | \.?[0-9](?:[eE][+-]|[\w.])*+               # a number
        | "(?:[^"\\\n]|\\[^\n])*+" | '(?:[^'\\\n]|\\[^\n])*+'
        | . ) | \Z )""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)


class Tokens:
    """The tokens of a text, which are read one after the other.

    Attributes:
        next: The next token, or "" at the end.

    Raises:
        InvalidSchemaError: the text is too long, or not all of it is Unicode.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT_CHARACTERS:
            raise InvalidSchemaError(f"The schema has {len(text)} characters, more than {MAX_TEXT_CHARACTERS}.")
        if not text.isascii() and re.search("[\ud800-\udfff]", text):
            raise InvalidSchemaError("The schema has a character that is half of a surrogate pair.")
        self.text = text
        self.next = ""
        self.start = self.end = self.depth = self.count = 0
        self.advance()

    def advance(self) -> str:
        """Move to the next token and return the current one."""
        token = self.next
        match = _NEXT_TOKEN.match(self.text, self.end)
        assert match is not None  # It matches a single character, or the end.
        self.next = match[1] or ""
        self.end = match.end()
        self.start = self.end - len(self.next)
        self.count += 1
        if self.count > MAX_TOKENS:
            raise self.error(f"the schema has more than {MAX_TOKENS} tokens")
        return token

    def error(self, problem: str) -> InvalidSchemaError:
        """Return an error at the current token."""
        line = self.text.count("\n", 0, self.start) + 1
        column = self.start - self.text.rfind("\n", 0, self.start)
        return InvalidSchemaError(f"Syntax error in line {line}, column {column}: {problem}")

    def unexpected(self, expected: str) -> InvalidSchemaError:
        """Return an error about the current token."""
        if self.text.startswith("/*", self.start):
            return self.error("the comment does not end")
        if self.next in ('"', "'"):
            return self.error("the string does not end on its line")
        return self.error(f"expected {expected} but found {repr(self.next[:40]) if self.next else 'the end'}")

    def accept(self, token: str) -> bool:
        """Skip a token if it comes next, and return whether it did."""
        if self.next != token:
            return False
        self.advance()
        return True

    def expect(self, token: str) -> None:
        """Skip a token.

        Raises:
            InvalidSchemaError: another token comes next.
        """
        if not self.accept(token):
            raise self.unexpected(repr(token))

    def is_name(self) -> bool:
        """Return whether a name comes next."""
        return self.next[:1] == "_" or (self.next[:1].isalpha() and self.next.isascii())

    def name(self) -> str:
        """Read a name without dots."""
        if not self.is_name() or "." in self.next:
            raise self.unexpected("a name")
        return self.checked_name(self.advance())

    def path(self) -> str:
        """Read a name, which may have dots between its parts and before the first."""
        if not self.is_name() and not (self.next[:1] == "." and self.next[1:2].isidentifier()):
            raise self.unexpected("a name")
        return self.checked_name(self.advance())

    def checked_name(self, name: str) -> str:
        """Return a name if it is not too long."""
        if len(name) > MAX_NAME_CHARACTERS:
            raise self.error(f"the name before has more than {MAX_NAME_CHARACTERS} characters")
        return name

    def integer(self, first: int, last: int) -> int:
        """Read an integer between two others: decimal, octal or hexadecimal."""
        sign = "-" if self.accept("-") else ""
        digits = self.next
        base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[:1] == "0" and digits != "0" else 10
        if not digits[:1].isdecimal() or "_" in digits or len(digits) > MAX_NAME_CHARACTERS:
            raise self.unexpected("an integer")
        try:
            number = int(sign + digits, base)
        except ValueError:
            raise self.unexpected("an integer") from None
        if not first <= number <= last:
            raise self.error(f"{number} is not between {first} and {last}")
        self.advance()
        return number

    def string(self) -> str:
        """Read a string. Adjacent strings are concatenated."""
        parts: list[str] = []
        while self.next[:1] in ('"', "'") and len(self.next) > 1:
            part = self.advance()[1:-1]
            parts.append(unescape(part) if "\\" in part else part)
        if not parts:
            raise self.unexpected("a string in quotes")
        return "".join(parts)

    def enter(self, bracket: str) -> None:
        """Skip an opening bracket, which begins a level."""
        self.expect(bracket)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} levels are nested")

    def leave(self, bracket: str) -> bool:
        """Skip a closing bracket if it comes next, and return whether the level has ended."""
        has_ended = self.accept(bracket)
        self.depth -= has_ended
        return has_ended


def unescape(text: str) -> str:
    """Return the contents of a string literal. Bytes that are not UTF-8 become surrogate escapes."""

    def character(match: re.Match[str]) -> str:
        hexadecimal, octal, short, long, letter = match.groups()
        if letter is not None:
            return ESCAPES.get(letter, letter)
        if code := short or long:
            return int(code, 16).to_bytes(4, "big").decode("utf-32-be", "replace")
        value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF
        return bytes([value]).decode("ascii", "surrogateescape")

    unescaped = _ESCAPE.sub(character, text)
    return unescaped.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
