"""Whether data of one JSON Schema is valid under another, by the rules of Confluent's registry.

The verdicts and the names of the differences are those of its class SchemaDiff; most follow from JSON Schema itself.
Some deserve notice. A property may be added only if the earlier schema did not allow it with another value, which an
open content model does. `patternProperties`, `propertyNames`, `contains`, `format` and conditions are not compared.
Schemas that refer to themselves are compatible unless a difference is found. A reference to a reference is followed no
further: it has a type of its own.

Confluent reports all differences and looks for those that matter. Here only those are made.
"""

import itertools
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, TypeAlias

from minibroker_registry.json_nodes import Node
from minibroker_registry.json_patterns import UnsupportedPatternError, is_found
from minibroker_registry.schema import Deadline, TooMuchWorkError

_Finding: TypeAlias = tuple[str, str]
"""The kind of a difference, and the path to it."""
_Pair: TypeAlias = tuple[int, int]
_Members: TypeAlias = tuple[Node, dict[str, Node]]
"""An object with its properties, or an array with its items by index."""

_LENIENT: Final = frozenset(
    {
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    }
)
"""The differences that `compatibilityPolicy` LENIENT allows."""
_CAPITAL: Final = re.compile("[A-Z]")
_DESCRIPTIONS: Final = (
    ("ADDED_TO_OPEN_CONTENT_MODEL", "the %s schema restricts what is open in the %s schema"),
    ("ADDED_TO_UNOPEN_CONTENT_MODEL", "the %s schema requires, without a default, what is missing in the %s schema"),
    ("REMOVED_FROM_CLOSED_CONTENT_MODEL", "the %s schema no longer allows what is in the %s schema"),
    ("PARTIALLY_OPEN_CONTENT_MODEL", "the %s schema does not cover what the %s schema allows"),
    ("ADDED", "the %s schema demands what the %s schema does not"),
    ("REMOVED", "the %s schema forbids what the %s schema allows"),
    ("INCREASED", "the bound of the %s schema is greater than in the %s schema"),
    ("DECREASED", "the bound of the %s schema is less than in the %s schema"),
    ("NARROWED", "the %s schema allows less than the %s schema"),
    ("EXTENDED", "the %s schema demands more than the %s schema"),
    ("", "the %s schema differs from the %s schema"),
)
"""What differences mean, by the end of their names."""
_MAX_FINDINGS: Final = 100
"""The most differences that are reported for a pair of schemas. Parts in common would multiply them."""
_MAX_TEXT: Final = 1_000


def differences(old: Node, new: Node, *, lenient: bool) -> list[str]:
    """Return a message for each reason why data of the old schema may be invalid under the new one.

    Each message has two `%s`, for the role of the new and then of the old schema.
    """
    try:
        findings = _Comparison(_LENIENT if lenient else frozenset()).run(old, new)
    except (TooMuchWorkError, RecursionError):
        return ["The schemas take too much work to compare"]
    return [_message(kind, path) for kind, path in findings]


def _message(kind: str, path: str) -> str:
    description = next(text for end, text in _DESCRIPTIONS if kind.endswith(end))
    return f'{{errorType:"{kind}", description:"At path \'#/{path[:_MAX_TEXT]}\', {description}"}}'


class _Comparison:
    """A comparison, which compares each pair of schemas once.

    A pair within itself counts as compatible. If the pair turns out not to be, what was concluded from that is wrong,
    so the comparison begins again with what it has learned.

    Args:
        ignored: The differences that do not matter.
    """

    def __init__(self, ignored: frozenset[str]) -> None:
        self._ignored = ignored
        self._deadline = Deadline()
        self._findings: dict[_Pair, list[_Finding]] = {}
        self._open: set[_Pair] = set()
        self._learned: dict[_Pair, list[_Finding]] = {}
        self._has_assumed = False

    def run(self, old: Node, new: Node) -> list[_Finding]:
        while True:
            self._findings, self._has_assumed = {}, False
            findings = self.compare(old, new)
            learned = {pair: found for pair, found in self._findings.items() if found}
            if not self._has_assumed or learned.keys() == self._learned.keys():
                return findings
            self._learned = learned

    def compare(self, old: Node | None, new: Node | None) -> list[_Finding]:
        """Return the differences that matter, with paths from these schemas on."""
        self._deadline.check()
        if new is None:
            return []
        if old is None:
            return [("SCHEMA_ADDED", "")]
        old, new = old.target or old, new.target or new
        pair = id(old), id(new)
        if pair in self._findings:
            return self._findings[pair]
        if pair in self._open:
            if pair not in self._learned:
                self._has_assumed = True
            return self._learned.get(pair, [])
        self._open.add(pair)
        found = (finding for finding in self._compare(old, new) if finding[0] not in self._ignored)
        findings = list(itertools.islice(found, _MAX_FINDINGS))
        self._open.remove(pair)
        self._findings[pair] = findings
        return findings

    def _compare_at(self, path: str, old: Node | None, new: Node | None) -> list[_Finding]:
        return [(kind, f"{path}/{rest}" if rest else path) for kind, rest in self.compare(old, new)]

    def _compare(self, old: Node, new: Node) -> Iterator[_Finding]:
        if self._is_part(old, new):
            return
        if old.kind != new.kind:
            is_bytes = old.is_connect_bytes and new.is_connect_bytes
            if old.kind != "never" and new.kind != "any" and not is_bytes:
                yield "TYPE_CHANGED", ""
            return
        yield from _compare_bounds(old, new)
        if new.kind == "object":
            yield from self._compare_objects(old, new)
        elif new.kind == "array":
            yield from self._compare_arrays(old, new)
        elif new.kind == "combined":
            yield from self._compare_sums(old, new)
        elif new.kind in {"enum", "const"} and not old.values <= new.values:
            is_narrowed = new.kind == "enum" and new.values < old.values
            yield f"ENUM_ARRAY_{'NARROWED' if is_narrowed else 'CHANGED'}", new.kind
        elif new.kind == "not" and self.compare(new.parts[0], old.parts[0]):
            yield "NOT_TYPE_EXTENDED", "not"
        elif new.kind == "number" and new.is_integer and not old.is_integer:
            yield "TYPE_NARROWED", ""
        if new.pattern is not None and new.pattern != old.pattern:
            yield f"PATTERN_{'ADDED' if old.pattern is None else 'CHANGED'}", "pattern"

    def _is_part(self, old: Node, new: Node) -> bool:
        """Return whether one schema is a combination, and its part alone decides that data stays valid."""
        if (old.kind == "combined") == (new.kind == "combined"):
            return False
        combination = new if new.kind == "combined" else old
        if len(combination.parts) != 1 and (combination.criterion == "allOf") == (combination is new):
            return False
        if combination is new:
            return any(not self.compare(old, part) for part in new.parts)
        return any(not self.compare(part, new) for part in old.parts)

    def _compare_sums(self, old: Node, new: Node) -> Iterator[_Finding]:
        """Compare `allOf`, `anyOf` and `oneOf`: each part of the smaller one needs a part of the other to itself."""
        is_old_single, is_new_single = len(old.parts) == 1, len(new.parts) == 1
        is_comparable = (
            new.criterion in {old.criterion, "anyOf"}
            or (is_old_single and (is_new_single or new.criterion == "oneOf"))
            or (is_new_single and old.criterion == "allOf")
        )
        if not is_comparable:
            yield "COMBINED_TYPE_CHANGED", ""
            return
        old_parts = dict(zip(old.digests, old.parts, strict=True))
        new_parts = dict(zip(new.digests, new.parts, strict=True))
        if len(old_parts) < len(new_parts) and new.criterion == "allOf":
            yield "PRODUCT_TYPE_EXTENDED", ""
        if len(old_parts) > len(new_parts) and old.criterion != "allOf":
            yield "SUM_TYPE_NARROWED", ""
        if self._count_matches(old_parts, new_parts) < min(len(old_parts), len(new_parts)):
            yield "COMBINED_TYPE_SUBSCHEMAS_CHANGED", ""

    def _count_matches(self, old: dict[str, Node], new: dict[str, Node]) -> int:
        """Return for how many old parts there is a compatible new part, each for itself (a maximum matching)."""
        owners: dict[str, str] = {}

        def match(key: str, passed: set[str]) -> bool:
            for candidate in (key, *new) if key in new else new:
                if candidate in passed or self.compare(old[key], new[candidate]):
                    continue
                passed.add(candidate)
                if candidate not in owners or match(owners[candidate], passed):
                    owners[candidate] = key
                    return True
            return False

        for key in old:
            match(key, set())
        return len(owners)

    def _compare_objects(self, old: Node, new: Node) -> Iterator[_Finding]:
        yield from self._compare_members("PROPERTY", "properties", (old, old.properties), (new, new.properties))
        for name, names in new.dependencies.items():
            before_names = old.dependencies.get(name)
            if before_names is None or not names <= before_names:
                end = "ADDED" if before_names is None else "EXTENDED" if before_names <= names else "CHANGED"
                yield f"DEPENDENCY_ARRAY_{end}", f"dependencies/{name}"
        for name, member in new.dependent_schemas.items():
            if name in old.dependent_schemas:
                yield from self._compare_at(f"dependencies/{name}", old.dependent_schemas[name], member)
            else:
                yield "DEPENDENCY_SCHEMA_ADDED", f"dependencies/{name}"
        yield from self._compare_additional("Properties", "PROPERTIES", old, new)

    def _compare_arrays(self, old: Node, new: Node) -> Iterator[_Finding]:
        yield from self._compare_at("items", old.items, new.items)
        members = [(node, {str(index): item for index, item in enumerate(node.positions)}) for node in (old, new)]
        yield from self._compare_members("ITEM", "items", *members)
        yield from self._compare_additional("Items", "ITEMS", old, new)
        if new.is_unique and not old.is_unique:
            yield "UNIQUE_ITEMS_ADDED", "uniqueItems"

    def _compare_members(self, word: str, path: str, old: _Members, new: _Members) -> Iterator[_Finding]:
        """Compare the properties of objects, or the items of arrays that have positions.

        Args:
            word: PROPERTY or ITEM, for the findings' names.
            path: The keyword that the members stand under.
            old: The old schema, and its members by name or index.
            new: The new schema, and its members.
        """
        for name, member in new[1].items():
            is_demanded = name in new[0].required and not member.has_default
            if name in old[1]:
                if is_demanded and name not in old[0].required:
                    yield "REQUIRED_ATTRIBUTE_ADDED", f"required/{name}"
                yield from self._compare_at(f"{path}/{name}", old[1][name], member)
            elif _is_open(old[0]):
                need = "REQUIRED_" if name in new[0].required else "OPTIONAL_" if word == "PROPERTY" else ""
                default = "_WITH_DEFAULT" if need == "REQUIRED_" and not is_demanded else ""
                if member.kind != "any":
                    yield f"{need}{word}{default}_ADDED_TO_OPEN_CONTENT_MODEL", f"{path}/{name}"
            else:
                yield from self._compare_covered(f"{word}_ADDED", f"{path}/{name}", _find_cover(old[0], name), member)
                if is_demanded:
                    yield "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", f"{path}/{name}"
        for name, member in old[1].items():
            if name not in new[1] and not _is_open(new[0]):
                allowed = _find_cover(new[0], name)
                yield from self._compare_covered(f"{word}_REMOVED", f"{path}/{name}", member, allowed)
                if allowed is None and member.kind != "never":
                    yield f"{word}_REMOVED_FROM_CLOSED_CONTENT_MODEL", f"{path}/{name}"

    def _compare_covered(self, word: str, path: str, old: Node | None, new: Node | None) -> Iterator[_Finding]:
        """Compare a member that one schema lacks with what that schema allows in its place, or with nothing."""
        if old is not None and new is not None and self.compare(old, new):
            yield from self._compare_at(path, old, new)
            yield f"{word}_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path

    def _compare_additional(self, word: str, name: str, old: Node, new: Node) -> Iterator[_Finding]:
        """Compare what is allowed besides the properties or items that the schemas name."""
        path = f"additional{word}"
        if isinstance(new.additional, Node):
            if old.additional is True:
                yield f"ADDITIONAL_{name}_NARROWED", path
            elif isinstance(old.additional, Node):
                yield from self._compare_at(path, old.additional, new.additional)
        elif not new.additional and old.additional:
            yield f"ADDITIONAL_{name}_REMOVED", path
        path = f"unevaluated{word}"
        before, after = old.unevaluated, new.unevaluated
        if after is None:
            return
        if after.kind == "never":
            if before is None or before.kind != "never":
                yield f"UNEVALUATED_{name}_REMOVED", path
        elif before is None or (before.kind == "any" and after.kind != "any"):
            yield f"UNEVALUATED_{name}_NARROWED", path
        elif before.kind != "never" and after.kind != "any":
            yield from self._compare_at(path, before, after)


def _compare_bounds(old: Node, new: Node) -> Iterator[_Finding]:
    for keyword, bound in new.limits.items():
        before = old.limits.get(keyword)
        name = _CAPITAL.sub(r"_\g<0>", keyword).upper()  # maxLength: MAX_LENGTH
        if before is None:
            yield f"{name}_ADDED", keyword
        elif keyword == "multipleOf":
            if not is_multiple(Decimal(before), Decimal(bound)):
                end = "EXPANDED" if is_multiple(Decimal(bound), Decimal(before)) else "CHANGED"
                yield f"{name}_{end}", keyword
        elif bound < before and "MAX" in name:
            yield f"{name}_DECREASED", keyword
        elif bound > before and "MAX" not in name:
            yield f"{name}_INCREASED", keyword


def is_multiple(number: Decimal, divisor: Decimal) -> bool:
    """Return whether a number is a whole multiple of another one."""
    try:
        return not number % divisor
    except ArithmeticError:  # The quotient has too many digits.
        return False


def _is_open(node: Node) -> bool:
    """Return whether an object or an array may have properties or items of any kind that it does not name."""
    return (
        node.additional is True and not node.patterns and (node.unevaluated is None or node.unevaluated.kind == "any")
    )


def _find_cover(node: Node, name: str) -> Node | None:
    """Return the schema for a property, or for an item, that a schema does not name, or None."""
    for pattern, schema in node.patterns.items():
        try:
            if is_found(pattern, name):
                return schema
        except UnsupportedPatternError:
            return schema  # It may match. Then the property has to fit this schema.
    if isinstance(node.additional, Node):
        return node.additional
    is_covering = node.additional and node.unevaluated is not None and node.unevaluated.kind not in {"any", "never"}
    return node.unevaluated if is_covering else None
