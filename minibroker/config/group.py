"""The configuration keys of a consumer group (KIP-848), and what they are for a group.

Kafka has had them since 4.0 (`org.apache.kafka.coordinator.group.GroupConfig`); the keys of share and streams groups,
which are not served, are unknown. A group that does not set a key takes the broker's `group.` key of the same name.
"""

from collections.abc import Mapping
from typing import Final

from minibroker.config.broker import BrokerConfig
from minibroker.config.keys import HONOURED, INT, MEDIUM, POSITIVE, ConfigError, ConfigKey, by_name
from minibroker.config.values import ConfigEntry, ConfigSource, ConfigValues

_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
_SESSION: Final = "consumer.session.timeout.ms"

# fmt: off
GROUP_KEYS = by_name((
    ConfigKey(_HEARTBEAT, INT, 5_000, POSITIVE, MEDIUM, HONOURED,
              "How often members of the group are told to send a heartbeat.",
              (("group.consumer.heartbeat.interval.ms", 1),)),
    ConfigKey(_SESSION, INT, 45_000, POSITIVE, MEDIUM, HONOURED,
              "After how long a silence a member of the group is dropped.",
              (("group.consumer.session.timeout.ms", 1),)),
))
# fmt: on


class GroupConfig(ConfigValues):
    """The configuration of one group: an override, else the broker's.

    Raises ConfigError for a key that no group has and for a value that cannot be read. Limits are those of
    `check_limits`, which count when a value is set: the broker's may have changed since.
    """

    __slots__ = ("broker", "overrides")

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        values = {name: broker.integer(key.synonyms[0][0]) for name, key in GROUP_KEYS.items()}
        for name, text in overrides.items():
            if name not in GROUP_KEYS:
                error = ConfigError(f"Unknown group config name: {name}")
                error.name, error.value = name, text
                raise error
            value = GROUP_KEYS[name].parse(text)
            assert isinstance(value, int)
            values[name] = value
        super().__init__(GROUP_KEYS, values)
        self.overrides = overrides
        self.broker = broker

    @property
    def heartbeat_interval_ms(self) -> int:
        """Milliseconds between two heartbeats of a member."""
        return self.integer(_HEARTBEAT)

    @property
    def session_timeout_ms(self) -> int:
        """After how long a silence a member is dropped."""
        return self.integer(_SESSION)

    def check_limits(self) -> None:
        """Raise ConfigError where a value lies outside of what the broker allows (`GroupConfig.validateValues`)."""
        for name in (_HEARTBEAT, _SESSION):
            setting = name.removeprefix("consumer.")
            least, most = f"group.consumer.min.{setting}", f"group.consumer.max.{setting}"
            if self.integer(name) < self.broker.integer(least):
                raise ConfigError(f"{name} must be greater than or equal to {least}")
            if self.integer(name) > self.broker.integer(most):
                raise ConfigError(f"{name} must be less than or equal to {most}")
        if self.session_timeout_ms <= self.heartbeat_interval_ms:
            raise ConfigError(f"{_SESSION} must be greater than {_HEARTBEAT}")

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """List the override, if there is one, and the settings of the broker."""
        listed = self.broker.value_synonyms(self.keys[name].synonyms[0][0])
        if name in self.overrides:
            listed.insert(0, ConfigEntry(name, self.value_text(name), ConfigSource.GROUP_CONFIG))
        return listed
