"""Configuration keys, and the parsing and validation of their values.

The rules are those of `org.apache.kafka.common.config.ConfigDef` (Kafka 3.9.1). That includes its error messages, which
tools show and users search for.
"""

import re
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

from minibroker_protocol.java_text import fold_case, parse_double, parse_integer, trim

ConfigValue: TypeAlias = bool | int | float | str | list[str] | None

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# The characters that Java's \s matches. Python's \s matches more.
_AROUND_COMMAS = " \t\n\v\f\r"
_INTERNAL_VERSIONS = (
    "0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV0 "
    "0.11.0-IV1 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0 2.2-IV1 2.3-IV0 "
    "2.3-IV1 2.4-IV0 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1 3.0-IV0 3.0-IV1 3.1-IV0 "
    "3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 "
    "3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1"
)
_ENDPOINT: Final = r"(?a)(?:[a-zA-Z][a-zA-Z\d+.-]*://)?(?P<host>\[[^]]*\]|[^:/]*):(?P<port>\d+)\Z"
_PORTS: Final = 1 << 16
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration"
_PREFIX: Final = f"{BY_DURATION}:"
# The syntax of Java's Duration.parse.
_DURATION: Final = (
    r"(?ai)([-+]?)P(?=.)(?:([-+]?\d+)D)?"
    r"(?:T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?"
)


class ConfigType(IntEnum):
    """The type of a key's value. The numbers are those of DescribeConfigs v3 (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    """Kafka's estimate of the likelihood that users set a key."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ConfigResourceType(IntEnum):
    """A type of resource with a configuration, numbered as in DescribeConfigs (`ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigError(ValueError):
    """An unknown key, or a value that is not allowed.

    The message names the key and the value, and lists the allowed values. Clients get INVALID_CONFIG with this
    message.
    """


def refused(name: str, value: ConfigValue, reason: str) -> ConfigError:
    """Return an error that rejects the value of a key, with the message of Kafka's `ConfigException`."""
    return ConfigError(f"Invalid value {_java_text(value)} for configuration {name}: {reason}")


class Validator:
    """A check of values that already have the right type.

    Attributes:
        description: The allowed values, for the documentation.
    """

    description = ""

    def check(self, name: str, value: ConfigValue) -> None:
        """Check a value of the key `name`. A null default is never checked.

        Raises:
            ConfigError: The value is not allowed.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        return self.description


class Range(Validator):
    """A number from `low` to `high`, inclusive. None means no limit (`ConfigDef.Range`)."""

    def __init__(self, low: float | None = None, high: float | None = None) -> None:
        self.low = low
        self.high = high
        self.description = f"at least {low}" if high is None else f"{low} to {high}"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject numbers outside the range. As in Java, NaN is accepted."""
        assert isinstance(value, int | float)
        if self.low is not None and value < self.low:
            raise refused(name, value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise refused(name, value, f"Value must be no more than {self.high}")


class OneOf(Validator):
    """One of several allowed words, or a list of them (`ConfigDef.ValidString`, `ConfigDef.ValidList`)."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.description = ", ".join(words)

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject a value that contains a word that is not allowed. The error names the first such word."""
        for word in value if isinstance(value, list) else [value]:
            if word not in self.words:
                raise refused(name, word, f"String must be one of: {self.description}")


class Distinct(OneOf):
    """A list of certain words, or of any words (`ConfigDef.ValidList` since Kafka 4.2). Duplicates are removed."""

    def __init__(self, *words: str, is_empty_allowed: bool = True) -> None:
        super().__init__(*words)
        self.description = self.description or "a list"
        self.is_empty_allowed = is_empty_allowed

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject items that are empty or not allowed, and an empty list if an item is required."""
        assert isinstance(value, list)
        if not value and not self.is_empty_allowed:
            words = f"[{', '.join(self.words)}]" if self.words else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {words}")
        if not all(value):
            raise ConfigError(f"Configuration '{name}' values must not be empty.")
        if self.words:
            super().check(name, value)


class OneOfAnyCase(OneOf):
    """One of several words, ignoring case (`ConfigDef.CaseInsensitiveValidString`)."""

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject a word that is not allowed, ignoring case."""
        if str(value).upper() not in self.words:
            raise refused(name, value, f"String must be one of (case insensitive): {self.description}")


class GzipLevel(Validator):
    """A zlib compression level: 1 to 9, or -1 for zlib's default (`CompressionType.GZIP.levelValidator`)."""

    description = "1 to 9, or -1"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject 0 and all levels outside the range."""
        assert isinstance(value, int)
        if value != -1 and not 1 <= value <= 9:  # noqa: PLR2004 - zlib's levels
            raise refused(name, value, "Value must be between 1 and 9 or equal to -1")


class ThrottledReplicas(Validator):
    """Replicas as partition:broker, or a single * for all of them (`ThrottledReplicaListValidator`)."""

    description = "partition:broker,..., or *"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject a list that has an item in another form."""
        assert isinstance(value, list)
        if value == ["*"] or all(map(self._is_replica, value)):
            return
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        raise refused(
            name, value, f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
        )

    @staticmethod
    def _is_replica(item: str) -> bool:
        partition, _, broker = item.partition(":")
        return not item or (item.isascii() and partition.isdigit() and broker.isdigit())


class Voters(Validator):
    """The voters of a KRaft quorum, as id@host:port (`QuorumConfig.ControllerQuorumVotersValidator`)."""

    description = "id@host:port,..."

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject a malformed voter, naming the first one."""
        assert isinstance(value, list)
        for voter in value:
            number, _, address = voter.partition("@")
            host, _, port = address.rpartition(":")
            is_port = port.isdecimal() and parse_integer(port, 16) is not None
            if parse_integer(number) is None or not host or not is_port:
                raise refused(name, voter, "Each entry should be in the form `{id}@{host}:{port}`.")


class ClusterId(Validator):
    """A cluster id, as found in `meta.properties`."""

    description = "no blanks"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject characters that would not survive a line of a properties file unchanged."""
        text = str(value)
        if not text or not all("!" <= character <= "~" and character != "\\" for character in text):
            raise refused(name, value, "A cluster id is made of ASCII letters, digits and signs without blanks")


class KafkaVersion(Validator):
    """A version of Kafka that `inter.broker.protocol.version` accepts (`MetadataVersionValidator`).

    This is a release such as 3.9, or one of its internal versions such as 3.9-IV0. Either may be followed by a
    further dot and any text.
    """

    description = "a version of Kafka, 0.8.0 to 4.0-IV1"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject a version that no Kafka release has had."""
        version = str(value)
        parts = version.rstrip(".").split(".")
        length = 3 if version.startswith("0.") else 2
        release = ".".join(parts[:length]) if len(parts) > length else version
        versions = _INTERNAL_VERSIONS.split()
        # Kafka 3.9.1 has the first internal versions of 4.0, but not the release itself.
        releases = {internal.partition("-")[0] for internal in versions} - {"4.0"}
        if release not in versions and release not in releases:
            raise refused(name, version, f"Version {version} is not a valid version")


class NotEmpty(Validator):
    """Any text except an empty one (`ConfigDef.NonEmptyString`)."""

    description = "not empty"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject an empty text."""
        if not value:
            raise refused(name, value, "String must be non-empty")


class ThreadsOrDefault(Validator):
    """A number of threads, or -1 for the value of another key (`RemoteLogManagerConfig`)."""

    description = "at least 1, or -1"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject 0 and numbers less than -1."""
        assert isinstance(value, int)
        if value != -1 and value < 1:
            raise refused(name, value, "Value can be -1 or greater than 0")


class Endpoints(Validator):
    """Addresses as host:port (`QuorumConfig.ControllerQuorumBootstrapServersValidator`)."""

    description = "host:port,..."

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject a malformed address, naming the first one, like `QuorumConfig.parseBootstrapServers`."""
        assert isinstance(value, list)
        for address in value:
            endpoint = re.match(_ENDPOINT, address)
            if endpoint is None:
                raise ConfigError(
                    f"Failed to parse host name from {address} for the configuration {name}. "
                    'Each entry should be in the form "{host}:{port}"'
                )
            if len(endpoint["port"]) > len(str(_PORTS)) or int(endpoint["port"]) >= _PORTS:
                raise refused(name, address, f"port out of range:{endpoint['port']}")


class ConfigKey(NamedTuple):
    """One row of a table of configuration keys.

    Attributes:
        default: The typed default. None is Kafka's null.
        allowed: The validator of values, or None if every value of the type is allowed.
        honored: Whether minibroker acts on the key. Other keys are only accepted and reported.
        synonyms: For a topic key, the broker keys that provide its default. Each has the factor from its unit to
            that of the topic key. The first one that is set applies. The last one always has a value.
        is_internal: Whether Kafka lists the key only if it is set.
        is_known: Whether the emulated release has the key.
        is_dynamic: Whether the key can be altered on a running broker (KIP-226).
        is_per_broker: Whether the key cannot be altered for all brokers together.
        reported_type: The type that the emulated release reports, if it is not `type`.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    allowed: Validator | None
    importance: Importance
    honored: bool
    documentation: str
    synonyms: tuple[tuple[str, int], ...] = ()
    is_internal: bool = False
    is_known: bool = True
    is_dynamic: bool = False
    is_per_broker: bool = False
    reported_type: ConfigType | None = None

    def parse(self, text: str) -> ConfigValue:
        """Parse and check a value from a properties file or a request.

        Raises:
            ConfigError: The value is not allowed.
        """
        value = parse_value(self.name, self.type, text)
        if isinstance(self.allowed, Distinct) and isinstance(value, list):
            value = list(dict.fromkeys(value))
        if self.allowed is not None:
            self.allowed.check(self.name, value)
        return value

    def text(self, value: ConfigValue) -> str | None:
        """Format a value as in DescribeConfigs (`ConfigDef.convertToString`). Null and passwords give None."""
        if value is None or self.type is ConfigType.PASSWORD:
            return None
        return ",".join(value) if isinstance(value, list) else _java_text(value)


_BITS = {ConfigType.INT: 31, ConfigType.SHORT: 15, ConfigType.LONG: 63}


def parse_value(name: str, kind: ConfigType, text: str) -> ConfigValue:
    """Parse a value of the key `name`.

    Raises:
        ConfigError: The text is not a value of this type.
    """
    trimmed = trim(text)
    if kind is ConfigType.BOOLEAN:
        folded = fold_case(trimmed)
        if folded not in {"true", "false"}:
            raise refused(name, text, "Expected value to be either true or false")
        return folded == "true"
    if kind is ConfigType.LIST:
        return [item.strip(_AROUND_COMMAS) for item in trimmed.split(",")] if trimmed else []
    if kind is ConfigType.DOUBLE:
        number = parse_double(trimmed)
    elif kind in _BITS:
        number = parse_integer(trimmed, _BITS[kind])
    else:
        return trimmed
    if number is None:
        raise refused(name, text, f"Not a number of type {kind.name}")
    return number


def _java_text(value: ConfigValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    if isinstance(value, float):
        return _double_text(value)
    return "null" if value is None else str(value)


def _double_text(value: float) -> str:
    """Format a number like Java's Double.toString: plain from 0.001 to below ten million, otherwise like 1.0E7."""
    text = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
    if not value or text[-1] in "yN" or 1e-3 <= abs(value) < 1e7:  # noqa: PLR2004 - the limits just named
        return text
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{power}"


class OffsetReset(NamedTuple):
    """The position at which a share group starts reading a partition.

    Attributes:
        kind: EARLIEST, LATEST or BY_DURATION.
        before_ms: With BY_DURATION, the time before the current time, in milliseconds.
    """

    kind: str
    before_ms: int = 0

    @classmethod
    def of(cls, text: str) -> "OffsetReset":
        """Parse a strategy such as "latest" or "by_duration:PT1H".

        Raises:
            ValueError: The text is not a strategy.
        """
        lowered = text.lower()
        if lowered in {EARLIEST, LATEST}:
            return cls(lowered)
        match = re.fullmatch(_DURATION, text[len(_PREFIX) :]) if lowered.startswith(_PREFIX) else None
        if match is None:
            raise ValueError(text)
        sign, days, hours, minutes, sign_of_seconds, seconds, fraction = match.groups(default="0")
        ms = int(seconds) * 1_000 + int(fraction.ljust(9, "0")) / 1_000_000
        ms = -ms if sign_of_seconds == "-" else ms
        ms += ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60_000
        ms = -ms if sign == "-" else ms
        if ms < 0:
            raise ValueError(text)
        return cls(BY_DURATION, int(ms))


class OffsetResetStrategy(Validator):
    """The position at which a share group starts reading (`ShareGroupAutoOffsetResetStrategy.Validator`)."""

    description = "earliest, latest, by_duration:PnDTnHnMn.nS"

    def check(self, name: str, value: ConfigValue) -> None:
        """Reject a text that is neither the name of a strategy nor a duration."""
        assert isinstance(value, str)
        try:
            OffsetReset.of(value)
        except ValueError:
            form = "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
            reason = f"Invalid value `{value}` for configuration {name}. The value must be either {form}."
            raise refused(name, value, reason) from None


VALIDATORS: Final = {
    validator.__name__: validator()
    for validator in (
        ClusterId,
        Endpoints,
        GzipLevel,
        KafkaVersion,
        NotEmpty,
        OffsetResetStrategy,
        ThreadsOrDefault,
        ThrottledReplicas,
        Voters,
    )
}
"""The validators without parameters, by their names in `keys.tsv`."""
