"""The configuration of a topic: its overrides on top of the broker's values."""

from collections.abc import Mapping
from typing import Final

from minibroker.config.broker import BrokerConfig, timestamp_limits
from minibroker.config.key_tables import TOPIC_KEYS
from minibroker.config.keys import ConfigError, ConfigValue
from minibroker.config.values import ConfigEntry, ConfigSource, ConfigValues
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.config import names

_UNKNOWN: Final = "Unknown topic config name: {}"


class TopicConfig(ConfigValues):
    """The configuration of one topic: its overrides, and for other keys the broker's values, else Kafka's defaults.

    Args:
        broker: The configuration of the broker.
        overrides: The settings of the topic. Null is refused, as in Kafka.
        are_old: Whether the topic existed before a change to the broker's configuration. The overrides may then
            conflict with the new configuration.

    Attributes:
        overrides: The settings of the topic, as texts.

    Raises:
        ConfigError: A key is not a topic key, or a value is not allowed by itself or together with the others.
    """

    __slots__ = ("_reported", "broker", "overrides")

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str | None], *, are_old: bool = False) -> None:
        reported = broker.topic_defaults
        self.overrides: dict[str, str] = {}
        keys = broker.topic_keys
        if overrides:
            unknown = next((name for name in overrides if name not in keys or not keys[name].is_known), None)
            if unknown is not None:
                raise ConfigError(_UNKNOWN.format(unknown))
            reported = dict(reported)
            for name, text in overrides.items():
                if text is None:
                    raise ConfigError(f"Null value not supported for topic configs: {name}")
                reported[name] = keys[name].parse(text)
                self.overrides[name] = text
            if not are_old:
                _check_together(reported)
        # Effective values differ from those in DescribeConfigs only in the limits of timestamps.
        limits = timestamp_limits(reported, keys) if "message.timestamp.difference.max.ms" in overrides else None
        super().__init__(keys, {**reported, **limits} if limits else reported)
        self._reported = reported
        self.broker = broker

    def entries(self) -> list[ConfigEntry]:
        """Return the whole configuration in the order of the table. Internal keys that are set come last."""
        # Every response to CreateTopics contains the entries, so the entries that topics share are computed once.
        shared = self.broker.topic_entries
        if not shared:
            unset = TopicConfig(self.broker, {})
            shared.extend(unset.entry(name) for name, key in self.keys.items() if key.is_known and not key.is_internal)
        entries = [self.entry(entry.name) if entry.name in self.overrides else entry for entry in shared]
        return entries + [self.entry(name) for name in self.overrides if self.keys[name].is_internal]

    def value_text(self, name: str) -> str | None:
        """Format a value as in DescribeConfigs. Return None for null and for passwords."""
        return self.keys[name].text(self._reported[name])

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """Return the override and the broker's settings in order of precedence, like `ConfigHelper`."""
        synonyms = self.keys[name].synonyms
        result = self.broker.value_synonyms(synonyms[0][0]) if synonyms else []
        if name in self.overrides:
            result.insert(0, ConfigEntry(name, self.value_text(name), ConfigSource.DYNAMIC_TOPIC_CONFIG))
        return result


def hint_of_unknown_key(error: Exception, overrides: Mapping[str, object]) -> str:
    """Return a hint such as "; did you mean retention.ms?" for `TopicConfig`'s error about an unknown key, or ""."""
    name = next((name for name in overrides if name not in TOPIC_KEYS), None)
    if name is None or str(error) != _UNKNOWN.format(name):
        return ""
    for key in TOPIC_KEYS.values():
        if name in (synonym for synonym, _ in key.synonyms):
            return f"; it is a broker's key, the topic's is {key.name}"
    return names.suggestion(name, TOPIC_KEYS)


def _check_together(values: Mapping[str, ConfigValue]) -> None:
    """Reject combinations of values that `LogConfig.validate` rejects, although each value is allowed by itself."""
    minimum, maximum = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(minimum, int)
    assert isinstance(maximum, int)
    if minimum > maximum:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({minimum}) > max.compaction.lag.ms ({maximum})"
        )
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
