"""The brokers that the matrix runs against."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.clients.broker_process import BrokerProcess
from tests.kafka import jars
from tests.kafka.real_kafka import RealKafka

_PROPERTIES: Final = {
    # Without it, brokers refuse to keep ACLs.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    "log.retention.ms": "-1",  # drivers write timestamps of long ago
}
OPTIONS: Final = [word for name, value in _PROPERTIES.items() for word in ("--set", f"{name}={value}")]
"""Of `minibroker serve`."""

_EXPECTED: Final = (
    "has no members left",  # members that come back under their name leave nobody behind in between
    "which a client has asked for",  # topics of checks have similar names
)

_PROPERTIES_OF_KAFKA: Final = {
    **_PROPERTIES,
    "group.coordinator.rebalance.protocols": "classic,consumer",  # 3.9 answers no member of the newer one by default
}
_PROPERTIES_OF_4: Final = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@contextlib.contextmanager
def minibroker(directory: Path, options: Sequence[str] = ()) -> Iterator[str]:
    """`minibroker serve` in a process of its own; where it listens. AssertionError if it complains."""
    process = BrokerProcess(directory, [*OPTIONS, *options])
    try:
        process.start()
        yield process.bootstrap
    finally:
        with contextlib.suppress(AssertionError):  # what it says is looked at here
            process.close()
    complaints = [line for line in process.complaints().splitlines() if not any(words in line for words in _EXPECTED)]
    assert not complaints, "\n".join(complaints)


@contextlib.contextmanager
def kafka(version: str, directory: Path) -> Iterator[str]:
    """Kafka of this version, with everything on that clients may ask for; where it listens."""
    properties = {**_PROPERTIES_OF_KAFKA, **(_PROPERTIES_OF_4 if version.startswith("4.") else {})}
    server = RealKafka(directory, jars.find(None, version), properties)
    try:
        server.start()
        yield server.bootstrap
    finally:
        server.close()
