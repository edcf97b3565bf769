"""Phrases shared by several messages, and number formats for the OpenAPI document."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Annotated, Any, NamedTuple

from minibroker.config.names import suggestion


class Format(NamedTuple):
    """A number format for JSON schemas.

    Client generators need it for unsigned integers and for integers beyond an int32.
    """

    name: str

    def __get_pydantic_json_schema__(self, schema: Any, to_json: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Return the JSON schema of a number. Called by pydantic, which this package does not import."""
        return {**to_json(schema), "format": self.name}


Int16 = Annotated[int, Format("int16")]
Int64 = Annotated[int, Format("int64")]
UInt32 = Annotated[int, Format("uint32")]
UInt64 = Annotated[int, Format("uint64")]

ConfigValue = str | float | bool

_MAX_NAMES = 10
_MAX_SPAN_S = timedelta.max.days * 86_400


def format_count(number: int, noun: str, nouns: str = "") -> str:
    """Format a count with its noun, such as `1 record` or `2 records`. `nouns` is an irregular plural."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def config_text(value: ConfigValue) -> str:
    """Return a configuration value as text, as in a properties file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def format_duration(seconds: float) -> str:
    """Format a duration, such as `8:20:00` or `83 days, 8:00:00`."""
    return str(timedelta(seconds=round(min(seconds, _MAX_SPAN_S), 3)))


def missing_message(kind: str, name: str, existing: Iterable[str]) -> str:
    """Return a message such as `there is no topic 'ordres'; topics: orders; did you mean orders?`."""
    names = sorted(existing)
    others = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    listed = ", ".join(names[:_MAX_NAMES]) or "none"
    return f"there is no {kind} {name!r}; {kind}s: {listed}{others}{suggestion(name, names)}"
