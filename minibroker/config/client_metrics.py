"""The configuration keys of a client metrics subscription (KIP-714, Kafka's `ClientMetricsConfigs`)."""

from collections.abc import Mapping
from typing import Final

from minibroker.config.key_tables import CLIENT_METRICS_KEYS
from minibroker.config.keys import ConfigError, ConfigValue
from minibroker.config.names.regular_expressions import CostError, RegularExpression, RegularExpressionError
from minibroker.config.values import ConfigEntry, ConfigSource, ConfigValues

_METRICS: Final = "metrics"
_INTERVAL: Final = "interval.ms"
_MATCH: Final = "match"
ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
_HOUR_MS: Final = 3_600_000

MATCHED: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The properties of a client that a subscription can match (KIP-714)."""


class ClientMetricsConfig(ConfigValues):
    """One client metrics subscription.

    Attributes:
        patterns: The patterns that select clients, by the property that they match.
        metrics: The prefixes of the names of the subscribed metrics.
        interval_ms: The interval between a client's pushes, in milliseconds.

    Raises:
        SubscriptionError: A key is unknown, or the interval is not allowed.
        ConfigError: Another value is not allowed.
    """

    __slots__ = ("interval_ms", "metrics", "overrides", "patterns")

    def __init__(self, overrides: Mapping[str, str]) -> None:
        values = {name: key.default for name, key in CLIENT_METRICS_KEYS.items()}
        for name, text in overrides.items():
            if name not in CLIENT_METRICS_KEYS:
                raise SubscriptionError(f"Unknown client metrics configuration: {name}")
            values[name] = _parse(name, text)
        super().__init__(CLIENT_METRICS_KEYS, values)
        self.overrides = overrides
        self.patterns = dict(map(_parse_pattern, self.items(_MATCH)))
        self.metrics = self.items(_METRICS)
        self.interval_ms = self.integer(_INTERVAL)

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether the subscription selects a client with these properties. Patterns match whole values."""
        try:
            return all(pattern.matches(client.get(name, "")) for name, pattern in self.patterns.items())
        except CostError:  # Real values are short, so only a malicious value exceeds the cost limit.
            return False

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """Return a list with the setting of a key, or an empty list if the key is not set."""
        if name not in self.overrides:
            return []
        return [ConfigEntry(name, self.value_text(name), ConfigSource.CLIENT_METRICS_CONFIG)]


class SubscriptionError(ConfigError):
    """An invalid subscription for which Kafka returns INVALID_REQUEST instead of INVALID_CONFIG."""


def _parse(name: str, text: str) -> ConfigValue:
    try:
        return CLIENT_METRICS_KEYS[name].parse(text)
    except ConfigError:
        if name == _INTERVAL and text.strip().lstrip("+-").isdecimal():
            reason = f"{_INTERVAL}, interval must be between 100 and {_HOUR_MS} (1 hour)"
            raise SubscriptionError(f"Invalid value {text.strip()} for {reason}") from None
        raise


def _parse_pattern(text: str) -> tuple[str, RegularExpression]:
    name, _, pattern = text.partition("=")
    name, pattern = name.strip(), pattern.strip()
    pattern_error = ConfigError(f"Illegal client matching pattern: {text}")
    if name not in MATCHED or not pattern or "=" in pattern:
        raise pattern_error
    try:
        return name, RegularExpression(pattern)
    except RegularExpressionError:
        raise pattern_error from None
