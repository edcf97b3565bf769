"""The rules of an authorizer, by what they are about.

A `RuleSet` never changes: another one takes its place, which is made in slices beside it. So a check while a
large change is made meets the rules of before, or those of after it.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Self

from minibroker.security.authorization.acls import (
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from minibroker.support.slices import Steps
from minibroker_protocol.uuids import new_uuid, uuid_text

_BY_STEP: Final = 50
Entry = dict[str, str]
"""A rule as the metadata keeps it."""

_Named = dict[str, dict[AclBinding, None]]


class Rules:
    """The rules for one type of resources, by what they name.

    Attributes:
        literal, prefixed: the rules of each name, by how they name it.
        lengths: how many prefixes have a length.
    """

    __slots__ = ("_own", "lengths", "literal", "prefixed")

    def __init__(self, before: Self | None = None) -> None:
        self.literal: _Named = {} if before is None else dict(before.literal)
        self.prefixed: _Named = {} if before is None else dict(before.prefixed)
        self.lengths: dict[int, int] = {} if before is None else dict(before.lengths)
        self._own: set[tuple[bool, str]] = set()  # which names have rules that no other object shares

    def add(self, acl: AclBinding) -> None:
        """Take one more in."""
        named = self._named(acl)
        if acl.resource_name not in named and named is self.prefixed:
            length = len(acl.resource_name)
            self.lengths[length] = self.lengths.get(length, 0) + 1
        self._owned(named, acl)[acl] = None

    def remove(self, acl: AclBinding) -> None:
        """Forget one."""
        named = self._named(acl)
        rules = self._owned(named, acl)
        del rules[acl]
        if rules:
            return
        del named[acl.resource_name]
        if named is self.prefixed:
            length = len(acl.resource_name)
            self.lengths[length] -= 1
            if not self.lengths[length]:
                del self.lengths[length]

    def _named(self, acl: AclBinding) -> _Named:
        return self.prefixed if acl.pattern_type is PatternType.PREFIXED else self.literal

    def _owned(self, named: _Named, acl: AclBinding) -> dict[AclBinding, None]:
        """The rules of a name, copied once before they are changed."""
        key = named is self.prefixed, acl.resource_name
        if key not in self._own:
            self._own.add(key)
            named[acl.resource_name] = dict(named.get(acl.resource_name, ()))
        return named[acl.resource_name]

    def about(self, name: str) -> Iterator[AclBinding]:
        """Those that are about a resource. As in Kafka, no wildcard is about a name that begins like one."""
        yield from self.literal.get(name, ())
        if not name.startswith(WILDCARD):
            yield from self.literal.get(WILDCARD, ())
        for length in self.lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], ())

    def __iter__(self) -> Iterator[AclBinding]:
        for named in (self.literal, self.prefixed):
            for rules in named.values():
                yield from rules


class RuleSet:
    """All rules at one time.

    Attributes:
        entries: the rules in the order in which they were made, each as the metadata keeps it.
        by_type: the same rules.
    """

    __slots__ = ("by_type", "entries")

    def __init__(self, entries: dict[AclBinding, Entry], by_type: dict[ResourceType, Rules]) -> None:
        self.entries = entries
        self.by_type = by_type

    @classmethod
    def read(cls, kept: Iterable[Entry]) -> Self:
        """The rules that the metadata keeps."""
        entries = {_read(each): each for each in kept}
        by_type: dict[ResourceType, Rules] = {}
        for acl in entries:
            by_type.setdefault(acl.resource_type, Rules()).add(acl)
        return cls(entries, by_type)

    def find(self, acl_filter: AclFilter) -> Steps[list[AclBinding]]:
        """The rules that a filter finds, in the order in which they were made."""
        only = acl_filter.only
        if only is not None:
            return [only] if only in self.entries else []
        found: list[AclBinding] = []
        for number, acl in enumerate(self.entries, 1):
            if acl_filter.matches(acl):
                found.append(acl)
            if not number % _BY_STEP:
                yield
        return found

    def with_rules(self, acls: Iterable[AclBinding]) -> Steps["RuleSet"]:
        """These rules and others; the same object where there are no others."""
        change = _Change(self)
        for number, acl in enumerate(acls, 1):
            change.add(acl)
            if not number % _BY_STEP:
                yield
        return change.result

    def without(self, acls: Iterable[AclBinding]) -> Steps["RuleSet"]:
        """These rules but some; the same object where there are none of those."""
        change = _Change(self)
        for number, acl in enumerate(acls, 1):
            change.remove(acl)
            if not number % _BY_STEP:
                yield
        return change.result


class _Change:
    def __init__(self, before: RuleSet) -> None:
        self.result = self._before = before
        self._copied: set[ResourceType] = set()

    def add(self, acl: AclBinding) -> None:
        if acl not in self.result.entries:
            self._rules(acl).add(acl)
            self.result.entries[acl] = _written(acl, uuid_text(new_uuid()))

    def remove(self, acl: AclBinding) -> None:
        if acl in self.result.entries:
            self._rules(acl).remove(acl)
            del self.result.entries[acl]

    def _rules(self, acl: AclBinding) -> Rules:
        if self.result is self._before:
            self.result = RuleSet(dict(self._before.entries), dict(self._before.by_type))
        kind = acl.resource_type
        if kind not in self._copied:
            self._copied.add(kind)
            self.result.by_type[kind] = Rules(self._before.by_type.get(kind))
        return self.result.by_type[kind]


def _written(acl: AclBinding, id_: str) -> Entry:
    return {
        "id": id_,
        "resourceType": acl.resource_type.name,
        "resourceName": acl.resource_name,
        "patternType": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permissionType": acl.permission_type.name,
    }


def _read(entry: Entry) -> AclBinding:
    return AclBinding(
        ResourceType[entry["resourceType"]],
        entry["resourceName"],
        PatternType[entry["patternType"]],
        entry["principal"],
        entry["host"],
        Operation[entry["operation"]],
        PermissionType[entry["permissionType"]],
    )
