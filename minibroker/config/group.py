"""The configuration keys of a group, and what they are for a group.

Those of consumer groups (KIP-848) have been Kafka's since 4.0, those of share groups (KIP-932) since 4.1
and so have those of streams groups (KIP-1071, `org.apache.kafka.coordinator.group.GroupConfig`). A group that does not
set a key takes the broker's `group.` key of the same name, or the default.
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
_LIMITED: Final = (
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
"""The keys that the broker limits, in the order in which Kafka looks at them."""
_FIRST_WITH_SYNONYMS: Final = "4.3"
_ONLY_LEAST: Final = {_STREAMS_OFFSETS}
_ONLY_MOST: Final = {
    _STREAMS_STANDBYS: "group.streams.max.standby.replicas",
    _STREAMS_WARMUPS: "group.streams.max.warmup.replicas",
}
"""Keys that have no least value but the one of their own."""
_SESSIONS: Final = (
    (_SESSION, _HEARTBEAT),
    (_SHARE_SESSION, _SHARE_HEARTBEAT),
    (_STREAMS_SESSION, _STREAMS_HEARTBEAT),
)
"""A session lasts longer than the time between two heartbeats."""


def group_keys(broker: BrokerConfig) -> Mapping[str, ConfigKey]:
    """Return the table of a group's keys, of the release that the broker emulates if it emulates one."""
    return keys_of_release(broker.release, "group", GROUP_KEYS)


class _Values(dict[str, ConfigValue]):
    """The values that a group has set; the rest is looked up in the broker's configuration when it is asked for."""

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
    """The configuration of one group: an override, else the broker's.

    Raises ConfigError for a key that no group has and for a value that cannot be read. Limits are those of
    `check_limits`, which count when a value is set: the broker's may have changed since.
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

    def within_limits(self) -> "GroupConfig":
        """Return the configuration that counts where the broker's limits have changed since a value was set.

        Such a value counts as the nearest one that is allowed (`GroupConfig.evaluate` of Kafka 4.4); DescribeConfigs
        shows it as it was set.
        """
        if not self.overrides:
            return self
        texts = dict(self.overrides)
        for name in filter(texts.__contains__, _LIMITED):
            value, (least, most) = self.integer(name), self._limits(name)
            texts[name] = str(min(max(value, value if least is None else least), value if most is None else most))
        return self if texts == self.overrides else GroupConfig(self.broker, texts)

    @property
    def heartbeat_interval_ms(self) -> int:
        """Milliseconds between two heartbeats of a member."""
        return self.integer(_HEARTBEAT)

    @property
    def session_timeout_ms(self) -> int:
        """After how long a silence a member is dropped."""
        return self.integer(_SESSION)

    @property
    def assignment_interval_ms(self) -> int:
        """Milliseconds that the group keeps an assignment at least."""
        return self.integer(_ASSIGNMENT)

    @property
    def share_heartbeat_interval_ms(self) -> int:
        """Milliseconds between two heartbeats of a member of a share group."""
        return self.integer(_SHARE_HEARTBEAT)

    @property
    def share_session_timeout_ms(self) -> int:
        """After how long a silence a member of a share group is dropped."""
        return self.integer(_SHARE_SESSION)

    @property
    def share_assignment_interval_ms(self) -> int:
        """Milliseconds that a share group keeps an assignment at least."""
        return self.integer(_SHARE_ASSIGNMENT)

    def check_limits(self) -> None:
        """Raise ConfigError where a value that is set lies outside of what the broker allows.

        The order and the words are those of `GroupConfig.validateValues` of Kafka 4.4, or of the emulated release.
        """
        if _RACK_TAGS in self.overrides:
            tags = [tag.strip() for tag in self.overrides[_RACK_TAGS].split(",")]  # the value is without duplicates
            if len(set(tags)) < len(tags):
                raise ConfigError(f"{_RACK_TAGS} must not contain duplicate tag keys.")
        for name in _LIMITED:
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
        value, (least, most) = self.integer(name), self._limits(name)
        if is_before(self.broker.release, "4.4"):
            self._check_limit_by_key(name, value, least, most)
        if least is None and most is not None and value > most:
            raise ConfigError(f"{name} must be less than or equal to {most}")
        if most is None and least is not None and value < least:
            raise ConfigError(f"{name} must be greater than or equal to {least}")
        if least is not None and most is not None and not least <= value <= most:
            raise ConfigError(f"{name} must be in the range {least} to {most} inclusive.")

    def _check_limit_by_key(self, name: str, value: int, least: int | None, most: int | None) -> None:
        """Raise ConfigError as Kafka did until 4.3, whose messages name the broker's keys instead of their values."""
        kind, _, setting = name.partition(".")
        if least is not None and value < least:
            raise ConfigError(f"{name} must be greater than or equal to group.{kind}.min.{setting}")
        if most is not None and value > most:
            key = _ONLY_MOST.get(name, f"group.{kind}.max.{setting}")
            raise ConfigError(f"{name} must be less than or equal to {key}")

    def _limits(self, name: str) -> tuple[int | None, int | None]:
        """The least and the highest value that the broker allows; None where it sets no limit."""
        kind, _, setting = name.partition(".")
        least = None if name in _ONLY_MOST else self.broker.integer(f"group.{kind}.min.{setting}")
        most = _ONLY_MOST.get(name, f"group.{kind}.max.{setting}")
        return least, None if name in _ONLY_LEAST else self.broker.integer(most)

    def _check_assignor(self) -> None:
        known = [STREAMS_ASSIGNORS.get(each, each) for each in self.broker.items("group.streams.assignors")]
        if self.text(_STREAMS_ASSIGNOR) not in known:
            raise ConfigError(
                f"{_STREAMS_ASSIGNOR} '{self.text(_STREAMS_ASSIGNOR)}' is not a registered task assignor. Registered "
                f"assignors are: [{', '.join(known)}]."
            )

    def entries(self) -> list[ConfigEntry]:
        """Return the whole configuration, without what Kafka lists only where it is set."""
        return [
            self.entry(name)
            for name, key in self.keys.items()
            if key.is_known and (not key.is_internal or name in self.overrides)
        ]

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """List the override, if there is one, and the settings of the broker; before Kafka 4.3 the value alone."""
        synonyms = self.keys[name].synonyms
        if is_before(self.broker.release, _FIRST_WITH_SYNONYMS):
            source = ConfigSource.GROUP_CONFIG if name in self.overrides else ConfigSource.DEFAULT_CONFIG
            return [ConfigEntry(name, self.value_text(name), source)]
        if synonyms:
            listed = self.broker.value_synonyms(synonyms[0][0])
        else:
            listed = [ConfigEntry(name, self.keys[name].text(self.keys[name].default), ConfigSource.DEFAULT_CONFIG)]
        if name in self.overrides:
            listed.insert(0, ConfigEntry(name, self.value_text(name), ConfigSource.GROUP_CONFIG))
        return listed
