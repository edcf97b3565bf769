"""The command line: `minibroker serve`."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from minibroker import __version__
from minibroker.config import BrokerConfig, ConfigError, parse_properties

_DEFAULT_LISTEN: Final = "127.0.0.1:9092"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return asyncio.run(_serve(options))
    except (ConfigError, ValueError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minibroker",
        description="A Kafka-protocol broker emulator: real clients, real segment files, one small process.",
    )
    parser.add_argument("--version", action="version", version=f"minibroker {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run a broker until SIGTERM or SIGINT")
    option = serve.add_argument
    option("--listen", metavar="HOST:PORT", help=f"default {_DEFAULT_LISTEN}, or `listeners`; port 0 picks one")
    option("--data-dir", metavar="DIR", help="default: `log.dirs`, or a temporary directory, removed at exit")
    option(
        "--advertise", metavar="HOST:PORT", help="where clients find it; default: `advertised.listeners`, or as dialled"
    )
    option("--config", metavar="FILE", help="a server.properties with Kafka's own names")
    option(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help="one of them; wins over FILE"
    )
    option("--topic", action="append", default=[], metavar="NAME[:PARTITIONS[:KEY=VALUE,...]]", help="unless it exists")
    option("--ready-file", metavar="PATH", help="write the bootstrap address there once clients can connect")
    return parser


async def _serve(options: argparse.Namespace) -> int:
    from minibroker.broker import Broker  # noqa: PLC0415 - `--help` needs none of it

    properties = _properties(options)
    broker = Broker(
        listen=options.listen or _listener(properties, "listeners") or _DEFAULT_LISTEN,
        data_dir=options.data_dir or _first(properties, "log.dirs") or _first(properties, "log.dir"),
        advertise=options.advertise or _listener(properties, "advertised.listeners"),
        config=properties,
        topics=options.topic,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with broker:
        if options.ready_file:
            _write_ready_file(options.ready_file, broker.bootstrap_servers)
        where = f"bootstrap={broker.bootstrap_servers} data-dir={broker.data_dir} pid={os.getpid()}"
        print(f"minibroker ready: {where}", flush=True)  # noqa: T201 - the one line that others wait for
        await stop.wait()
    return 0


def _properties(options: argparse.Namespace) -> dict[str, str]:
    """The broker's configuration from the file and the command line; says which names it does not know."""
    properties: dict[str, str] = {}
    if options.config:
        with open(options.config, encoding="utf-8") as file:
            try:
                properties.update(parse_properties(file.read()))
            except ValueError as error:
                raise ValueError(f"{options.config}: {error}") from None
    for setting in options.settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r} is not KEY=VALUE")
        properties[key.strip()] = value.strip()
    for name in BrokerConfig.from_properties(properties).unknown:
        print(f"minibroker: {name} is not known and has no effect", file=sys.stderr)  # noqa: T201 - a warning
    return properties


def _first(properties: Mapping[str, str], name: str) -> str | None:
    """The first item of a list that may not be there."""
    return properties.get(name, "").split(",")[0].strip() or None


def _listener(properties: Mapping[str, str], name: str) -> str | None:
    """HOST:PORT of the first listener for clients; the controller's is passed over, since nobody votes here."""
    listeners = [item.strip() for item in properties.get(name, "").split(",") if item.strip()]
    client_facing = [item for item in listeners if not item.upper().startswith("CONTROLLER:")]
    return client_facing[0].partition("://")[2] or None if client_facing else None


def _write_ready_file(path: str, bootstrap_servers: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{bootstrap_servers}\n")


def _fail(message: str) -> int:
    print(f"minibroker: {message}", file=sys.stderr)  # noqa: T201 - the user's message
    return 1
