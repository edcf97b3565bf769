"""Typed getters and the sources of values, common to the configurations of brokers and topics."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from minibroker.config.keys import ConfigKey, ConfigType, ConfigValue


class ConfigSource(IntEnum):
    """Where a value came from; the numbers are those of DescribeConfigs v1 (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigEntry(NamedTuple):
    """A key as DescribeConfigs and CreateTopics (v5) return it, or a setting that its value could have come from.

    `value` is None for null and for passwords, and only those are sensitive.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False


class ConfigValues:
    """Values by key, parsed once; every getter is one look-up.

    A getter raises KeyError for a key that the table does not have, and TypeError for one whose value is of another
    type or null: both are mistakes of the caller, never of a user.
    """

    __slots__ = ("_values", "keys")

    keys: Mapping[str, ConfigKey]
    """The table that the values belong to."""

    def __init__(self, keys: Mapping[str, ConfigKey], values: Mapping[str, ConfigValue]) -> None:
        self.keys = keys
        self._values = values

    def integer(self, name: str) -> int:
        """Return the value of an INT, SHORT or LONG."""
        value = self._values[name]
        if type(value) is int:
            return value
        raise self._mistaken(name)

    def optional_integer(self, name: str) -> int | None:
        """Return the value of an INT, SHORT or LONG that may be null."""
        return None if self._values[name] is None else self.integer(name)

    def value(self, name: str) -> ConfigValue:
        """Return a value of whatever type."""
        return self._values[name]

    def boolean(self, name: str) -> bool:
        """Return the value of a BOOLEAN."""
        value = self._values[name]
        if type(value) is bool:
            return value
        raise self._mistaken(name)

    def number(self, name: str) -> float:
        """Return the value of a DOUBLE."""
        value = self._values[name]
        if type(value) is float:
            return value
        raise self._mistaken(name)

    def text(self, name: str) -> str:
        """Return the value of a STRING, CLASS or PASSWORD."""
        value = self._values[name]
        if type(value) is str:
            return value
        raise self._mistaken(name)

    def optional_text(self, name: str) -> str | None:
        """Return the value of a STRING, CLASS or PASSWORD that may be null."""
        return None if self._values[name] is None else self.text(name)

    def items(self, name: str) -> list[str]:
        """Return the items of a LIST. The list is the one that is kept: do not change it."""
        value = self._values[name]
        if type(value) is list:
            return value
        raise self._mistaken(name)

    def _mistaken(self, name: str) -> TypeError:
        kind = "null" if self._values[name] is None else self.keys[name].type.name
        return TypeError(f"{name} is {kind}, ask for it with another getter")

    def entry(self, name: str) -> ConfigEntry:
        """Return the value of one key and where it came from."""
        is_sensitive = self.keys[name].type is ConfigType.PASSWORD
        return ConfigEntry(name, self.value_text(name), self.value_source(name), is_sensitive)

    def entries(self) -> list[ConfigEntry]:
        """Return the whole configuration, in the order of the table."""
        return [self.entry(name) for name in self.keys]

    def value_text(self, name: str) -> str | None:
        """Write the value as DescribeConfigs shows it; None for null and for passwords."""
        return self.keys[name].text(self._values[name])

    def value_source(self, name: str) -> ConfigSource:
        """Return where the value came from, as DescribeConfigs does: the source of the first synonym."""
        synonyms = self.value_synonyms(name)
        return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """List the settings that the value could have come from, the one that counts first (DescribeConfigs v1)."""
        raise NotImplementedError
