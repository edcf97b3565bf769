"""The loggers of a broker, whose levels clients can change (KIP-412).

They are the Python logger `minibroker` and its descendants. `root` is an alias of `minibroker`, so a program that
embeds a broker keeps control of its own root logger. Changes last until the broker stops or is reset.

`kafka` and `org.apache.kafka` are further aliases. `kafka_loggers.txt` lists the loggers of Kafka's classes in Kafka
3.9 and 4.3. The levels of these loggers can be set and are inherited, but nothing is logged under their names.
"""

import logging
from functools import cache
from importlib.resources import files
from typing import Final

from minibroker.config.keys import ConfigError

ROOT: Final = "root"
_NAME: Final = "minibroker"
_KAFKA_PREFIX: Final = "minibroker.of_kafka."
_ALIASES: Final = frozenset({ROOT, "kafka", "org.apache.kafka"})
_TRACE: Final = 5
LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": _TRACE,
    "WARN": logging.WARNING,
}
"""Kafka's levels, as Python's numbers."""


class BrokerLoggers:
    """The loggers that clients of one broker can see and change."""

    def __init__(self) -> None:
        self._before: dict[logging.Logger, int] = {}

    def levels(self) -> dict[str, str]:
        """Return the effective level of each logger, by name."""
        loggers = logging.root.manager.loggerDict
        own = (name for name in loggers if name.startswith(f"{_NAME}.") and not f"{name}.".startswith(_KAFKA_PREFIX))
        names = (ROOT, _NAME, *sorted({*own, *_kafka_names()}))
        return {name: _level_name(logging.getLogger(_python_name(name))) for name in names}

    def check_level(self, name: str, level: str) -> None:
        """Check that a logger and a new level for it exist.

        Raises:
            ConfigError: The logger or the level does not exist.
        """
        if level not in LEVELS:
            raise ConfigError(
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}"
            )
        self.check_name(name)

    def check_name(self, name: str) -> None:
        """Check that a logger exists.

        Raises:
            ConfigError: The logger does not exist.
        """
        if name not in self.levels():
            raise ConfigError(f"Logger {name} does not exist!")

    def set_level(self, name: str, level: str | None) -> None:
        """Set the level of a logger. None makes the logger inherit the level of its parent."""
        logger = logging.getLogger(_python_name(name))
        self._before.setdefault(logger, logger.level)
        logger.setLevel(logging.NOTSET if level is None else LEVELS[level])

    def restore(self) -> None:
        """Restore the original levels of all loggers."""
        for logger, level in self._before.items():
            logger.setLevel(level)
        self._before.clear()


@cache
def _kafka_names() -> list[str]:
    return files("minibroker.cluster").joinpath("kafka_loggers.txt").read_text(encoding="utf-8").split()


def _python_name(name: str) -> str:
    if name in _ALIASES:
        return _NAME
    return name if name.startswith(_NAME) else _KAFKA_PREFIX + name


def _level_name(logger: logging.Logger) -> str:
    """Return the Kafka name of a logger's level. A level without a name gets the name of the next higher level."""
    number = logger.getEffectiveLevel()
    return min((level for level in LEVELS if LEVELS[level] >= number), key=LEVELS.__getitem__, default="FATAL")
