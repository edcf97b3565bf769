"""The rules of AlterConfigs and IncrementalAlterConfigs.

They follow Kafka's `ConfigAdminManager` and `ConfigurationControlManager`, including the error messages.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker.cluster.broker_loggers import ROOT
from minibroker.cluster.topic_admin import MAX_RECORDS, TOO_LARGE
from minibroker.config import ConfigType
from minibroker.config.keys import ConfigResourceType
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.configs.resources import (
    CONFIG_RESOURCES,
    Change,
    ConfigResource,
    ResourceError,
    Save,
    Texts,
    check_node,
    convert_config_errors,
)
from minibroker.server.requests.requirements import check_right
from minibroker_protocol.error_codes import ErrorCode


class Resource(NamedTuple):
    """A resource to alter. `kind` is the number that the client sent."""

    kind: int
    name: str


Changes = Sequence[tuple[str, int, str | None]]
"""The changes to one resource: key, operation and value."""

_INVALID: Final = ErrorCode.INVALID_REQUEST
_OPERATIONS: Final = frozenset(map(int, Change))
_KINDS: Final = frozenset(map(int, ConfigResourceType))
_CLUSTER_WIDE: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS)


def refusal(resource: Resource, call: Call, operation: Operation) -> ErrorCode:
    """Return the error for a client that may not read or alter a resource's configuration, or NONE."""
    if resource.kind == ConfigResourceType.TOPIC:
        return check_right(call, operation, ResourceType.TOPIC, resource.name)
    if resource.kind == ConfigResourceType.GROUP:
        return check_right(call, operation, ResourceType.GROUP, resource.name)
    if resource.kind in _CLUSTER_WIDE:
        return check_right(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)
    return ErrorCode.NONE


def alter(
    altered: Sequence[tuple[Resource, Changes]], call: Call, *, replaces: bool, validate_only: bool
) -> list[tuple[Resource, ErrorCode, str | None]]:
    """Alter each resource separately, and save all of them together. Return an error and a message for each.

    If a request has more keys or resources than Kafka's controller writes together, all resources get
    POLICY_VIOLATION. Unlike here, the controller counts only the keys that change, and after its other checks.

    Args:
        altered: The resources with their changes.
        call: The context of the request.
        replaces: Whether the changes replace the whole configuration of each resource.
        validate_only: Whether to check the changes without applying them.
    """
    if sum(max(1, len(changes)) for _, changes in altered) > MAX_RECORDS:
        return [(resource, ErrorCode.POLICY_VIOLATION, TOO_LARGE) for resource, _ in altered]
    results: list[tuple[ErrorCode, str | None]] = [(ErrorCode.NONE, None)] * len(altered)
    occurrences = Counter(resource for resource, _ in altered)
    pending: dict[Save, list[tuple[int, ConfigResource, Texts]]] = {}
    for index, (resource, changes) in enumerate(altered):
        try:
            _check_form(changes, named=occurrences[resource])
            alteration = _plan_change(resource, changes, call, replaces=replaces, validate_only=validate_only)
            if alteration is not None and alteration[0].applies_immediately:
                alteration[0].save([alteration], call)
            elif alteration is not None:
                pending.setdefault(type(alteration[0]).save, []).append((index, *alteration))
        except ResourceError as error:
            results[index] = error.code, error.message
        except OSError as error:
            results[index] = _storage_error(error)
    for save, alterations in pending.items():
        try:
            save([(resource, texts) for _, resource, texts in alterations], call)
        except OSError as error:
            for index, _, _ in alterations:
                results[index] = _storage_error(error)
    return [(resource, *result) for (resource, _), result in zip(altered, results, strict=True)]


def _storage_error(error: OSError) -> tuple[ErrorCode, str]:
    return ErrorCode.KAFKA_STORAGE_ERROR, f"{error.filename}: {error.strerror}"


def _check_form(changes: Changes, *, named: int) -> None:
    if named > 1:
        raise ResourceError(_INVALID, "Each resource must appear at most once.")
    names = [name for name, _, _ in changes]
    if len(set(names)) < len(names):
        raise ResourceError(_INVALID, "Error due to duplicate config keys")
    nulls = [name for name, operation, value in changes if value is None and operation != Change.DELETE]
    if nulls:
        raise ResourceError(_INVALID, f"Null value not supported for : {', '.join(nulls)}")


def _check_operation(operation: int) -> None:
    if operation not in _OPERATIONS:
        raise ResourceError(_INVALID, f"Unknown operations type {operation}")


def _plan_change(
    resource: Resource, changes: Changes, call: Call, *, replaces: bool, validate_only: bool
) -> tuple[ConfigResource, Texts] | None:
    """Return a resource and its new configuration, or None if there is nothing to store.

    Changes to log levels are not planned but applied immediately, unless `validate_only` is set.

    Raises:
        ResourceError: The change is invalid or not allowed.
    """
    kind = resource.kind
    if kind not in _KINDS or (replaces and kind == ConfigResourceType.BROKER_LOGGER):
        raise ResourceError(_INVALID, f"Unknown resource type {kind}")
    error_code = refusal(resource, call, Operation.ALTER_CONFIGS)
    if error_code:
        raise ResourceError(error_code, None)
    if kind == ConfigResourceType.BROKER_LOGGER:
        _alter_loggers(resource.name, changes, call, validate_only=validate_only)
        return None
    config = CONFIG_RESOURCES[ConfigResourceType(kind)](resource.name, call)
    before: Texts = {} if replaces else config.texts
    texts = dict(before)
    for name, operation, value in changes:
        _check_operation(operation)
        if operation == Change.DELETE:
            texts.pop(name, None)
        else:
            texts[name] = (
                (value or "") if operation == Change.SET else _change_list(config, before, name, operation, value or "")
            )
    config.check(texts)
    is_due = not validate_only and (texts != config.texts or kind == ConfigResourceType.BROKER)
    return (config, texts) if is_due else None


def _change_list(resource: ConfigResource, before: Texts, name: str, operation: int, value: str) -> str:
    key = resource.key(name)
    if key is None or (key.reported_type or key.type) is not ConfigType.LIST:
        raise resource.refuse_list(Change(operation), name)
    items = [item for item in before.get(name, resource.default(name)).split(",") if item]
    for item in value.split(","):
        if operation == Change.APPEND and item not in items:
            items.append(item)
        elif operation == Change.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _alter_loggers(name: str, changes: Changes, call: Call, *, validate_only: bool) -> None:
    check_node(name, call, "expected {0}, but received {1}", "Node id")
    loggers = call.services.loggers
    for logger, operation, level in changes:
        _check_operation(operation)
        if operation not in {Change.SET, Change.DELETE}:
            raise ResourceError(
                _INVALID, f"{Change(operation).name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if operation == Change.DELETE and logger == ROOT:
            raise ResourceError(_INVALID, "Removing the log level of the root logger is not allowed")
        with convert_config_errors():
            if operation == Change.SET:
                loggers.check_level(logger, level or "")
            else:
                loggers.check_name(logger)
    if not validate_only:
        for logger, operation, level in changes:
            loggers.set_level(logger, level if operation == Change.SET else None)
