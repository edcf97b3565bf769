"""Limits of keys that are reported but have no effect."""

import re
from typing import Final

from minibroker.config.keys import ConfigError, ConfigValue, Validator, refused

_ENDPOINT: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z\d+.-]*://)?(?P<host>\[[^]]*\]|[^:/]*):(?P<port>\d+)\Z", re.ASCII)
_PORTS: Final = 1 << 16


class NotEmpty(Validator):
    """Any text but an empty one (`ConfigDef.NonEmptyString`)."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        """Refuse the empty text."""
        if not value:
            raise refused(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "not empty"


class ThreadsOrDefault(Validator):
    """A number of threads, or -1 for that of another key (`RemoteLogManagerConfig`)."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        """Refuse 0 and what is below -1."""
        assert isinstance(value, int)
        if value != -1 and value < 1:
            raise refused(name, value, "Value can be -1 or greater than 0")

    def __str__(self) -> str:
        return "at least 1, or -1"


class Endpoints(Validator):
    """Addresses as host:port (`QuorumConfig.ControllerQuorumBootstrapServersValidator`)."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        """Refuse the first address of another form, as `QuorumConfig.parseBootstrapServers` does."""
        assert isinstance(value, list)
        for each in value:
            endpoint = _ENDPOINT.match(each)
            if endpoint is None:
                error = ConfigError(
                    f"Failed to parse host name from {each} for the configuration {name}. "
                    'Each entry should be in the form "{host}:{port}"'
                )
                error.name, error.value = name, each
                raise error
            if len(endpoint["port"]) > len(str(_PORTS)) or int(endpoint["port"]) >= _PORTS:
                raise refused(name, each, f"port out of range:{endpoint['port']}")

    def __str__(self) -> str:
        return "host:port,..."
