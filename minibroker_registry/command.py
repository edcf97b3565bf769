"""`minibroker registry` serves a schema registry for any Kafka, which keeps the schemas in the topic `_schemas`."""

import argparse
import asyncio
import time
from typing import Final

from minibroker.config import BrokerConfig
from minibroker.config.addresses import parse_address
from minibroker.config.event_loops import make_stop_event
from minibroker.config.properties import parse_properties
from minibroker.security.settings import ListenerSettings
from minibroker_container import health
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy
from minibroker_registry.client_log import ClientLog
from minibroker_registry.formats import LEVELS
from minibroker_registry.server import RegistryServer
from minibroker_storage.installation_hints import missing
from minibroker_tools.failures import ToolError

with lazy:
    from minibroker_tools.client import settings, zookeeper

_DEFAULT_LISTEN: Final = "127.0.0.1:8081"
_HTTPS: Final = "https://"
_SERVER: Final = "server."
_ZOOKEEPER: Final = "zookeeper://"
_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    option = parser.add_argument
    option(
        "--bootstrap",
        required=True,
        metavar="HOST:PORT,...",
        help="addresses of the Kafka cluster, or zookeeper://HOST:PORT if they are registered in a ZooKeeper",
    )
    option("--config", metavar="FILE", help="client properties with Kafka's names, such as security.protocol")
    option(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="a client property; takes precedence over FILE (repeatable)",
    )
    option(
        "--listen",
        default=_DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"address of the registry; port 0 takes a free port (default {_DEFAULT_LISTEN}). With https://HOST:PORT, "
        "properties such as server.ssl.keystore.location, server.ssl.keystore.password name its certificate",
    )
    option("--compatibility", default="BACKWARD", choices=LEVELS, metavar="LEVEL", help="default level (BACKWARD)")
    option("--token", metavar="TEXT", help="bearer token, or USER:PASSWORD, that clients must send")
    option("--topic", default=SCHEMAS_TOPIC, metavar="NAME", help=f"the topic (default {SCHEMAS_TOPIC})")
    option("--replication-factor", type=int, default=1, metavar="N", help="that of a new topic (default 1)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    properties: dict[str, str] = {}
    if options.config:
        with open(options.config, encoding="utf-8") as file:
            properties = parse_properties(file.read())
    for setting in options.settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r} is not KEY=VALUE")
        properties[key] = value
    own = {key: properties.pop(key) for key in list(properties) if key.startswith(_SERVER)}
    config = BrokerConfig.from_properties({key.removeprefix(_SERVER): value for key, value in own.items()})
    tls = ListenerSettings(config, "SSL") if options.listen.startswith(_HTTPS) else None
    address = parse_address(options.listen.removeprefix(_HTTPS), "--listen")
    if options.bootstrap.startswith(_ZOOKEEPER):
        protocol = properties.get("security.protocol", "PLAINTEXT")
        options.bootstrap = _find_brokers(options.bootstrap.removeprefix(_ZOOKEEPER), protocol)
    try:
        settings.parse_addresses(options.bootstrap)
    except ToolError as error:
        raise ValueError(f"--bootstrap {options.bootstrap}: {error.message}; give HOST:PORT") from None
    try:
        log = ClientLog(options.bootstrap, properties, options.topic, options.replication_factor)
        server = RegistryServer(address, options.token, tls)
    except ToolError as error:
        raise ValueError(error.message) from None
    except ModuleNotFoundError as error:
        raise ValueError(f"registry: {missing(error.name, 'registry')}") from None
    asyncio.run(_serve(server, log, options.compatibility))
    return 0


def _find_brokers(connect: str, protocol: str) -> str:
    """Wait until brokers are registered in a ZooKeeper, and return their addresses.

    Raises:
        ValueError: there is none after a minute.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with zookeeper.connect(connect) as tree:
            servers = [] if tree is None else tree.bootstrap_servers(protocol)
        if servers:
            return ",".join(servers)
        time.sleep(_PAUSE_S)
    raise ValueError(f"--bootstrap {_ZOOKEEPER}{connect}: no broker with {protocol} is registered there")


async def _serve(server: RegistryServer, log: ClientLog, default_level: str) -> None:
    stop = make_stop_event()
    server.serve(log, default_level)
    health.report_ports([("", server.url.partition("://")[2])])
    print(f"minibroker registry ready: {server.url}", flush=True)  # noqa: T201 - programs wait for this line
    await stop.wait()
    await server.stop()
