"""Properties of librdkafka, with which kcat is configured, as properties of Kafka's clients."""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker_tools.client.settings import load_properties
from minibroker_tools.commands.kcat_property_names import NAMES
from minibroker_tools.failures import ToolError

_SAME: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "topic.auto.offset.reset": "auto.offset.reset",
    "request.required.acks": "acks",
    "topic.request.required.acks": "acks",
    "topic.acks": "acks",
    "compression.codec": "compression.type",
}
"""Names of librdkafka with those of Kafka's clients."""
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
}
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def kafka_properties(path: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """The properties of `-F` and `-X`, with the names of Kafka's clients. ToolError for what makes no sense."""
    given = load_properties(path)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ToolError(f'% ERROR: -X {pair}: Expected "-X property=value"')
        given[key] = value
    for key in given:
        if key.removeprefix("topic.") not in NAMES:
            raise ToolError(f'% ERROR: No such configuration property: "{key}"')
    found = {_SAME.get(key, key): value for key, value in given.items()}
    _add_login(found)
    _add_certificates(found)
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def bootstrap_of(properties: Mapping[str, str]) -> str | None:
    """The addresses that the properties name."""
    return properties.get("bootstrap.servers") or properties.get("metadata.broker.list")


def _add_login(found: dict[str, str]) -> None:
    user, password = found.get("sasl.username"), found.get("sasl.password")
    if user is None:
        return
    module = _MODULES.get(found.get("sasl.mechanism", "").upper(), _SCRAM)
    found["sasl.jaas.config"] = f"{module} required username={_quoted(user)} password={_quoted(password or '')};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _add_certificates(found: dict[str, str]) -> None:
    authority = found.get("ssl.ca.location")
    if authority is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    certificate, key = found.get("ssl.certificate.location"), found.get("ssl.key.location")
    if certificate is not None and key is not None:
        found |= {"ssl.keystore.key": _text(key), "ssl.keystore.certificate.chain": _text(certificate)}


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{path}: {error}") from None
