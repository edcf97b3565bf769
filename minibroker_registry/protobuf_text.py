"""The parser of Protobuf schemas.

It accepts what protoc accepts in proto2 and proto3, and like Confluent's registry it refuses editions. Comments are
dropped.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from minibroker_registry import protobuf_elements as elements
from minibroker_registry.protobuf_tokens import MAX_DEPTH, Tokens
from minibroker_registry.schema import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ENUM_NUMBER: Final = 2**31 - 1
_LABELS: Final = ("optional", "required", "repeated")


def parse_file(text: str) -> elements.File:
    """Parse the text of a schema.

    Raises:
        InvalidSchemaError: the text is not valid, too long or nested too deeply. The message has the line and column.
    """
    return _Parser(text).parse()


class _Parser(Tokens):
    """The state of one parse_file() call. A method reads an element after its keyword."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.file = elements.File()

    def parse(self) -> elements.File:
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
        statements: dict[str, Callable[[], object]] = {
            "package": self.package,
            "import": self.import_,
            "option": lambda: self.option_statement(file.options),
            "message": lambda: file.members.append(self.message()),
            "enum": lambda: file.members.append(self.enum()),
            "extend": lambda: file.members.append(self.extend()),
            "service": lambda: file.services.append(self.service()),
            ";": lambda: None,
        }
        while self.next:
            if self.next not in statements:
                raise self.unexpected("a message, an enum, or another statement")
            statements[self.advance()]()
        defined = [*file.services, *(member for member in file.members if not isinstance(member, elements.Extend))]
        for name, count in Counter(element.name for element in defined).items():
            if count > 1:
                raise InvalidSchemaError(f"{name} is defined twice.")
        return file

    def package(self) -> None:
        """Read the name of the package."""
        self.file.package = self.path()
        self.expect(";")

    def import_(self) -> None:
        """Read an import."""
        kind = self.advance() if self.next in ("public", "weak") else ""
        self.file.imports.append((kind, self.string()))
        self.expect(";")

    def block(self, statements: "dict[str, Callable[[], object]]", otherwise: "Callable[[], object]") -> None:
        """Read what stands in braces.

        Args:
            statements: What reads a statement after its keyword.
            otherwise: What reads a statement without a keyword.
        """
        self.enter("{")
        while not self.leave("}"):
            if self.next in statements:
                statements[self.advance()]()
            elif not self.accept(";"):
                otherwise()

    def message(self) -> elements.Message:
        """Read a message after its keyword."""
        return self.message_body(self.name())

    def message_body(self, name: str) -> elements.Message:
        """Read what a message has in braces."""
        message = elements.Message(name)
        members = message.members
        statements: dict[str, Callable[[], object]] = {
            "message": lambda: members.append(self.message()),
            "enum": lambda: members.append(self.enum()),
            "oneof": lambda: members.append(self.one_of()),
            "extend": lambda: members.append(self.extend()),
            "extensions": lambda: message.extensions.append(self.extensions()),
            "reserved": lambda: message.reserved.append(self.reserved(1, elements.MAX_TAG)),
            "option": lambda: self.option_statement(message.options),
        }
        self.block(statements, lambda: members.append(self.field()))
        return message

    def field(self, *, is_in_one_of: bool = False) -> elements.Field:
        """Read a field or a group."""
        is_proto3 = self.file.syntax == "proto3"
        label = self.advance() if not is_in_one_of and self.next in _LABELS else ""
        if label == "required" and is_proto3:
            raise self.error("proto3 has no required fields")
        if self.next == "group":
            return self.group(label)
        written = self.type()
        if written.startswith("map<") and (label or is_in_one_of):
            raise self.error("a map has no label and is in no oneof")
        if not (label or is_in_one_of or is_proto3 or written.startswith("map<")):
            raise self.error(f"the field of type {written[:40]!r} needs a label: optional, required or repeated")
        name = self.name()
        self.expect("=")
        tag, options = self.integer(1, elements.MAX_TAG), self.options()
        special = {option.name: option for option in options if option.special() is not None}
        options = [option for option in options if option.special() is None]
        options += [special[name] for name in sorted(special)]
        self.expect(";")
        return elements.Field(name, written, tag, label, options)

    def group(self, label: str) -> elements.Field:
        """Read a group."""
        written = self.advance()
        name = self.name()
        self.expect("=")
        tag = self.integer(1, elements.MAX_TAG)
        options = self.options()
        return elements.Field(name, written, tag, label, options, group=self.message_body(name))

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

    def one_of(self) -> elements.OneOf:
        """Read a oneof after its keyword."""
        result = elements.OneOf(self.name())
        self.block(
            {"option": lambda: self.option_statement(result.options)},
            lambda: result.fields.append(self.field(is_in_one_of=True)),
        )
        return result

    def extend(self) -> elements.Extend:
        """Read extension fields after the keyword."""
        result = elements.Extend(self.path())
        self.block({}, lambda: result.fields.append(self.field()))
        return result

    def enum(self) -> elements.Enum:
        """Read an enum after its keyword."""
        result = elements.Enum(self.name())
        limits = -MAX_ENUM_NUMBER - 1, MAX_ENUM_NUMBER
        statements: dict[str, Callable[[], object]] = {
            "option": lambda: self.option_statement(result.options),
            "reserved": lambda: result.reserved.append(self.reserved(*limits)),
        }
        self.block(statements, lambda: result.constants.append(self.constant(*limits)))
        return result

    def constant(self, first: int, last: int) -> elements.Constant:
        """Read a constant of an enum."""
        name = self.name()
        self.expect("=")
        result = elements.Constant(name, self.integer(first, last), self.options())
        self.expect(";")
        return result

    def range(self, first: int, last: int) -> elements.Range:
        """Read a number or a range."""
        start = self.integer(first, last)
        if not self.accept("to"):
            return (start,)
        return (start, last) if self.accept("max") else (start, self.integer(start, last))

    def reserved(self, first: int, last: int) -> list[elements.Range | str]:
        """Read reserved names and numbers after the keyword."""
        result: list[elements.Range | str] = []
        while not result or self.accept(","):
            result.append(self.string() if self.next[:1] in ('"', "'") else self.range(first, last))
        self.expect(";")
        return result

    def extensions(self) -> elements.Extensions:
        """Read ranges for extensions after the keyword."""
        ranges: list[elements.Range] = []
        while not ranges or self.accept(","):
            ranges.append(self.range(1, elements.MAX_TAG))
        result = elements.Extensions(ranges, self.options())
        self.expect(";")
        return result

    def service(self) -> elements.Service:
        """Read a service after its keyword."""
        result = elements.Service(self.name())
        statements: dict[str, Callable[[], object]] = {
            "option": lambda: self.option_statement(result.options),
            "rpc": lambda: result.rpcs.append(self.rpc()),
        }
        self.block(statements, lambda: self.expect(";"))
        return result

    def rpc(self) -> elements.Rpc:
        """Read a method after its keyword."""
        name = self.name()
        streams_request, request = self.rpc_type()
        self.expect("returns")
        streams_response, response = self.rpc_type()
        result = elements.Rpc(name, request, response, streams_request, streams_response)
        if not self.accept(";"):
            self.block({"option": lambda: self.option_statement(result.options)}, lambda: self.expect(";"))
        return result

    def rpc_type(self) -> tuple[bool, str]:
        """Read whether a method's request or response is a stream, and its type."""
        self.expect("(")
        name = self.path()
        streams = name == "stream" and self.next != ")"
        if streams:
            name = self.path()
        self.expect(")")
        return streams, name

    # Options.

    def option_statement(self, options: list[elements.Option]) -> None:
        """Read an option after its keyword."""
        options.append(self.option())
        self.expect(";")

    def options(self) -> list[elements.Option]:
        """Read options in brackets, if there are any."""
        if not self.accept("["):
            return []
        options = [self.option()]
        while self.accept(","):
            options.append(self.option())
        self.expect("]")
        return options

    def option(self) -> elements.Option:
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
            value = elements.Option(name, value, parenthesized)
        return elements.Option(parts[0][0], value, parts[0][1])

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
