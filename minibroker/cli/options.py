"""The options of `minibroker serve` and `minibroker lab`."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, Final

DEFAULT_LISTEN: Final = "127.0.0.1:9092"
DEFAULT_PAGE: Final = "127.0.0.1:8090"

_AddArgument = Callable[..., Any]
"""The `add_argument` method of a parser."""
_REPEATABLE: Final[dict[str, Any]] = {"action": "append", "default": []}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that both commands share."""
    _add_addresses(parser.add_argument)
    _add_configuration(parser.add_argument)
    _add_topics(parser.add_argument)
    _add_observation(parser.add_argument)
    _add_process(parser.add_argument)


def _add_addresses(option: _AddArgument) -> None:
    """Add the options for addresses of the broker and of ports that the broker opens in place of other programs."""
    option(
        "--listen",
        metavar="HOST:PORT",
        help=f"plaintext address, instead of `listeners`; port 0 takes a free port (default {DEFAULT_LISTEN})",
    )
    option(
        "--brokers",
        type=int,
        metavar="N",
        help="number of brokers of one cluster, in this process; their ports follow that of --listen (default 1)",
    )
    option(
        "--racks",
        type=partial(str.split, sep=","),
        default=[],
        metavar="RACK,...",
        help="`broker.rack` of each broker, in their order; an empty item is no rack (default `broker.rack`)",
    )
    option(
        "--also-listen",
        **_REPEATABLE,
        metavar="HOST:PORT[=ADVERTISED]",
        help="another address to listen on; clients of it get the address ADVERTISED, a HOST:PORT (repeatable)",
    )
    option(
        "--advertise",
        metavar="HOST:PORT",
        help="address that clients get (default `advertised.listeners`, or the address they connected to)",
    )
    option(
        "--registry",
        metavar="HOST:PORT",
        help="address of the schema registry: see docs/registry.md; port 0 takes a free port",
    )
    option(
        "--silent-port",
        **_REPEATABLE,
        metavar="HOST:PORT",
        help="accept connections at this address and send nothing, like a controller or JMX port (repeatable)",
    )
    option("--zookeeper", metavar="HOST:PORT", help="run a small ZooKeeper at this address, too")
    option(
        "--meet",
        **_REPEATABLE,
        metavar="[ID@]HOST:PORT",
        help="be one of several brokers in processes of their own, which meet at this address, or at "
        "zookeeper://CONNECT: see docs/docker-kafka.md (repeatable)",
    )
    option("--link", metavar="HOST:PORT", help="address for the other processes of --meet (default: a free port)")
    option(
        "--admin-api",
        **_REPEATABLE,
        metavar="KIND=HOST:PORT",
        help="answer health checks of a vendor's HTTP API: redpanda, confluent, or absent for status 404",
    )


def _add_configuration(option: _AddArgument) -> None:
    """Add the options for the configuration and the log directory."""
    option(
        "--data-dir",
        metavar="DIR",
        help="directory of the logs (default `log.dirs`, or a temporary directory that is removed at exit)",
    )
    option(
        "--config",
        **_REPEATABLE,
        metavar="FILE",
        help="a server.properties with Kafka's keys (repeatable; the last value of a key counts)",
    )
    option(
        "--set",
        **_REPEATABLE,
        metavar="KEY=VALUE",
        dest="settings",
        help="set a key; takes precedence over FILE (repeatable)",
    )
    option(
        "--emulate", metavar="RELEASE", help="serve the APIs and versions of this release of Kafka: 0.8.2, 0.9, ... 4.4"
    )


def _add_topics(option: _AddArgument) -> None:
    """Add the options for the initial topics and records."""
    option(
        "--topic",
        **_REPEATABLE,
        metavar="NAME[:PARTITIONS[:KEY=VALUE,...]]",
        help="create this topic, unless it exists (repeatable)",
    )
    option("--seed-data", metavar="FILE", help="topics and records to start with: YAML, JSON or JSON lines")


def _add_observation(option: _AddArgument) -> None:
    """Add the options with which a test observes and disturbs the broker."""
    option(
        "--chaos",
        metavar="SEED[:PROFILE]",
        help="misbehave as a Kafka cluster may: see docs/chaos.md; with three brokers without --brokers",
    )
    option("--faults", metavar="FILE", help="faults to inject, as JSON or YAML: see docs/faults.md")
    option(
        "--journal",
        nargs="?",
        const=True,
        default=False,
        type=int,
        metavar="N",
        help="keep the newest N requests of clients (10000 without N)",
    )
    option("--check", action="store_true", help="keep what clients do, for POST /check: see docs/checks.md")
    option(
        "--page",
        metavar="HOST:PORT",
        help="address of the lab's web page: see docs/lab.md; port 0 takes a free port (default of `minibroker lab` "
        f"{DEFAULT_PAGE})",
    )
    option(
        "--control",
        metavar="HOST:PORT",
        help="address of the HTTP control plane: see docs/control-plane.md; port 0 takes a free port",
    )
    option(
        "--control-token",
        metavar="TOKEN",
        help="token that its clients send (default MINIBROKER_CONTROL_TOKEN); required if others can reach the address",
    )


def _add_process(option: _AddArgument) -> None:
    """Add the options about the process itself: its readiness, output and termination."""
    option("--ready-file", metavar="PATH", help="write the bootstrap address to this file once clients can connect")
    option(
        "--stop-with-stdin",
        action="store_true",
        help="stop when stdin ends, too: through a pipe, the broker stops with the process that started it",
    )
    option(
        "--log-format", choices=("text", "json"), default="text", help="format of the lines on stderr (default text)"
    )
    option("-v", "--verbose", action="store_true", help="print a line on stderr for each request")
