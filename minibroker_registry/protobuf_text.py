"""The parser of Protobuf schemas.

It accepts what protoc accepts in proto2 and proto3, and like Confluent's registry it refuses editions. Comments are
dropped. Limits keep a parse below a second of CPU time. Text, names and nesting have them, too.
"""

import re
from collections import Counter
from typing import Final

from minibroker_registry import protobuf_elements as elements
from minibroker_registry.protobuf_elements import ESCAPES, MAX_TAG, Element, File, Option
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
        if len(self.next) > MAX_NAME_CHARACTERS and self.next[0] not in ('"', "'"):
            raise self.error(f"a name or a number has more than {MAX_NAME_CHARACTERS} characters")
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
        return self.advance()

    def path(self) -> str:
        """Read a name, which may have dots between its parts and before the first."""
        if not self.is_name() and not (self.next[:1] == "." and self.next[1:2].isidentifier()):
            raise self.unexpected("a name")
        return self.advance()

    def integer(self, first: int, last: int) -> int:
        """Read an integer from `first` to `last`, in decimal, octal or hexadecimal."""
        sign = "-" if self.accept("-") else ""
        digits = self.next
        base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[:1] == "0" and digits != "0" else 10
        if not digits[:1].isdecimal() or "_" in digits:
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


_LABELS: Final = ("optional", "required", "repeated")
_ENUM_LIMITS: Final = (-(2**31), 2**31 - 1)
_MESSAGE: Final = frozenset({"option", "message", "enum", "oneof", "extend", "extensions", "reserved"})
_KEYWORDS: Final = {
    "file": frozenset({"package", "import", "option", "message", "enum", "extend", "service"}),
    "message": _MESSAGE,
    "enum": frozenset({"option", "reserved"}),
    "oneof": frozenset({"option"}),
    "extend": frozenset[str](),
    "service": frozenset({"option", "rpc"}),
    "rpc": frozenset({"option"}),
}
"""The keywords that begin statements in each kind of block."""


def parse_file(text: str) -> File:
    """Parse the text of a schema.

    Raises:
        InvalidSchemaError: the text is not valid, too long or nested too deeply. The message has the line and column.
    """
    return _Parser(text).parse()


class _Parser(Tokens):
    """The state of one parse_file() call."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.file = File()

    def parse(self) -> File:
        """Read the whole file."""
        file = self.file
        if self.next == "edition":
            raise self.error("editions are not supported, use proto2 or proto3")
        if self.accept("syntax"):
            self.expect("=")
            if self.next[1:-1] not in ("proto2", "proto3"):
                raise self.unexpected("'proto2' or 'proto3'")
            file.syntax = self.advance()[1:-1]
            self.expect(";")
        while self.next:
            self.statement(file)
        defined = Counter(element.name for element in (*file.only("service"), *file.only("message", "enum")))
        for name, count in defined.items():
            if count > 1:
                raise InvalidSchemaError(f"{name} is defined twice.")
        return file

    def statement(self, block: Element) -> None:
        """Read a statement of a block, which is the file or an element with braces."""
        if self.next in _KEYWORDS[block.kind]:
            keyword = self.advance()
            if keyword == "option":
                block.options.append(self.option())
                self.expect(";")
            elif keyword == "package":
                block.name = self.path()
                self.expect(";")
            elif keyword == "import":
                kind = self.advance() if self.next in ("public", "weak") else ""
                self.file.imports.append((kind, self.string()))
                self.expect(";")
            else:
                block.members.append(self.element(keyword, block))
        elif not self.accept(";"):
            if block.kind == "file":
                raise self.unexpected("a message, an enum, or another statement")
            if block.kind in ("service", "rpc"):
                raise self.unexpected("';'")
            block.members.append(self.constant() if block.kind == "enum" else self.field(block))

    def element(self, kind: str, block: Element) -> Element:
        """Read an element after its keyword."""
        element = Element(kind)
        if kind in ("reserved", "extensions"):
            self.ranges(element, *(_ENUM_LIMITS if block.kind == "enum" else (1, MAX_TAG)))
            return element
        element.name = self.path() if kind == "extend" else self.name()
        if kind == "rpc":
            element.type = self.rpc_type()
            self.expect("returns")
            element.returns = self.rpc_type()
            if self.accept(";"):
                return element
        return self.braces(element)

    def braces(self, element: Element) -> Element:
        """Read what an element has in braces, and return the element."""
        self.enter("{")
        while not self.leave("}"):
            self.statement(element)
        return element

    def field(self, block: Element) -> Element:
        """Read a field or a group of a message, a oneof or an extension."""
        is_proto3, is_in_one_of = self.file.syntax == "proto3", block.kind == "oneof"
        label = self.advance() if not is_in_one_of and self.next in _LABELS else ""
        if label == "required" and is_proto3:
            raise self.error("proto3 has no required fields")
        if self.next == "group":
            group = self.numbered(Element("group", type=self.advance(), label=label), 1, MAX_TAG)
            group.members = [self.braces(Element("message", group.name))]
            return group
        field = Element("field", type=self.type(), label=label)
        is_map = field.type.startswith("map<")
        if is_map and (label or is_in_one_of):
            raise self.error("a map has no label and is in no oneof")
        if not (label or is_in_one_of or is_proto3 or is_map):
            raise self.error(f"the field of type {field.type[:40]!r} needs a label: optional, required or repeated")
        self.numbered(field, 1, MAX_TAG)
        special = {option.name: option for option in field.options if option.special() is not None}
        field.options = [option for option in field.options if option.special() is None]
        field.options += [special[name] for name in sorted(special)]
        self.expect(";")
        return field

    def constant(self) -> Element:
        """Read a constant of an enum."""
        constant = self.numbered(Element("constant"), *_ENUM_LIMITS)
        self.expect(";")
        return constant

    def numbered(self, element: Element, first: int, last: int) -> Element:
        """Read the name, the number and the options of an element, and return it."""
        element.name = self.name()
        self.expect("=")
        element.number, element.options = self.integer(first, last), self.options()
        return element

    def type(self) -> str:
        """Read the type of a field."""
        written = self.path()
        if written != "map" or self.next != "<":
            return written
        self.advance()
        key = self.path()
        self.expect(",")
        value = self.path()
        self.expect(">")
        return f"map<{key}, {value}>"

    def ranges(self, element: Element, first: int, last: int) -> None:
        """Read the numbers, names and options of `reserved` or `extensions`."""
        while not element.ranges or self.accept(","):
            if element.kind == "reserved" and self.next[:1] in ('"', "'"):
                element.ranges.append(self.string())
                continue
            start = self.integer(first, last)
            if not self.accept("to"):
                element.ranges.append((start,))
            else:
                element.ranges.append((start, last if self.accept("max") else self.integer(start, last)))
        if element.kind == "extensions":
            element.options = self.options()
        self.expect(";")

    def rpc_type(self) -> str:
        """Read the type of a method's request or response, with `stream ` before it if it is a stream."""
        self.expect("(")
        name = self.path()
        if name == "stream" and self.next != ")":
            name = f"stream {self.path()}"
        self.expect(")")
        return name

    # Options.

    def options(self) -> list[Option]:
        """Read options in brackets, if there are any."""
        options: list[Option] = []
        if self.accept("["):
            while not options or self.accept(","):
                options.append(self.option())
            self.expect("]")
        return options

    def option(self) -> Option:
        """Read the name and the value of an option."""
        parts = [self.option_name()]
        while self.next[:1] == ".":
            if self.accept("."):
                parts.append(self.option_name())
            else:
                parts.extend((part, False) for part in self.path()[1:].split("."))
        if len(parts) > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} levels are nested")
        self.expect("=")
        value = self.value()
        for name, parenthesized in reversed(parts[1:]):
            value = Option(name, value, parenthesized)
        return Option(parts[0][0], value, parts[0][1])

    def option_name(self) -> tuple[str, bool]:
        """Read a part of an option's name, and whether it stands in parentheses."""
        if not self.accept("("):
            return self.path(), False
        name = self.path()
        self.expect(")")
        return name, True

    def value(self) -> elements.Value:
        """Read the value of an option."""
        if self.next == "{":
            return self.map_value()
        if self.next == "[":
            return self.list_value()
        if self.next[:1] in ('"', "'"):
            return self.string()
        sign = self.advance() if self.next in ("-", "+") else ""
        if not self.next[:1].isdecimal() and not (self.next[:1] == "." and self.next[1:2].isdecimal()):
            return elements.Word(sign.strip("+") + self.name())
        return elements.Word(sign.strip("+") + self.advance())

    def list_value(self) -> list[elements.Value]:
        """Read values in brackets."""
        values: list[elements.Value] = []
        self.enter("[")
        while not self.leave("]"):
            values.append(self.value())
            if not self.accept(",") and self.next != "]":
                raise self.unexpected("',' or ']'")
        return values

    def map_value(self) -> dict[str, elements.Value]:
        """Read the text format of a message in braces. A name that comes again has a list of all its values."""
        values: dict[str, elements.Value] = {}
        self.enter("{")
        while not self.leave("}"):
            key = self.map_key()
            if not self.accept(":") and self.next not in ("{", "["):
                raise self.unexpected("':'")
            value = self.value()
            if key in values:
                values[key] = several = elements.as_list(values[key])
                several.extend(elements.as_list(value))
            else:
                values[key] = value
            if not self.accept(","):
                self.accept(";")
        return values

    def map_key(self) -> str:
        """Read the name of a field, or that of an extension or a type's address in brackets."""
        if not self.accept("["):
            return self.name()
        key = self.path()
        if self.accept("/"):
            key += "/" + self.path()
        self.expect("]")
        return f"[{key}]"
