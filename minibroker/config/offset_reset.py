"""The values of `share.auto.offset.reset` (Kafka's `ShareGroupAutoOffsetResetStrategy`)."""

import re
from typing import Final, NamedTuple

from minibroker.config.keys import ConfigError, ConfigValue, Validator, refused

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration"
_PREFIX: Final = f"{BY_DURATION}:"
# Java's Duration.parse
_DURATION: Final = (
    r"(?ai)([-+]?)P(?=.)(?:([-+]?\d+)D)?"
    r"(?:T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?"
)
_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS


class OffsetReset(NamedTuple):
    """Where a share group begins in a partition.

    Attributes:
        kind: EARLIEST, LATEST or BY_DURATION.
        before_ms: with BY_DURATION, how long before now.
    """

    kind: str
    before_ms: int = 0

    @classmethod
    def of(cls, text: str) -> "OffsetReset":
        """The strategy of a text such as "latest" or "by_duration:PT1H"; ValueError."""
        lowered = text.lower()
        if lowered in {EARLIEST, LATEST}:
            return cls(lowered)
        found = re.fullmatch(_DURATION, text[len(_PREFIX) :]) if lowered.startswith(_PREFIX) else None
        if found is None:
            raise ValueError(text)
        sign, days, hours, minutes, sign_of_seconds, seconds, fraction = found.groups(default="0")
        ms = int(seconds) * _SECOND_MS + int(fraction.ljust(9, "0")) / 1_000_000
        ms = -ms if sign_of_seconds == "-" else ms
        ms += int(days) * _DAY_MS + int(hours) * _HOUR_MS + int(minutes) * _MINUTE_MS
        ms = -ms if sign == "-" else ms
        if ms < 0:
            raise ValueError(text)
        return cls(BY_DURATION, int(ms))


class OffsetResetStrategy(Validator):
    """Where a share group begins (`ShareGroupAutoOffsetResetStrategy.Validator`)."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        """Refuse what is neither a word nor a duration."""
        assert isinstance(value, str)
        try:
            OffsetReset.of(value)
        except ValueError:
            raise _refused(name, value) from None

    def __str__(self) -> str:
        return "earliest, latest, by_duration:PnDTnHnMn.nS"


def _refused(name: str, value: str) -> ConfigError:
    form = "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
    return refused(name, value, f"Invalid value `{value}` for configuration {name}. The value must be either {form}.")
