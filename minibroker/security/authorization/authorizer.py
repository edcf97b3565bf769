"""The authorizer: the rules, and the decisions based on them.

It reimplements Kafka's `StandardAuthorizer`. A DENY rule takes precedence over all ALLOW rules. If no rule applies to a
resource, access is denied unless `allow.everyone.if.no.acl.found` is true. The right to read, write, delete or alter a
resource includes the right to describe it. The right to alter configurations includes the right to describe them. Super
users (`super.users`, separated by semicolons) are allowed everything.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from minibroker.config.keys import refused
from minibroker.security.authorization.acls import (
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from minibroker.security.principals import BROKER, escape_for_log
from minibroker_protocol.json_values import camel_case
from minibroker_protocol.primitives import new_uuid, uuid_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from minibroker.cluster.cluster_metadata import ClusterMetadata
    from minibroker.config import BrokerConfig
    from minibroker.security.principals import Client

_logger = logging.getLogger(__name__)

_SECTION: Final = "acls"
_CLASS_NAME: Final = "authorizer.class.name"
_SUPER_USERS: Final = "super.users"
_SERVED_CLASSES: Final = frozenset(
    {
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    }
)
"""Authorizer classes that use ACLs: the current one, and the two that stored them in ZooKeeper."""

_EVERY_USER: Final = "User:*"
_MAX_CACHED_DECISIONS: Final = 10_000
_MAX_CACHED_NAME_LENGTH: Final = 500
"""Maximum length of a resource name in a cached decision, in characters. Clients can ask about names of any length."""
_UNUSED_NAME: Final = "hardcode"
"""A resource name that no rule contains. Kafka's interface uses it to ask about all resources of a type."""

_GRANTING: Final = {
    **{operation: frozenset({operation, Operation.ALL}) for operation in Operation},
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}
"""The operations whose ALLOW rules also allow each operation. DENY rules imply nothing."""

_DecisionKey = tuple[Any, str, Operation, ResourceType, str]
_Entry = dict[str, str]
"""A rule as stored in the metadata."""


def create_authorizer(config: BrokerConfig, metadata: ClusterMetadata) -> Authorizer:
    """Return the configured authorizer.

    Kafka also fails to start if it cannot load the class. Without an authorizer, every request would be allowed.

    Raises:
        ConfigError: The class is not supported.
    """
    name = config.text(_CLASS_NAME)
    if name not in _SERVED_CLASSES:
        served = ", ".join(sorted(_SERVED_CLASSES))
        raise refused(_CLASS_NAME, name, f"there is no JVM here to run it; these are served: {served}")
    return Authorizer(config, metadata)


class Authorizer:
    """The rules of one broker, stored in the section "acls" of the broker's metadata."""

    def __init__(self, config: BrokerConfig, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._super_users = _parse_super_users(config.optional_text(_SUPER_USERS) or "")
        self._default = config.boolean("allow.everyone.if.no.acl.found")
        self._decisions: dict[_DecisionKey, bool] = {}
        #: The number of changes to the rules.
        self.changes = 0
        metadata.replaced.subscribe(self._load)
        self._load()

    def allows(self, session: Client, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client is allowed to perform an operation on a resource."""
        # The broker itself may do everything. A client cannot obtain this principal by its name, because the objects
        # are compared.
        if session.principal is BROKER:
            return True
        question = session.principal, session.client_host, operation, resource_type, name
        # Most requests need the same few decisions, so they are cached. A change to the rules clears the cache.
        decision = self._decisions.get(question)
        return self._decide(question) if decision is None else decision

    def allows_somewhere(self, session: Client, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client is allowed to perform an operation on at least one resource of a type.

        The resource need not exist yet. This is Kafka's `authorizeByResourceType`. As in Kafka, a right that is
        only implied by another operation does not count.
        """
        # Kafka's default `authorizeByResourceType` first checks an unused name, so that rules for all resources and
        # `allow.everyone.if.no.acl.found` are taken into account.
        if self.allows(session, operation, resource_type, _UNUSED_NAME):
            return True
        allowing: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        principal, host = str(session.principal), _strip_slash(session.client_host)
        for acl in self._by_type.get(resource_type, ()):
            if (
                acl.principal not in {principal, _EVERY_USER}
                or acl.host not in {host, WILDCARD}
                or acl.operation not in {operation, Operation.ALL}
            ):
                continue
            patterns = allowing if acl.permission_type is PermissionType.ALLOW else denied
            patterns.add((acl.pattern_type, acl.resource_name))
        # A DENY rule for all resources takes precedence over every ALLOW rule.
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            (kind is PatternType.LITERAL and name == WILDCARD)
            or not (
                (kind is PatternType.LITERAL and (kind, name) in denied)
                or any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
            )
            for kind, name in allowing
        )

    def operations(
        self, session: Client, resource_type: ResourceType, name: str, supported: Collection[Operation]
    ) -> list[Operation]:
        """Return those of the supported operations that the client may perform on a resource (KIP-430)."""
        principal, host = str(session.principal), _strip_slash(session.client_host)
        return [operation for operation in supported if self._evaluate(principal, host, operation, resource_type, name)]

    def find(self, acl_filter: AclFilter) -> list[AclBinding]:
        """Return the rules that match a filter, in creation order."""
        only_match = acl_filter.only_match
        if only_match is not None:
            return [only_match] if only_match in self._entries else []
        return [acl for acl in self._entries if acl_filter.matches(acl)]

    def add(self, acls: Iterable[AclBinding]) -> None:
        """Add rules. Existing rules are unchanged.

        Raises:
            InvalidAclError: A rule is invalid. No rule is added.
            OSError: The metadata cannot be written. No rule is added.
        """
        added: dict[AclBinding, _Entry] = {}
        for acl in acls:
            acl.check()
            if acl not in self._entries and acl not in added:
                added[acl] = _to_entry(acl, uuid_text(new_uuid()))
        if added:
            self._store({**self._entries, **added})
            for acl in added:
                self._by_type.setdefault(acl.resource_type, _Rules()).add(acl)

    def remove(self, acls: Iterable[AclBinding]) -> None:
        """Remove rules.

        Raises:
            OSError: The metadata cannot be written. No rule is removed.
        """
        removed = {acl for acl in acls if acl in self._entries}
        if removed:
            self._store({acl: entry for acl, entry in self._entries.items() if acl not in removed})
            for acl in removed:
                self._by_type[acl.resource_type].remove(acl)

    def _store(self, entries: dict[AclBinding, _Entry]) -> None:
        # Write the rules to disk before they take effect, because an enforced rule must still exist after a crash.
        self._metadata.write(_SECTION, list(entries.values()))
        self._entries = entries
        self._forget_decisions()

    def _decide(self, question: _DecisionKey) -> bool:
        principal, host, operation, resource_type, name = question
        allowed = self._evaluate(str(principal), _strip_slash(host), operation, resource_type, name)
        if not allowed:
            message = f"{principal} at {_strip_slash(host)} may not {operation.name} {resource_type.name} {name}"
            _logger.info("%s", escape_for_log(message))
        # Cache only decisions with short names, because 10,000 names of 32 KiB would take 300 MB.
        if len(name) <= _MAX_CACHED_NAME_LENGTH:
            if len(self._decisions) >= _MAX_CACHED_DECISIONS:
                self._decisions.clear()
            self._decisions[question] = allowed
        return allowed

    def _evaluate(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        rules = self._by_type.get(resource_type)
        granting = _GRANTING[operation]
        has_rules = allowed = False
        for acl in () if rules is None else rules.matching(name):
            # Even a rule for another principal disables `allow.everyone.if.no.acl.found` for the resource.
            has_rules = True
            if acl.principal not in {principal, _EVERY_USER} or acl.host not in {host, WILDCARD}:
                continue
            if acl.permission_type is PermissionType.ALLOW:
                allowed = allowed or acl.operation in granting
            elif acl.operation in {operation, Operation.ALL}:
                # A DENY rule takes precedence, so the remaining rules need not be read.
                return False
        return allowed if has_rules else self._default

    def _load(self) -> None:
        """Load the rules from the metadata."""
        entries: list[_Entry] = self._metadata.read(_SECTION) or []
        self._entries = {_from_entry(entry): entry for entry in entries}
        self._by_type: dict[ResourceType, _Rules] = {}
        for acl in self._entries:
            self._by_type.setdefault(acl.resource_type, _Rules()).add(acl)
        self._forget_decisions()

    def _forget_decisions(self) -> None:
        self.changes += 1
        self._decisions.clear()


def _parse_super_users(text: str) -> frozenset[str]:
    """Parse a list of principals separated by semicolons (`SecurityUtils.parseKafkaPrincipal`).

    Raises:
        ConfigError: An element is not a principal.
    """
    principals = frozenset(name for element in text.split(";") if (name := element.strip()))
    for name in principals:
        if ":" not in name:
            raise refused(_SUPER_USERS, text, f"expected a string in format principalType:principalName but got {name}")
    return principals


def _strip_slash(host: str) -> str:
    """Return an address as in rules, without a leading slash."""
    return host.removeprefix("/")


class _Rules:
    """The rules for one resource type.

    Attributes:
        literal, prefixed: The rules of each name or prefix.
        lengths: The number of rules for prefixes of each length.
    """

    def __init__(self) -> None:
        self.literal: dict[str, dict[AclBinding, None]] = {}
        self.prefixed: dict[str, dict[AclBinding, None]] = {}
        self.lengths: Counter[int] = Counter()

    def add(self, acl: AclBinding) -> None:
        """Add a rule that does not exist yet."""
        name = acl.resource_name
        if acl.pattern_type is PatternType.PREFIXED:
            self.lengths[len(name)] += 1
            self.prefixed.setdefault(name, {})[acl] = None
        else:
            self.literal.setdefault(name, {})[acl] = None

    def remove(self, acl: AclBinding) -> None:
        """Remove an existing rule."""
        name = acl.resource_name
        rules_by_name = self.prefixed if acl.pattern_type is PatternType.PREFIXED else self.literal
        del rules_by_name[name][acl]
        if not rules_by_name[name]:
            del rules_by_name[name]
        if rules_by_name is self.prefixed:
            self.lengths -= Counter({len(name): 1})  # A count of zero is removed.

    def matching(self, name: str) -> Iterator[AclBinding]:
        """Yield the rules that apply to a resource. As in Kafka, a wildcard does not match names beginning with `*`."""
        yield from self.literal.get(name, ())
        if not name.startswith(WILDCARD):
            yield from self.literal.get(WILDCARD, ())
        for length in self.lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], ())

    def __iter__(self) -> Iterator[AclBinding]:
        for rules_by_name in (self.literal, self.prefixed):
            for rules in rules_by_name.values():
                yield from rules


def _to_entry(acl: AclBinding, id_: str) -> _Entry:
    values = {
        camel_case(name): value.name if isinstance(value, IntEnum) else value for name, value in acl._asdict().items()
    }
    return {"id": id_, **values}


def _from_entry(entry: _Entry) -> AclBinding:
    texts = [(entry[camel_case(name)], kind) for name, kind in AclBinding.__annotations__.items()]
    return AclBinding._make(kind[text] if issubclass(kind, IntEnum) else text for text, kind in texts)
