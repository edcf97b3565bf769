"""Typed getters and the sources of values, common to the configurations of brokers and topics."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from minibroker.config.keys import ConfigKey, ConfigType, ConfigValue


class ConfigSource(IntEnum):
    """The source of a value. The numbers are those of DescribeConfigs v1 (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigEntry(NamedTuple):
    """A key in DescribeConfigs or CreateTopics (v5), or one of the settings that its value could have come from.

    `value` is None for null and for passwords. Only passwords are sensitive.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False


class ConfigValues:
    """Parsed values by key. Each getter is one look-up.

    Getters raise KeyError for a key that is not in the table, and TypeError for a value that is null or of another
    type. Both are mistakes of the caller, never of a user.
    """

    __slots__ = ("_values", "keys")

    keys: Mapping[str, ConfigKey]
    """The table of keys."""

    def __init__(self, keys: Mapping[str, ConfigKey], values: Mapping[str, ConfigValue]) -> None:
        self.keys = keys
        self._values = values

    def integer(self, name: str) -> int:
        """Return the value of an INT, SHORT or LONG."""
        value = self._values[name]
        if type(value) is int:
            return value
        raise self._type_error(name)

    def optional_integer(self, name: str) -> int | None:
        """Return the value of an INT, SHORT or LONG that may be null."""
        return None if self._values[name] is None else self.integer(name)

    def value(self, name: str) -> ConfigValue:
        """Return a value of any type."""
        return self._values[name]

    def boolean(self, name: str) -> bool:
        """Return the value of a BOOLEAN."""
        value = self._values[name]
        if type(value) is bool:
            return value
        raise self._type_error(name)

    def number(self, name: str) -> float:
        """Return the value of a DOUBLE."""
        value = self._values[name]
        if type(value) is float:
            return value
        raise self._type_error(name)

    def text(self, name: str) -> str:
        """Return the value of a STRING, CLASS or PASSWORD."""
        value = self._values[name]
        if type(value) is str:
            return value
        raise self._type_error(name)

    def optional_text(self, name: str) -> str | None:
        """Return the value of a STRING, CLASS or PASSWORD that may be null."""
        return None if self._values[name] is None else self.text(name)

    def items(self, name: str) -> list[str]:
        """Return the items of a LIST. Callers must not change the list, which is not a copy."""
        value = self._values[name]
        if type(value) is list:
            return value
        raise self._type_error(name)

    def _type_error(self, name: str) -> TypeError:
        kind = "null" if self._values[name] is None else self.keys[name].type.name
        return TypeError(f"{name} is {kind}, ask for it with another getter")

    def entry(self, name: str) -> ConfigEntry:
        """Return the value of a key with its source."""
        is_sensitive = self.keys[name].type is ConfigType.PASSWORD
        return ConfigEntry(name, self.value_text(name), self.value_source(name), is_sensitive)

    def entries(self) -> list[ConfigEntry]:
        """Return the whole configuration in the order of the table."""
        return [self.entry(name) for name in self.keys]

    def value_text(self, name: str) -> str | None:
        """Format a value as in DescribeConfigs. Return None for null and for passwords."""
        return self.keys[name].text(self._values[name])

    def value_source(self, name: str) -> ConfigSource:
        """Return the source of a value as DescribeConfigs reports it: the source of the first synonym."""
        synonyms = self.value_synonyms(name)
        return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """Return the settings from which a value can come, in order of precedence (DescribeConfigs v1)."""
        raise NotImplementedError
