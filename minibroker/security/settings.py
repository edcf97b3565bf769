"""The configuration of one listener, whose own keys take precedence over the broker's.

`listener.name.sasl_ssl.ssl.client.auth` applies to one listener, and `listener.name.sasl_ssl.plain.sasl.jaas.config` to
one of its mechanisms (KIP-103, `AbstractConfig.valuesWithPrefixOverride`, `JaasContext.loadServerContext`).
"""

import os
from typing import cast

from minibroker.config import BrokerConfig
from minibroker.config.broker import LISTENER
from minibroker.config.key_tables import BROKER_KEYS
from minibroker.config.keys import ConfigError, ConfigValue
from minibroker.config.run_time import STORE_KEYS


class ListenerSettings:
    """The settings of a listener. `name` is the listener's name in `listeners`.

    Raises:
        ConfigError: A value is invalid. It is raised when the value is read.
    """

    def __init__(self, config: BrokerConfig, name: str) -> None:
        self._config = config
        self.prefix = f"{LISTENER}{name.lower()}."
        self._texts = {
            key.removeprefix(self.prefix): text
            for texts in (config.unknown, *config.run_time)
            for key, text in texts.items()
            if key.startswith(self.prefix)
        }

    def is_own(self, key: str) -> bool:
        """Return whether the key is set for this listener."""
        return key in self._texts

    def stores(self) -> dict[str, object]:
        """Return the settings of the key store and the trust store, and the modification times of their files."""
        settings: dict[str, object] = {key: self.text(key) for key in STORE_KEYS}
        for path in (self.text("ssl.keystore.location"), self.text("ssl.truststore.location")):
            if path is not None and os.path.exists(path):
                settings[path] = os.stat(path).st_mtime_ns
        return settings

    def own(self, key: str, mechanism: str) -> str | None:
        """Return the setting that this listener has for one mechanism, ignoring other settings."""
        return self._texts.get(f"{mechanism.lower()}.{key}")

    def value(self, key: str, mechanism: str = "") -> ConfigValue:
        """Return the value of one of Kafka's keys.

        The mechanism's value takes precedence over the listener's, and the listener's over the broker's.
        """
        names = [f"{mechanism.lower()}.{key}", key] if mechanism else [key]
        for name in names:
            if name in self._texts:
                try:
                    return BROKER_KEYS[key].parse(self._texts[name])
                except ConfigError as error:
                    raise ConfigError(f"{self.prefix}{name}: {error}") from None
        text = self._config.unknown.get(f"{mechanism.lower()}.{key}", self._config.given.get(key))
        return BROKER_KEYS[key].default if text is None else BROKER_KEYS[key].parse(text)

    def text(self, key: str, mechanism: str = "") -> str | None:
        """Return a setting as a string, or None if it is missing or empty."""
        value = self.value(key, mechanism)
        return None if value is None or value == "" else str(value)

    def integer(self, key: str, mechanism: str = "") -> int:
        """Return a setting as an integer."""
        return cast("int", self.value(key, mechanism))

    def items(self, key: str, mechanism: str = "") -> list[str]:
        """Return a setting as a list, which is empty if the key is not set."""
        return [item for item in cast("list[str] | None", self.value(key, mechanism)) or [] if item]
