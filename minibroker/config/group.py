"""The configuration keys of groups, and their values for one group.

Kafka has had the keys of consumer groups (KIP-848) since 4.0, and those of share groups (KIP-932) and streams groups
(KIP-1071) since 4.1 (`org.apache.kafka.coordinator.group.GroupConfig`). A group that does not set a key uses the
broker's `group.` key of the same name, or the default.
"""

from collections.abc import Mapping
from typing import Final

from minibroker.config.broker import STREAMS_ASSIGNORS, BrokerConfig
from minibroker.config.key_tables import GROUP_KEYS
from minibroker.config.keys import ConfigError, ConfigKey, ConfigValue
from minibroker.config.releases import is_before, keys_of_release
from minibroker.config.values import ConfigEntry, ConfigSource, ConfigValues

_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
_SESSION: Final = "consumer.session.timeout.ms"
_ASSIGNMENT: Final = "consumer.assignment.interval.ms"
_SHARE_HEARTBEAT: Final = "share.heartbeat.interval.ms"
_SHARE_SESSION: Final = "share.session.timeout.ms"
_SHARE_ASSIGNMENT: Final = "share.assignment.interval.ms"
_STREAMS_HEARTBEAT: Final = "streams.heartbeat.interval.ms"
_STREAMS_SESSION: Final = "streams.session.timeout.ms"
_STREAMS_STANDBYS: Final = "streams.num.standby.replicas"
_STREAMS_ASSIGNMENT: Final = "streams.assignment.interval.ms"
_STREAMS_ASSIGNOR: Final = "streams.assignor.name"
_STREAMS_OFFSETS: Final = "streams.task.offset.interval.ms"
_STREAMS_WARMUPS: Final = "streams.num.warmup.replicas"
_RACK_TAGS: Final = "streams.rack.aware.assignment.tags"
_DEAD_LETTER_QUEUE: Final = "errors.deadletterqueue.topic.name"
_LIMITED_KEYS: Final = (
    _HEARTBEAT,
    _SESSION,
    _ASSIGNMENT,
    _SHARE_HEARTBEAT,
    _SHARE_SESSION,
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    _SHARE_ASSIGNMENT,
    _STREAMS_HEARTBEAT,
    _STREAMS_SESSION,
    _STREAMS_STANDBYS,
    _STREAMS_ASSIGNMENT,
    _STREAMS_OFFSETS,
    _STREAMS_WARMUPS,
)
"""Keys limited by the broker, in the order of Kafka's checks."""
_FIRST_WITH_SYNONYMS: Final = "4.3"
_WITHOUT_MAXIMUM: Final = {_STREAMS_OFFSETS}
_WITHOUT_MINIMUM: Final = {
    _STREAMS_STANDBYS: "group.streams.max.standby.replicas",
    _STREAMS_WARMUPS: "group.streams.max.warmup.replicas",
}
"""Keys without a minimum on the broker, with the broker's key for the maximum."""
_SESSIONS: Final = (
    (_SESSION, _HEARTBEAT),
    (_SHARE_SESSION, _SHARE_HEARTBEAT),
    (_STREAMS_SESSION, _STREAMS_HEARTBEAT),
)
"""The keys of each session timeout and heartbeat interval. The timeout must be greater."""


def group_keys(broker: BrokerConfig) -> Mapping[str, ConfigKey]:
    """Return the table of group keys of the emulated release, or of the current one if none is emulated."""
    return keys_of_release(broker.release, "group", GROUP_KEYS)


class _Values(dict[str, ConfigValue]):
    """The values that a group has set. All other values are looked up in the broker's configuration."""

    __slots__ = ("_broker", "_keys")

    def __init__(self, broker: BrokerConfig, keys: Mapping[str, ConfigKey]) -> None:
        super().__init__()
        self._broker = broker
        self._keys = keys

    def __missing__(self, name: str) -> ConfigValue:
        synonyms = self._keys[name].synonyms
        if not synonyms:
            return self._keys[name].default
        value = self._broker.value(synonyms[0][0])
        if name == _STREAMS_ASSIGNOR and isinstance(value, list):
            return STREAMS_ASSIGNORS.get(value[0], value[0]) if value else ""
        return value


class GroupConfig(ConfigValues):
    """The configuration of one group: its overrides, and the broker's values for all other keys.

    The constructor does not apply the limits of `check_limits`. These are checked when a value is set, and the
    broker's limits may have changed since then.

    Raises:
        ConfigError: A key is not a group key, or a value cannot be parsed.
    """

    __slots__ = ("broker", "overrides")

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        keys = group_keys(broker)
        values = _Values(broker, keys)
        for name, text in overrides.items():
            if name not in keys or not keys[name].is_known:
                error = ConfigError(f"Unknown group config name: {name}")
                error.name, error.value = name, text
                raise error
            values[name] = keys[name].parse(text)
        super().__init__(keys, values)
        self.overrides = overrides
        self.broker = broker

    def apply_limits(self) -> "GroupConfig":
        """Return the effective configuration, given that the broker's limits may have changed since a value was set.

        A value outside the limits counts as the nearest allowed one (`GroupConfig.evaluate` of Kafka 4.4).
        DescribeConfigs shows the original value.
        """
        if not self.overrides:
            return self
        texts = dict(self.overrides)
        for name in filter(texts.__contains__, _LIMITED_KEYS):
            value, (minimum, maximum) = self.integer(name), self._limits(name)
            texts[name] = str(
                min(max(value, value if minimum is None else minimum), value if maximum is None else maximum)
            )
        return self if texts == self.overrides else GroupConfig(self.broker, texts)

    def check_limits(self) -> None:
        """Check that the values that are set are within the broker's limits.

        The order of the checks and the messages are those of `GroupConfig.validateValues` in Kafka 4.4, or in the
        emulated release.

        Raises:
            ConfigError: A value is outside its limits.
        """
        if _RACK_TAGS in self.overrides:
            # The parsed list has no duplicates, so the original text is checked.
            tags = [tag.strip() for tag in self.overrides[_RACK_TAGS].split(",")]
            if len(set(tags)) < len(tags):
                raise ConfigError(f"{_RACK_TAGS} must not contain duplicate tag keys.")
        for name in _LIMITED_KEYS:
            if name in self.overrides:
                self._check_limit(name)
        if _STREAMS_ASSIGNOR in self.overrides:
            self._check_assignor()
        for session, heartbeat in _SESSIONS:
            is_set = session in self.overrides or heartbeat in self.overrides
            if is_set and self.integer(session) <= self.integer(heartbeat):
                raise ConfigError(f"{session} must be greater than {heartbeat}")
        if self.text(_DEAD_LETTER_QUEUE).startswith("__"):
            raise ConfigError(f"{_DEAD_LETTER_QUEUE}: DLQ topic name must not start with '__'")

    def _check_limit(self, name: str) -> None:
        value, (minimum, maximum) = self.integer(name), self._limits(name)
        if is_before(self.broker.release, "4.4"):
            self._check_limit_by_key(name, value, minimum, maximum)
        if minimum is None and maximum is not None and value > maximum:
            raise ConfigError(f"{name} must be less than or equal to {maximum}")
        if maximum is None and minimum is not None and value < minimum:
            raise ConfigError(f"{name} must be greater than or equal to {minimum}")
        if minimum is not None and maximum is not None and not minimum <= value <= maximum:
            raise ConfigError(f"{name} must be in the range {minimum} to {maximum} inclusive.")

    def _check_limit_by_key(self, name: str, value: int, minimum: int | None, maximum: int | None) -> None:
        """Check a limit as Kafka did until 4.3, with messages that name the broker's keys instead of their values.

        Raises:
            ConfigError: The value is outside its limits.
        """
        kind, _, setting = name.partition(".")
        if minimum is not None and value < minimum:
            raise ConfigError(f"{name} must be greater than or equal to group.{kind}.min.{setting}")
        if maximum is not None and value > maximum:
            key = _WITHOUT_MINIMUM.get(name, f"group.{kind}.max.{setting}")
            raise ConfigError(f"{name} must be less than or equal to {key}")

    def _limits(self, name: str) -> tuple[int | None, int | None]:
        """Return the broker's minimum and maximum for a key. None stands for a missing limit."""
        kind, _, setting = name.partition(".")
        minimum = None if name in _WITHOUT_MINIMUM else self.broker.integer(f"group.{kind}.min.{setting}")
        maximum_key = _WITHOUT_MINIMUM.get(name, f"group.{kind}.max.{setting}")
        return minimum, None if name in _WITHOUT_MAXIMUM else self.broker.integer(maximum_key)

    def _check_assignor(self) -> None:
        supported = [
            STREAMS_ASSIGNORS.get(assignor, assignor) for assignor in self.broker.items("group.streams.assignors")
        ]
        if self.text(_STREAMS_ASSIGNOR) not in supported:
            raise ConfigError(
                f"{_STREAMS_ASSIGNOR} '{self.text(_STREAMS_ASSIGNOR)}' is not a registered task assignor. Registered "
                f"assignors are: [{', '.join(supported)}]."
            )

    def entries(self) -> list[ConfigEntry]:
        """Return the whole configuration, without internal keys that are not set."""
        return [
            self.entry(name)
            for name, key in self.keys.items()
            if key.is_known and (not key.is_internal or name in self.overrides)
        ]

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """Return the override and the broker's settings, in order of precedence. Before Kafka 4.3, only the value."""
        synonyms = self.keys[name].synonyms
        if is_before(self.broker.release, _FIRST_WITH_SYNONYMS):
            source = ConfigSource.GROUP_CONFIG if name in self.overrides else ConfigSource.DEFAULT_CONFIG
            return [ConfigEntry(name, self.value_text(name), source)]
        if synonyms:
            result = self.broker.value_synonyms(synonyms[0][0])
        else:
            result = [ConfigEntry(name, self.keys[name].text(self.keys[name].default), ConfigSource.DEFAULT_CONFIG)]
        if name in self.overrides:
            result.insert(0, ConfigEntry(name, self.value_text(name), ConfigSource.GROUP_CONFIG))
        return result
