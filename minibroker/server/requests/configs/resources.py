"""Config resources that clients may alter: how each type reads, checks and stores its configuration.

Errors are those of Kafka's `ConfigAdminManager` and `ControllerConfigurationValidator`, including the messages.
"""

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from minibroker.cluster.dynamic_configs import MIN_ISR
from minibroker.cluster.listeners import ListenerError, parse_listeners
from minibroker.cluster.topics import Topic, topic_name_error
from minibroker.config import ConfigError, ConfigKey, TopicConfig
from minibroker.config.client_metrics import ClientMetricsConfig, SubscriptionError
from minibroker.config.group import GroupConfig
from minibroker.config.key_tables import CLIENT_METRICS_KEYS
from minibroker.config.keys import ConfigResourceType, ConfigType
from minibroker.config.releases import keys_of_release
from minibroker.config.run_time import check, key_of
from minibroker.server.requests.call import Call
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
