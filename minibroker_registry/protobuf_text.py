"""The parser of Protobuf schemas.

It accepts what protoc accepts in proto2 and proto3, and like Confluent's registry it refuses editions. Comments are
dropped.
"""

from collections import Counter
from typing import Final

from minibroker_registry import protobuf_elements as elements
from minibroker_registry.protobuf_elements import MAX_TAG, Element, File, Option
from minibroker_registry.protobuf_tokens import MAX_DEPTH, Tokens
from minibroker_registry.schema import InvalidSchemaError

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
        return elements.Word(sign.strip("+") + self.checked_name(self.advance()))

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
