"""Marks of a row of the table: the releases that have the key, and where it is shown."""

from minibroker.config.keys import ConfigKey


def of_kafka_3(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys that Kafka 3.9 has and Kafka 4 has not."""
    return tuple(_adding(key, "gone in Kafka 4") for key in keys)


def of_kafka_4(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys that came after Kafka 3.9; facts are those of 4.4."""
    return tuple(_adding(key, "new in Kafka 4") for key in keys)


def internal(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys that Kafka reads and checks, but documents and describes only after they were set."""
    return tuple(key._replace(is_internal=True) for key in keys)


def _adding(key: ConfigKey, words: str) -> ConfigKey:
    return key._replace(documentation=f"{key.documentation.removesuffix('.')}; {words}.")
