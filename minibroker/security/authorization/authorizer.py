"""The authorizer: the rules, and the decisions that follow from them.

Kafka's `StandardAuthorizer` in our own words. A rule that denies beats all that allow. Where no rule is about a
resource, access is denied, unless `allow.everyone.if.no.acl.found` says so. To be allowed to read, write,
delete or alter something is to be allowed to describe it, and who may alter configurations may describe them. Super
users (`super.users`, with semicolons between them) may do everything.
"""

from __future__ import annotations

import logging
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
from minibroker.security.authorization.rules import RuleSet
from minibroker.security.log_text import one_line
from minibroker.security.principals import BROKER
from minibroker.support.slices import drain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from minibroker.cluster.section_store import ClusterMetadata
    from minibroker.config import BrokerConfig
    from minibroker.security.principals import Client
    from minibroker.support.slices import Steps

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
"""The authorizers whose rules CreateAcls makes: today's class, and the two that kept their rules in ZooKeeper."""

_EVERYBODY: Final = "User:*"
_REMEMBERED: Final = 10_000
_LONGEST_REMEMBERED: Final = 500
"""Of a name, in characters: clients may ask about names of any length, which are theirs to choose."""
_ANY_NAME: Final = "hardcode"
"""Stands for a resource that no rule names: what Kafka's interface asks about in place of all resources of a type."""

_GRANTING: Final = {
    **{operation: frozenset({operation, Operation.ALL}) for operation in Operation},
    Operation.DESCRIBE: frozenset(
        {
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALL,
        }
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}
"""The operations of a rule that also allow another one. A rule that denies implies nothing."""

_Question = tuple[Any, str, Operation, ResourceType, str]


def authorizer_of(config: BrokerConfig, metadata: ClusterMetadata) -> Authorizer:
    """The authorizer that is configured. ConfigError for a class that is not served.

    Kafka does not start either when it cannot load the class; to go on without it would allow what should be refused.
    """
    name = config.text(_CLASS_NAME)
    if name not in _SERVED_CLASSES:
        served = ", ".join(sorted(_SERVED_CLASSES))
        raise refused(_CLASS_NAME, name, f"there is no JVM here to run it; these are served: {served}")
    return Authorizer(config, metadata)


class Authorizer:
    """The rules of one broker; they are kept in the section "acls" of its metadata."""

    def __init__(self, config: BrokerConfig, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._super_users = _super_users(config.optional_text(_SUPER_USERS) or "")
        self._default = config.boolean("allow.everyone.if.no.acl.found")
        self._decisions: dict[_Question, bool] = {}
        #: How often the rules have changed.
        self.changes = 0
        metadata.subscribe(_SECTION, self._load)
        self._load()

    def allows(self, session: Client, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """May the client do this to a resource?"""
        # The broker itself. Clients can't take this principal by its name: it is compared as an object.
        if session.principal is BROKER:
            return True
        question = session.principal, session.client_host, operation, resource_type, name
        # The same few questions come with each request. A change of the rules forgets all answers.
        known = self._decisions.get(question)
        return self._decide(question) if known is None else known

    def allows_somewhere(self, session: Client, operation: Operation, resource_type: ResourceType) -> bool:
        """May the client do this to at least one resource that there is or may be (`authorizeByResourceType`)?

        What one operation implies for another does not count here, as in Kafka.
        """
        # Kafka's default `authorizeByResourceType` asks for a name that no one would use, so that wildcards and
        # `allow.everyone.if.no.acl.found` count.
        if self.allows(session, operation, resource_type, _ANY_NAME):
            return True
        allowing: list[AclBinding] = []
        denied: set[tuple[PatternType, str]] = set()
        principal, host = str(session.principal), _address(session.client_host)
        for acl in self._rules.by_type.get(resource_type, ()):
            if (
                acl.principal not in {principal, _EVERYBODY}
                or acl.host not in {host, WILDCARD}
                or acl.operation not in {operation, Operation.ALL}
            ):
                continue
            if acl.permission_type is PermissionType.ALLOW:
                allowing.append(acl)
            else:
                denied.add((acl.pattern_type, acl.resource_name))
        # Denied everywhere: whatever allows a single resource is beaten.
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            _is_wildcard(acl)
            or not (
                (acl.pattern_type is PatternType.LITERAL and (PatternType.LITERAL, acl.resource_name) in denied)
                or any(
                    (PatternType.PREFIXED, acl.resource_name[:length]) in denied
                    for length in range(1, len(acl.resource_name) + 1)
                )
            )
            for acl in allowing
        )

    def operations(
        self, session: Client, resource_type: ResourceType, name: str, supported: Collection[Operation]
    ) -> list[Operation]:
        """Return those of the supported operations that the client may do on a resource (KIP-430)."""
        return [each for each in supported if self._may(session, each, resource_type, name)]

    def find(self, acl_filter: AclFilter) -> list[AclBinding]:
        """`finding`, at once."""
        return drain(self.finding(acl_filter))

    def add(self, acls: Iterable[AclBinding]) -> None:
        """`adding`, at once."""
        drain(self.adding(tuple(acls)))

    def remove(self, acls: Iterable[AclBinding]) -> None:
        """`removing`, at once."""
        drain(self.removing(tuple(acls)))

    def finding(self, acl_filter: AclFilter) -> Steps[list[AclBinding]]:
        """The rules that a filter finds, in the order in which they were made."""
        return self._rules.find(acl_filter)

    def adding(self, acls: Collection[AclBinding]) -> Steps[None]:
        """Make rules; those that exist stay. InvalidAclError, before any is made. OSError of the disk."""
        for acl in acls:
            acl.check()
            yield
        yield from self._change(lambda rules: rules.with_rules(acls))

    def removing(self, acls: Collection[AclBinding]) -> Steps[None]:
        """Forget rules. OSError of the disk."""
        yield from self._change(lambda rules: rules.without(acls))

    def _change(self, changed: Callable[[RuleSet], Steps[RuleSet]]) -> Steps[None]:
        while True:
            before = self._rules
            after = yield from changed(before)
            kept = list(after.entries.values())
            yield from self._metadata.preparing(_SECTION, kept)
            # `preparing` takes slices: write only what was made of the rules that are still in force.
            if self._rules is before:  # else the rules were reset, or changed from within the process
                break
        if after is not before:
            # On disk before it counts: after a crash a rule that was enforced must still be there.
            self._metadata.write(_SECTION, kept)
            self._take(after)

    def _may(self, session: Client, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self._decision(str(session.principal), _address(session.client_host), operation, resource_type, name)

    def _decide(self, question: _Question) -> bool:
        principal, host, operation, resource_type, name = question
        allowed = self._decision(str(principal), _address(host), operation, resource_type, name)
        if not allowed:
            message = f"{principal} at {_address(host)} may not {operation.name} {resource_type.name} {name}"
            _logger.info("%s", one_line(message))
        # A client could fill 300 MB with 10,000 names of 32 KiB.
        if len(name) > _LONGEST_REMEMBERED:
            return allowed
        if len(self._decisions) >= _REMEMBERED:
            self._decisions.clear()
        self._decisions[question] = allowed
        return allowed

    def _decision(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        rules = self._rules.by_type.get(resource_type)
        granting = _GRANTING[operation]
        found = allowed = False
        for acl in () if rules is None else rules.about(name):
            # A rule for another principal also ends `allow.everyone.if.no.acl.found`: the resource now has rules.
            found = True
            if acl.principal not in {principal, _EVERYBODY} or acl.host not in {host, WILDCARD}:
                continue
            if acl.permission_type is PermissionType.ALLOW:
                allowed = allowed or acl.operation in granting
            elif acl.operation in {operation, Operation.ALL}:
                # A rule that denies beats all others, so the rest need not be read.
                return False
        return allowed if found else self._default

    def _load(self) -> None:
        """Take what the metadata has."""
        self._take(RuleSet.read(self._metadata.read(_SECTION) or ()))

    def _take(self, rules: RuleSet) -> None:
        self._rules = rules
        self.changes += 1
        self._decisions.clear()


def _super_users(text: str) -> frozenset[str]:
    """Principals with semicolons between them. ConfigError for what is none (`SecurityUtils.parseKafkaPrincipal`)."""
    found = frozenset(name for each in text.split(";") if (name := each.strip()))
    for name in found:
        if ":" not in name:
            raise refused(_SUPER_USERS, text, f"expected a string in format principalType:principalName but got {name}")
    return found


def _address(host: str) -> str:
    """An address as rules have it: without the slash in front of it."""
    return host.removeprefix("/")


def _is_wildcard(acl: AclBinding) -> bool:
    return acl.pattern_type is PatternType.LITERAL and acl.resource_name == WILDCARD
