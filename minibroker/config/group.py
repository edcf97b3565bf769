"""The configuration keys of groups, and their values for one group.

Kafka has had the keys of consumer groups (KIP-848) since 4.0, and those of share groups (KIP-932) and streams groups
(KIP-1071) since 4.1 (`org.apache.kafka.coordinator.group.GroupConfig`). A group that does not set a key uses the
broker's `group.` key of the same name, or the default.
"""

from collections.abc import Mapping
from typing import Final

from minibroker.config.broker import STREAMS_ASSIGNORS, BrokerConfig
from minibroker.config.keys import LONG_MAX, ConfigError, ConfigKey, ConfigValue
from minibroker.config.releases import is_before, keys_of_release
from minibroker.config.values import ConfigEntry, ConfigSource, ConfigValues

_STREAMS_STANDBYS: Final = "streams.num.standby.replicas"
_STREAMS_ASSIGNOR: Final = "streams.assignor.name"
_STREAMS_OFFSETS: Final = "streams.task.offset.interval.ms"
_STREAMS_WARMUPS: Final = "streams.num.warmup.replicas"
_RACK_TAGS: Final = "streams.rack.aware.assignment.tags"
_DEAD_LETTER_QUEUE: Final = "errors.deadletterqueue.topic.name"
_LIMITED_KEYS: Final = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    _STREAMS_STANDBYS,
    "streams.assignment.interval.ms",
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

    The constructor does not apply the limits of `check_limits`. They are checked only when a value is set, and the
    broker's limits may have changed since then.

    Raises:
        ConfigError: A key is not a group key, or a value cannot be parsed.
    """

    __slots__ = ("broker", "overrides")

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        keys = keys_of_release(broker.release, "group")
        values = _Values(broker, keys)
        for name, text in overrides.items():
            if name not in keys or not keys[name].is_known:
                raise ConfigError(f"Unknown group config name: {name}")
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
            minimum, maximum = self._limits(name)
            texts[name] = str(min(max(self.integer(name), minimum), maximum))
        return self if texts == self.overrides else GroupConfig(self.broker, texts)

    def check_limits(self) -> None:
        """Check that the overrides are within the broker's limits.

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
        for kind in ("consumer", "share", "streams"):
            session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            is_set = session in self.overrides or heartbeat in self.overrides
            if is_set and self.integer(session) <= self.integer(heartbeat):
                raise ConfigError(f"{session} must be greater than {heartbeat}")
        if self.text(_DEAD_LETTER_QUEUE).startswith("__"):
            raise ConfigError(f"{_DEAD_LETTER_QUEUE}: DLQ topic name must not start with '__'")

    def _check_limit(self, name: str) -> None:
        value, (minimum, maximum) = self.integer(name), self._limits(name)
        if minimum <= value <= maximum:
            return
        is_too_small = value < minimum
        # Until 4.3, Kafka's messages named the broker's keys instead of their values.
        if is_before(self.broker.release, "4.4"):
            limit: object = _limit_keys(name)[not is_too_small]
        elif name in _WITHOUT_MINIMUM or name in _WITHOUT_MAXIMUM:
            limit = minimum if is_too_small else maximum
        else:
            raise ConfigError(f"{name} must be in the range {minimum} to {maximum} inclusive.")
        raise ConfigError(f"{name} must be {'greater' if is_too_small else 'less'} than or equal to {limit}")

    def _limits(self, name: str) -> tuple[int, int]:
        """Return the broker's minimum and maximum for a key. All values are within a missing limit."""
        minimum_key, maximum_key = _limit_keys(name)
        minimum = -LONG_MAX if name in _WITHOUT_MINIMUM else self.broker.integer(minimum_key)
        return minimum, LONG_MAX if name in _WITHOUT_MAXIMUM else self.broker.integer(maximum_key)

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
        """Return the override and the broker's settings, in order of precedence.

        Before Kafka 4.3, return only the value.
        """
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


def _limit_keys(name: str) -> tuple[str, str]:
    """Return the broker's keys for the minimum and the maximum of a key. The broker may lack one of them."""
    kind, _, setting = name.partition(".")
    return f"group.{kind}.min.{setting}", _WITHOUT_MINIMUM.get(name, f"group.{kind}.max.{setting}")
