"""`max.connections.per.ip.overrides`: a number of connections for each of some hosts."""

import re
from typing import Final

from minibroker.config.keys import ConfigError, read_int

_KEY: Final = "max.connections.per.ip.overrides"
_HOST: Final = r"[-%._:0-9a-zA-Z]*"
"""Kafka's pattern of a host (`Utils.validHostPattern`). The host need not exist."""


def read_overrides(text: str) -> dict[str, int]:
    """The limits by host. ConfigError in the words of Kafka 3.9.1, which splits at commas and at the last colon."""
    found: dict[str, int] = {}
    # As Java splits: what is empty at the end does not count, what is empty elsewhere has no colon.
    entries = re.split(r"\s*,\s*", text) if text else []
    while entries and not entries[-1]:
        entries.pop()
    for entry in entries:
        host, colon, number = entry.rpartition(":")
        if not colon:
            because = f"begin 0, end -1, length {len(entry)}"
            raise ConfigError(f"Error parsing configuration property '{_KEY}': {because}")
        found[host.strip()] = _number(number.strip())
    strangers = [host for host in found if not re.fullmatch(_HOST, host)]
    if strangers:
        raise ConfigError(f"{_KEY} contains invalid addresses : {','.join(strangers)}")
    return found


def _number(text: str) -> int:
    number = read_int(text)
    if number is None:
        raise ConfigError(f'For input string: "{text}"')
    return number
