"""A broker that emulates a release, beside a Kafka of that release."""

from collections.abc import Iterator
from pathlib import Path

from minibroker import Broker
from minibroker.config.releases import RELEASES, release_name
from tests.broker.socket_client import SocketClient
from tests.kafka import jars
from tests.kafka.coordinators import with_coordinators
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka
from tests.kafka.test_configs import CONFIG, Side


class Release:
    """Minibroker as a release of Kafka, and that release."""

    def __init__(self, version: str, ours: Side, theirs: Side) -> None:
        self.version = version
        self.ours = ours
        self.theirs = theirs

    def is_since(self, name: str) -> bool:
        """Return whether the release is this one or a later one."""
        return RELEASES.index(release_name(self.version) or "") >= RELEASES.index(name)


def kafka_of(version: str, directory: Path, **config: str) -> RealKafka:
    """Return a Kafka of a release, which is not started yet."""
    return RealKafka(directory, or_skip(lambda: jars.find(version=version)), config)


def run_beside(version: str, kafka: RealKafka, config: dict[str, str] | None = None) -> Iterator[Release]:
    """Yield a running Kafka and a broker that emulates its release, when the coordinators of both are ready."""
    with Broker(config={**CONFIG, "minibroker.emulate": version, **(config or {})}) as broker:
        addresses = [with_coordinators(bootstrap) for bootstrap in (broker.bootstrap_servers, kafka.bootstrap)]
        with SocketClient(addresses[0]) as ours, SocketClient(addresses[1]) as theirs:
            yield Release(version, Side(ours), Side(theirs))
