"""Phrases shared by several messages, and number formats for the OpenAPI document."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Annotated, Any, Final, NamedTuple

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

_ADVICE: Final = {
    **dict.fromkeys(
        ("bootstrap", "bootstrap_server", "broker_list", "host", "port", "servers", "url"),
        "`bootstrap_servers` is for clients, and `address` is (host, port)",
    ),
    **dict.fromkeys(
        ("consume", "fetch", "get", "messages", "poll", "read"),
        "`records(topic)` returns records, and `expect(topic, value)` waits for one",
    ),
    **dict.fromkeys(("append", "publish", "send", "write"), "`produce(topic, value)` appends records"),
    **dict.fromkeys(("history", "journal"), "`requests` is the journal"),
    **dict.fromkeys(("describe_topic", "list_topics", "topic"), "`topics()` describes all topics"),
    **dict.fromkeys(
        ("kill", "kill_broker", "restart", "stop_broker"), "`brokers[1].stop()` stops one broker, and `stop()` all"
    ),
    **dict.fromkeys(
        ("wait_for_consumer", "wait_for_group", "wait_for_lag", "wait_until"),
        "`expect(topic, value)`, `wait_for(topic)` and `group(id).wait_until_caught_up()` wait",
    ),
    **dict.fromkeys(
        ("admin", "client", "consumer", "producer"), "give `bootstrap_servers` to a client of your library"
    ),
    **dict.fromkeys(
        ("KafkaAdminClient", "KafkaClient", "KafkaConsumer", "KafkaProducer", "TopicPartition"),
        "the fixture `kafka` hides the module `kafka`: write `from kafka import KafkaProducer`",
    ),
    **dict.fromkeys(("fail", "inject"), "`fault(api='Produce', error='NOT_LEADER_OR_FOLLOWER')` makes requests fail"),
    **dict.fromkeys(("advance", "sleep", "tick", "time"), "`clock.advance(seconds)` moves the time"),
}
"""What to use instead of names that people look for in a `Broker`."""
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


def missing_attribute(instance: object, name: str) -> AttributeError:
    """Return the error for a name that a broker or one of its objects lacks, with what was probably meant."""
    if hasattr(type(instance), name):
        object.__getattribute__(instance, name)  # A property has raised an AttributeError, and does so again.
    names = [other for other in dir(type(instance)) if not other.startswith("_")]
    advice = suggestion(name, names)
    if "bootstrap_servers" in names:
        advice = f"; {_ADVICE[name]}" if name in _ADVICE else advice
    elif not advice:
        advice = f"; it has {', '.join(other for other in names if other not in {'asynchronous', 'wait'})}"
    return AttributeError(f"{type(instance).__name__!r} object has no attribute {name!r}{advice}")
