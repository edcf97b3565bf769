"""Config resources that clients may alter: how each type reads, checks and stores its configuration, and the changes.

Errors are those of Kafka's `ConfigAdminManager` and `ControllerConfigurationValidator`, including the messages.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, NamedTuple

from minibroker.cluster.broker_loggers import ROOT
from minibroker.cluster.dynamic_configs import MIN_ISR
from minibroker.cluster.listeners import ListenerError, parse_listeners
from minibroker.cluster.topic_admin import MAX_RECORDS, TOO_LARGE
from minibroker.cluster.topics import Topic, topic_name_error
from minibroker.config import ConfigError, ConfigKey, ConfigType, TopicConfig
from minibroker.config.client_metrics import ClientMetricsConfig, SubscriptionError
from minibroker.config.group import GroupConfig
from minibroker.config.key_tables import CLIENT_METRICS_KEYS
from minibroker.config.keys import ConfigResourceType
from minibroker.config.releases import keys_of_release
from minibroker.config.run_time import check, key_of
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import check_right
from minibroker_protocol.error_codes import ErrorCode

Texts = Mapping[str, str]
Save = Callable[["Sequence[tuple[ConfigResource, Texts]]", Call], None]
"""See `ConfigResource.save`."""

_INVALID: Final = ErrorCode.INVALID_REQUEST
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}\Z")
"""An integer with at most the digits of a Java int. int() raises its own error for thousands of digits."""


_MIN_ISR_OF_ONE: Final = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
_MIN_ISR_REMOVED: Final = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."


class Change(IntEnum):
    """An operation on a configuration key (`AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ResourceError(ValueError):
    """A refusal to alter one resource, with its error code. If the message is None, the client uses its own text."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message or "")
        self.code = code
        self.message = message


@contextmanager
def convert_config_errors() -> Generator[None]:
    """Turn a ConfigError raised in the `with` block into a ResourceError with Kafka's error code."""
    try:
        yield
    except SubscriptionError as error:
        raise ResourceError(_INVALID, str(error)) from None
    except ConfigError as error:
        raise ResourceError(ErrorCode.INVALID_CONFIG, str(error)) from None


def check_node(name: str, call: Call, unexpected: str, subject: str) -> None:
    """Check that `name` is the id of the node that the client is connected to.

    Args:
        name: The name of the resource.
        call: The context of the request.
        unexpected: The end of the error message if `name` is another id, with placeholders for the expected and the
            given id.
        subject: The start of the error message if `name` is not a number.

    Raises:
        ResourceError: The name is not the id of the node.
    """
    if not _INTEGER.match(name):
        raise ResourceError(_INVALID, f"{subject} must be an integer, but it is: {name}")
    if int(name) != call.node.id:
        raise ResourceError(_INVALID, f"Unexpected broker id, {unexpected.format(call.node.id, name)}")


def _require_known(key: ConfigKey | None) -> ConfigKey | None:
    return key if key is not None and key.is_known else None


class ConfigResource:
    """The configuration of one resource, with methods that read, check and store it.

    Attributes:
        texts: The current dynamic configuration.
        kind: The type of the resource.
        name: The name of the resource.
        applies_immediately: Whether a change takes effect before the next resource of the request is checked.
    """

    texts: Texts
    kind: ConfigResourceType
    name: str
    applies_immediately = False

    def __init__(self, name: str, call: Call) -> None:
        raise NotImplementedError

    def key(self, name: str) -> ConfigKey | None:
        """Return the definition of a key, or None if the key is unknown."""
        raise NotImplementedError

    def default(self, name: str) -> str:  # noqa: ARG002 - for subclasses
        """Return the default of a list key, which APPEND and SUBTRACT change. Other keys have no default here."""
        return ""

    def check(self, texts: Texts) -> None:
        """Check a new configuration of the resource.

        Raises:
            ResourceError: The configuration is invalid.
        """
        raise NotImplementedError

    @staticmethod
    def save(altered: "Sequence[tuple[ConfigResource, Texts]]", call: Call) -> None:
        """Store the checked configurations of resources of this type together.

        Raises:
            OSError: The file cannot be written. No resource has changed.
        """
        call.core.configs.put_all({(resource.kind, resource.name): texts for resource, texts in altered})

    def refuse_list(self, operation: Change, name: str) -> ResourceError:
        """Return the error for APPEND or SUBTRACT on a key that is not a list."""
        return ResourceError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST."
        )


class _TopicResource(ConfigResource):
    kind = ConfigResourceType.TOPIC

    def __init__(self, name: str, call: Call) -> None:
        if not name:
            raise ResourceError(_INVALID, "Default topic resources are not allowed.")
        reason = topic_name_error(name)
        if reason is not None:
            raise ResourceError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        self.name = name
        self._core = call.core
        self._topic = call.core.topics.get(name)
        self.texts = {} if self._topic is None else self._topic.config.overrides

    def key(self, name: str) -> ConfigKey | None:
        return _require_known(self._core.config.topic_keys.get(name))

    def default(self, name: str) -> str:
        return self._core.config.topic_keys[name].text(self._core.config.topic_defaults[name]) or ""

    def check(self, texts: Texts) -> None:
        with convert_config_errors():
            self._config = TopicConfig(self._core.config, texts)
        if self._topic is None:
            raise ResourceError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{self.name}' does not exist.")

    @staticmethod
    def save(altered: Sequence[tuple[ConfigResource, Texts]], call: Call) -> None:
        changes: list[tuple[Topic, TopicConfig]] = []
        # The texts are not needed, because the checked configuration already contains the values.
        for resource, _ in altered:
            assert isinstance(resource, _TopicResource)
            assert resource._topic is not None  # noqa: SLF001 - a method of the same class
            changes.append((resource._topic, resource._config))  # noqa: SLF001 - a method of the same class
        call.core.topics.configure_all(changes)


def _check_advertised(text: str | None, listeners: Collection[str]) -> None:
    """Check that a list names at least one of the node's listeners. Entries for unknown listeners have no effect.

    Raises:
        ListenerError: The list names none of the listeners.
    """
    if text is not None and not any(entry.name in listeners for entry in parse_listeners("advertised.listeners", text)):
        raise ListenerError(f"advertised.listeners: {text!r} names none of the listeners {', '.join(listeners)}")


class _BrokerResource(ConfigResource):
    kind = ConfigResourceType.BROKER
    applies_immediately = True

    def __init__(self, name: str, call: Call) -> None:
        if name:
            check_node(name, call, "expected {0}, but received {1}", "Node id")
        self._configs = call.core.configs
        self._check_all = call.core.hooks.check_broker
        self.name = name and str(call.node.id)
        self._listeners = call.node.endpoints
        self._before = self._configs.of_node(call.node.id)
        self.texts = self._configs.of(ConfigResourceType.BROKER, self.name)

    def key(self, name: str) -> ConfigKey | None:
        return key_of(name, self._before.keys)

    def default(self, name: str) -> str:
        key = key_of(name, self._before.keys)
        assert key is not None
        return key.text(key.default) or ""

    def check(self, texts: Texts) -> None:
        if self._configs.has_own_min_isr:
            if self.name and texts.get(MIN_ISR, "") not in {"", self.texts.get(MIN_ISR, "")}:
                raise ResourceError(ErrorCode.INVALID_CONFIG, _MIN_ISR_OF_ONE)
            if not self.name and MIN_ISR not in texts:
                raise ResourceError(ErrorCode.INVALID_CONFIG, _MIN_ISR_REMOVED)
        try:
            check(texts, self._before, self._listeners, is_of_one_broker=bool(self.name))
            self._check_all(self._configs.with_broker(self.name, texts))
            _check_advertised(texts.get("advertised.listeners"), self._listeners)
        except (ConfigError, ListenerError) as error:
            raise ResourceError(_INVALID, str(error)) from None

    def refuse_list(self, operation: Change, name: str) -> ResourceError:
        return ResourceError(
            ErrorCode.INVALID_CONFIG, f"Config value {operation.name.lower()} is not allowed for config key: {name}"
        )


class _ClientMetricsResource(ConfigResource):
    kind = ConfigResourceType.CLIENT_METRICS

    def __init__(self, name: str, call: Call) -> None:
        self.name = name
        self.texts = call.core.configs.of(ConfigResourceType.CLIENT_METRICS, name)

    def key(self, name: str) -> ConfigKey | None:
        return CLIENT_METRICS_KEYS.get(name)

    def check(self, texts: Texts) -> None:
        if not self.name:
            raise ResourceError(_INVALID, "Subscription name can't be empty")
        with convert_config_errors():
            ClientMetricsConfig(texts)


class _GroupResource(ConfigResource):
    kind = ConfigResourceType.GROUP

    def __init__(self, name: str, call: Call) -> None:
        if not name:
            raise ResourceError(_INVALID, "Default group resources are not allowed.")
        self.name = name
        self._core = call.core
        self.texts = call.core.configs.of(ConfigResourceType.GROUP, name)

    def key(self, name: str) -> ConfigKey | None:
        key = _require_known(keys_of_release(self._core.config.release, "group").get(name))
        # Keys of type LIST are left out, because Kafka has no APPEND for groups.
        return None if key is None or key.type is ConfigType.LIST else key

    def check(self, texts: Texts) -> None:
        with convert_config_errors():
            GroupConfig(self._core.config, texts).check_limits()


_RESOURCES: Final[tuple[type[ConfigResource], ...]] = (
    _TopicResource,
    _BrokerResource,
    _ClientMetricsResource,
    _GroupResource,
)
CONFIG_RESOURCES: Final = {resource.kind: resource for resource in _RESOURCES}


class Resource(NamedTuple):
    """A resource to alter. `kind` is the number that the client sent."""

    kind: int
    name: str


Changes = Sequence[tuple[str, int, str | None]]
"""The changes to one resource: key, operation and value."""

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
