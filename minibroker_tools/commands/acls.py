"""kafka-acls: lists, adds and removes access control lists (`kafka.admin.AclCommand`)."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from minibroker.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from minibroker_protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import load_properties
from minibroker_tools.commands.common import add_connection, cluster_of, java_error, local_broker
from minibroker_tools.failures import ToolError, UsageError, check_all, raise_if_failed
from minibroker_tools.options import Options, Values, key_values
from minibroker_tools.output import flush, write_line

_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
_ACTIONS: Final = ("add", "remove", "list")
_CONNECTION: Final = ("bootstrap-server", "bootstrap-controller")


class _ResourcePattern(NamedTuple):
    """A resource pattern, or a filter for resource patterns."""

    kind: ResourceType
    name: str
    pattern: PatternType

    def __str__(self) -> str:
        return f"resourceType={self.kind.name}, name={self.name}, patternType={self.pattern.name})"


class _AclEntry(NamedTuple):
    """An access control entry. It allows or denies an operation to a principal that connects from a host."""

    principal: str
    host: str
    operation: Operation
    permission: PermissionType

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


_Rules: TypeAlias = dict[_ResourcePattern, set[_AclEntry]]
_ANY_ENTRY: Final = ((None, None, Operation.ANY, PermissionType.ANY),)
"""The entry fields of a filter that matches all entries of a resource."""
_CLUSTER: Final = _ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-acls."""
    options = Options(tool, "This tool helps to manage acls on kafka.")
    add_connection(options, controller=True)
    options.flag("add", help="add rules")
    options.flag("remove", help="remove rules")
    options.flag("list", help="list rules")
    for name in _RESOURCES:
        options.value(name, help="a resource of this type; repeatable, * means all", metavar="NAME")
    options.flag("cluster", help="apply the rules to the cluster")
    options.value("resource-pattern-type", help="literal or prefixed; without --add also any or match", metavar="TYPE")
    options.value("operation", help="an operation (default: All); repeatable")
    for verb in ("allow", "deny"):
        options.value(f"{verb}-principal", help="a principal, such as User:alice", metavar="PRINCIPAL")
        options.value(f"{verb}-host", help="a host address (default: all addresses)", metavar="HOST")
    options.value("principal", help="with --list: show only the rules of this principal")
    options.flag("producer", help="add or remove the rules that a producer needs")
    options.flag("consumer", help="add or remove the rules that a consumer needs")
    options.flag("idempotent", help="with --producer: also the rule for idempotent producers")
    options.flag("force", help="do not ask for confirmation")
    options.value("authorizer", help="zookeeper.connect=SERVERS; a broker replaces ZooKeeper")
    options.value("authorizer-properties", help="zookeeper.connect=SERVERS; a broker replaces ZooKeeper")
    options.value("zk-tls-config-file", help="zookeeper.connect=SERVERS; a broker replaces ZooKeeper")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the action given on the command line."""
    values = options.parse(arguments)
    _check_options(values)
    try:
        if values.has("list"):
            _list_acls(values)
        elif values.has("add"):
            _add_acls(values)
        else:
            _remove_acls(values)
    except UsageError:
        raise
    except ToolError as failure:
        write_line(f"Error while executing ACL command: {java_error(failure)}")
        return failure.status
    return 0


def _find_zookeeper(values: Values) -> str | None:
    """Return the value of zookeeper.connect in the authorizer properties, or None if it is not set."""
    return key_values(values.all("authorizer-properties")).get("zookeeper.connect")


def _connect(values: Values) -> Cluster:
    """Return the cluster on the command line, or that of a broker that replaces the authorizer's ZooKeeper."""
    zookeeper = None if any(map(values.has, _CONNECTION)) else _find_zookeeper(values)
    if zookeeper is None:
        return cluster_of(values)
    return Cluster(local_broker(zookeeper, load_properties(values.text("command-config"))))


def _check_options(values: Values) -> None:
    if all(map(values.has, _CONNECTION)):
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if values.has("bootstrap-server") and values.has("authorizer"):
        raise UsageError("Only one of --bootstrap-server or --authorizer must be specified")
    if not any(map(values.has, _CONNECTION)):
        values.require("authorizer-properties")
        if _find_zookeeper(values) is None:
            raise ToolError("kafka-acls cannot reach an authorizer without a broker: name one with --bootstrap-server")
    elif values.has("authorizer-properties"):
        raise UsageError("The --authorizer-properties option can only be used with --authorizer option")
    if sum(map(values.has, _ACTIONS)) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    values.exclude("list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")
    for role in ("producer", "consumer"):
        values.exclude(role, "operation", "deny-principal", "deny-host")
    if values.has("principal") and not values.has("list"):
        raise UsageError("The --principal option is only available if --list is set")
    if values.has("producer") and not values.has("topic"):
        raise UsageError("With --producer you must specify a --topic")
    if values.has("idempotent") and not values.has("producer"):
        raise UsageError("The --idempotent option is only available if --producer is set")
    other = not values.has("producer") and (values.has("cluster") or values.has("transactional-id"))
    if values.has("consumer") and (not values.has("topic") or not values.has("group") or other):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


def _parse_pattern_type(values: Values) -> PatternType:
    text = values.text("resource-pattern-type") or "literal"
    pattern_type = PatternType.__members__.get(text.upper(), PatternType.UNKNOWN)
    if pattern_type is PatternType.UNKNOWN:
        raise ToolError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    return pattern_type


def _parse_resources(values: Values) -> list[_ResourcePattern]:
    kind = _parse_pattern_type(values)
    patterns = [
        _ResourcePattern(resource, value.strip(), kind)
        for name, resource in _RESOURCES.items()
        for value in values.all(name)
    ]
    if kind is PatternType.LITERAL and (values.has("cluster") or values.has("idempotent")):
        patterns.append(_CLUSTER)
    return patterns


def _parse_rules(values: Values) -> _Rules:
    """Return the rules or rule filters on the command line, grouped by resource.

    Raises:
        UsageError: A resource is missing, or does not support an operation.
    """
    resources = _parse_resources(values)
    if not resources:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    rules: _Rules = {}
    if not values.has("producer") and not values.has("consumer"):
        entries = _parse_entries(
            values, [_parse_operation(text) for text in values.all("operation")] or [Operation.ALL]
        )
        rules = {resource: set(entries) for resource in resources}
    required: list[tuple[ResourceType, list[Operation]]] = []
    if values.has("producer"):
        writes = [Operation.WRITE, Operation.DESCRIBE]
        required += [(ResourceType.TOPIC, [*writes, Operation.CREATE]), (ResourceType.TRANSACTIONAL_ID, writes)]
    if values.has("idempotent"):
        required.append((ResourceType.CLUSTER, [Operation.IDEMPOTENT_WRITE]))
    if values.has("consumer"):
        reads = [Operation.READ, Operation.DESCRIBE]
        required += [(ResourceType.TOPIC, reads), (ResourceType.GROUP, [Operation.READ])]
    for kind, operations in required:
        for resource in (*resources, _CLUSTER):
            if resource.kind is kind:
                rules.setdefault(resource, set()).update(_parse_entries(values, operations))
    for resource, entries in rules.items():
        valid = {*SUPPORTED_OPERATIONS[resource.kind], Operation.ALL}
        if any(entry.operation not in valid for entry in entries):
            names = ", ".join(_pascal_case(operation) for operation in sorted(valid))
            raise UsageError(f"ResourceType {resource.kind.name} only supports operations {names}")
    return rules


def _parse_operation(text: str) -> Operation:
    names = {_pascal_case(operation).lower(): operation for operation in Operation}
    return names.get(text.strip().lower(), Operation.UNKNOWN)


def _pascal_case(operation: Operation) -> str:
    return "".join(word.capitalize() for word in operation.name.split("_"))


def _parse_entries(values: Values, operations: Sequence[Operation]) -> set[_AclEntry]:
    return {
        _AclEntry(principal, host.strip(), operation, permission)
        for verb, permission in (("allow", PermissionType.ALLOW), ("deny", PermissionType.DENY))
        for principal in _parse_principals(values, f"{verb}-principal")
        for host in values.all(f"{verb}-host") or [WILDCARD]
        for operation in operations
    }


def _parse_principals(values: Values, option: str) -> list[str]:
    principals = [text.strip() for text in values.all(option)]
    for principal in principals:
        if ":" not in principal:
            raise ToolError(f"expected a string in format principalType:principalName but got {principal}")
    return principals


def _format_rules(title: str, resource: _ResourcePattern, entries: Iterable[_AclEntry]) -> str:
    return f"{title} `ResourcePattern({resource}`: \n {_format_entries(entries)} \n"


def _format_entries(entries: Iterable[_AclEntry]) -> str:
    return "\n".join(f"\t{entry}" for entry in sorted(entries))


def _add_acls(values: Values) -> None:
    kind = _parse_pattern_type(values)
    if kind not in {PatternType.LITERAL, PatternType.PREFIXED}:
        raise UsageError(f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls.")
    rules = _parse_rules(values)
    if not all(rules.values()):
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    with _connect(values) as cluster:
        for resource, entries in rules.items():
            write_line(_format_rules("Adding ACLs for resource", resource, entries))
            request = CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=resource.kind,
                        resource_name=resource.name,
                        resource_pattern_type=resource.pattern,
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for entry in sorted(entries)
                ]
            )
            check_all(cluster.ask_controller(request).results)


def _remove_acls(values: Values) -> None:
    rules = _parse_rules(values)
    with _connect(values) as cluster:
        for resource, entries in rules.items():
            if not _confirm_removal(values, resource, entries):
                continue
            request = DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=resource.kind,
                        resource_name_filter=resource.name,
                        pattern_type_filter=resource.pattern,
                        principal_filter=principal,
                        host_filter=host,
                        operation=operation,
                        permission_type=permission,
                    )
                    for principal, host, operation, permission in sorted(entries) or _ANY_ENTRY
                ]
            )
            check_all(cluster.ask_controller(request).filter_results)


def _confirm_removal(values: Values, resource: _ResourcePattern, entries: set[_AclEntry]) -> bool:
    if values.has("force"):
        return True
    removal = f"remove ACLs: \n {_format_entries(entries)} \n from" if entries else "delete all ACLs for"
    write_line(f"Are you sure you want to {removal} resource filter `ResourcePattern({resource}`? (y/n)")
    flush()
    return sys.stdin.readline().strip().lower() == "y"


def _list_acls(values: Values) -> None:
    resources = _parse_resources(values)
    principals = _parse_principals(values, "principal")
    with _connect(values) as cluster:
        rules = _describe_acls(cluster, resources or [_ResourcePattern(ResourceType.ANY, "", PatternType.ANY)])
    for principal in principals or (None,):
        if principal is not None:
            write_line(f"ACLs for principal `{principal}`")
        for resource, entries in sorted(rules.items()):
            shown_entries = [entry for entry in entries if principal in {None, entry.principal}]
            if shown_entries:
                write_line(_format_rules("Current ACLs for resource", resource, shown_entries))


def _describe_acls(cluster: Cluster, resources: Iterable[_ResourcePattern]) -> _Rules:
    rules: _Rules = {}
    for resource in resources:
        request = DescribeAclsRequest(
            resource_type_filter=resource.kind,
            resource_name_filter=resource.name or None,
            pattern_type_filter=resource.pattern,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=PermissionType.ANY,
        )
        response: DescribeAclsResponse = raise_if_failed(cluster.ask(request))
        for info in response.resources:
            kind, pattern_type = ResourceType(info.resource_type), PatternType(info.pattern_type)
            rules.setdefault(_ResourcePattern(kind, info.resource_name, pattern_type), set()).update(
                _AclEntry(acl.principal, acl.host, Operation(acl.operation), PermissionType(acl.permission_type))
                for acl in info.acls
            )
    return rules
