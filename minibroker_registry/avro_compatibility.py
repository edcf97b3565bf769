"""Whether a reader's Avro schema can read a writer's data, with the verdicts of Java's SchemaCompatibility.

The messages have the form of Confluent's. Each has two `%s`, for the reader's and then the writer's role.
"""

from typing import Final

from minibroker_registry.avro_types import Field, Type
from minibroker_registry.schema import Deadline, TooMuchWorkError

_SAME: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
"""The kinds of the writer that a reader's kind can read, besides its own."""

_DESCRIPTIONS: Final = {
    "FIXED_SIZE_MISMATCH": "At '{path}', the fixed type of the %s schema has another size than in the %s schema",
    "TYPE_MISMATCH": "At '{path}', the type of the %s schema cannot read the type of the %s schema",
    "NAME_MISMATCH": "At '{path}', the name in the %s schema and its aliases differ from the name in the %s schema",
    "MISSING_ENUM_SYMBOLS": "At '{path}', the %s schema lacks the symbols {detail} of the %s schema",
    "MISSING_UNION_BRANCH": "At '{path}', no branch of the %s schema can read a type of the %s schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "At '{path}', the field '{detail}' of the %s schema has no default,"
    " and the %s schema lacks it",
}
_MAX_FINDINGS: Final = 100
"""The most incompatibilities that are reported for a pair of types. Types in common would multiply them."""


def incompatibilities(reader: Type, writer: Type) -> list[str]:
    """Return a message for each reason why the reader's type cannot read the writer's data."""
    try:
        return [_message(*found) for found in _Comparison().compare(reader, writer, ())]
    except _GaveUpError as error:
        return [str(error)]
    except (RecursionError, TooMuchWorkError):
        return ["The schemas take too much work to compare"]


class _GaveUpError(Exception):
    """The schemas count as incompatible, because they could not be compared."""


_Finding = tuple[str, tuple[str, ...], str]
"""The type of an incompatibility, the path to it, and a detail."""


def _message(kind: str, path: tuple[str, ...], detail: str) -> str:
    pointer = "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)
    description = _DESCRIPTIONS[kind].format(path=pointer, detail=detail)
    return f"{{errorType:'{kind}', description:'{description}', additionalInfo:'{detail}'}}"


class _Comparison:
    """A comparison, which compares each pair of types once. A pair within itself counts as compatible."""

    def __init__(self) -> None:
        self._deadline = Deadline()
        self._findings: dict[tuple[int, int], list[_Finding]] = {}
        self._members: dict[int, dict[str, Field]] = {}

    def compare(self, reader: Type, writer: Type, path: tuple[str, ...]) -> list[_Finding]:
        self._deadline.check()
        pair = id(reader), id(writer)
        if pair not in self._findings:
            self._findings[pair] = []
            self._findings[pair] = self._compare(reader, writer, path)[:_MAX_FINDINGS]
        return self._findings[pair]

    def _compare(self, reader: Type, writer: Type, path: tuple[str, ...]) -> list[_Finding]:
        if reader.kind != writer.kind:
            return self._compare_kinds(reader, writer, path)
        if reader.items is not None and writer.items is not None:
            return self.compare(reader.items, writer.items, (*path, "items" if reader.kind == "array" else "values"))
        if reader.kind == "union":
            return [
                _missing_branch(branch, (*path, str(index)))
                for index, branch in enumerate(writer.branches)
                if self.compare(reader, branch, ())
            ]
        if reader.kind in _SAME:
            return []
        findings: list[_Finding] = []
        is_same_name = reader.name.rpartition(".")[2] == writer.name.rpartition(".")[2]
        if not is_same_name and writer.name not in reader.aliases:
            findings.append(("NAME_MISMATCH", (*path, "name"), f"expected: {writer.name}"))
        if reader.kind == "record":
            for index, member in enumerate(reader.fields):
                self._deadline.check()
                findings += self._compare_field(member, writer, (*path, "fields", str(index)))
        elif reader.kind == "enum":
            missing = sorted(set(writer.symbols).difference(reader.symbols))
            if missing and reader.default is None:
                findings.append(("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]"))
        elif reader.size != writer.size:
            sizes = f"expected: {writer.size}, found: {reader.size}"
            findings.append(("FIXED_SIZE_MISMATCH", (*path, "size"), sizes))
        return findings

    def _compare_kinds(self, reader: Type, writer: Type, path: tuple[str, ...]) -> list[_Finding]:
        """Compare types of different kinds."""
        if writer.kind == "union":
            found = (self.compare(reader, branch, (*path, str(at))) for at, branch in enumerate(writer.branches))
            return [finding for findings in found for finding in findings]
        if reader.kind == "union":
            # What is wrong with each branch is not told.
            is_readable = any(not self.compare(branch, writer, ()) for branch in reader.branches)
            return [] if is_readable else [_missing_branch(writer, path)]
        if writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return []
        kinds = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        return [("TYPE_MISMATCH", path, kinds)]

    def _compare_field(self, member: Field, writer: Type, path: tuple[str, ...]) -> list[_Finding]:
        written = self._members.get(id(writer))
        if written is None:
            written = self._members[id(writer)] = {candidate.name: candidate for candidate in writer.fields}
        names = [name for name in (member.name, *member.aliases) if name in written]
        if len(names) > 1:
            raise _GaveUpError(
                f"Reader record field {member.name} matches multiple fields in writer record {writer.name}"
            )
        if names:
            return self.compare(member.type, written[names[0]].type, (*path, "type"))
        if member.default:
            return []
        if member.type.kind == "enum" and member.type.default is not None:
            return self.compare(member.type, writer, (*path, "type"))
        return [("READER_FIELD_MISSING_DEFAULT_VALUE", path, member.name)]


def _missing_branch(writer: Type, path: tuple[str, ...]) -> _Finding:
    return "MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.kind.upper()}"
