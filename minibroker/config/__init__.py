"""Configuration under Kafka's own names: tables of broker, topic and group keys, and the values read from them.

`python -m minibroker.config.reference` writes `docs/configuration.md` from the tables (`keys.tsv`).
"""

from minibroker.config.broker import BrokerConfig
from minibroker.config.key_tables import BROKER_KEYS, TOPIC_KEYS
from minibroker.config.keys import ConfigError, ConfigKey, ConfigType, ConfigValue, Importance
from minibroker.config.properties import PropertiesError, parse_properties
from minibroker.config.topic import TopicConfig
from minibroker.config.values import ConfigEntry, ConfigSource

__all__ = [
    "BROKER_KEYS",
    "TOPIC_KEYS",
    "BrokerConfig",
    "ConfigEntry",
    "ConfigError",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "PropertiesError",
    "TopicConfig",
    "parse_properties",
]
