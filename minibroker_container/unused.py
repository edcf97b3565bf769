"""Names the variables of other images that have no effect here, so that none is silently ignored.

Variables for the JVM, logging and an image's scripts are not named, because there is nothing for them to change.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minibroker.cli.container_variables import OPTIONS, variable_of

_SERVICES: Final = "no such service runs here, only a broker and a schema registry"
_KNOWN: Final = (
    "MINIBROKER_(TOPICS|MEET|ADMIN_API|LOG_LINES|CONTROL_TOKEN)|KAFKA_CONFLUENT_(HTTP|METADATA)_SERVER_LISTENERS"
    "|(KAFKA_)?CONFLUENT_SCHEMA_REGISTRY_URL|STRIMZI_(JAVA|KAFKA_GC_LOG)_\\w+|ZOOKEEPER_CONNECT|RPK_\\w+|REDPANDA_BROKERS"
)
_FEATURES: Final = (
    (re.compile("|".join([_KNOWN, *OPTIONS])), ""),
    (re.compile(r"MINIBROKER_\w+"), "minibroker has no such variable"),
    (re.compile(r"(KAFKA_)?CONFLUENT_\w+"), "these features of Confluent Server do not exist here"),
    (re.compile(r"(KAFKA_)+REST_\w+|(SCHEMA_REGISTRY|CONNECT|KSQL|CONTROL_CENTER|ZOOKEEPER|ZOO|ZK)_\w+"), _SERVICES),
    (re.compile(r"(BROKER_SSL|REST|WEB)_PORT|ENABLE_SSL|SSL_EXTRA_HOSTS|SAMPLEDATA|CONNECTORS"), _SERVICES),
    (re.compile(r"KAFKA_EXTRA_FLAGS|KAFKA_ZOOKEEPER_(PROTOCOL|USER|PASSWORD|TLS_\w+)"), "no script of Kafka runs here"),
    (re.compile(r"(REDPANDA|RP)_\w+"), "the command `redpanda start` reads them"),
    (re.compile(r"STRIMZI_\w+"), "no operator runs here"),
)
"""Patterns of names with the reason why they have no effect. The first match applies. "" means a known variable."""
_SERVICE_LINK: Final = re.compile(r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)")
_SECRET: Final = re.compile(
    r"PASSWORD|SECRET|JAAS|LICENSE$|API_KEY|CREDENTIAL|USER_INFO|PRIVATE_KEY|USERS?$", re.IGNORECASE
)
_USER_INFO: Final = re.compile(r"//[^/@\s]+@")
_MAX_VALUE_LENGTH: Final = 80


def warn_unused(environment: Mapping[str, str], configs: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Print one line for each reason why variables and Confluent's keys of a properties file have no effect."""
    keys = {variable_of(key): value for key, value in configs.items() if key.startswith("confluent.")}
    unused: dict[str, list[str]] = {}
    for name, value in ({**keys, **environment}).items():
        is_link = _SERVICE_LINK.fullmatch(name) or value.startswith(("tcp://", "udp://"))
        reason = next((reason for pattern, reason in _FEATURES if pattern.fullmatch(name)), "")
        if reason and value and not is_link:
            unused.setdefault(reason, []).append(describe(name, value))
    for reason, settings in unused.items():
        warn_of(settings, reason, warn)


def warn_of(settings: Iterable[str], reason: str, warn: Callable[[str], None]) -> None:
    """Print that settings have no effect, unless there are none."""
    if listed := ", ".join(settings):
        warn(f"no effect: {listed}; {reason}")


def describe(name: str, value: object, between: str = "=") -> str:
    """Return a setting as text on one line, without the value of a secret, and without user and password in a URL."""
    text = "[hidden]" if _SECRET.search(name) else _USER_INFO.sub("//[hidden]@", " ".join(str(value).split()))
    shown = text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."
    return f"{name}{between}{shown}" if shown else name
