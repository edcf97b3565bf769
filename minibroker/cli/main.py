"""The command line: `minibroker serve`, `minibroker dump`, `minibroker trace` and `minibroker certificates`."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minibroker.cli.certificates import add_parser as add_certificates_parser
from minibroker.cli.dump import add_parser as add_dump_parser
from minibroker.cli.trace import add_parser as add_trace_parser
from minibroker.config import parse_properties
from minibroker.support.suggestions import suggestion
from minibroker.version import __version__

if TYPE_CHECKING:
    from minibroker.broker import Broker
    from minibroker.cli.console import Console
    from minibroker.core import Core
    from minibroker.faults.fault import Fault
    from minibroker.services import Services

_DEFAULT_LISTEN: Final = "127.0.0.1:9092"
_TOLD_TOPICS: Final = 10
_logger: Final = logging.getLogger("minibroker")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        known = [f"--{name.replace('_', '-')}" for name in vars(options)]
        hint = suggestion(unknown[0].partition("=")[0], known)
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except (ValueError, OSError) as error:
        print(f"minibroker: {_reason(error)}", file=sys.stderr)  # noqa: T201 - the user's message
        return 1


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
    option(
        "--brokers",
        type=int,
        default=1,
        metavar="N",
        help="brokers of one cluster, in this process; each listens on the port behind the last one's (default 1)",
    )
    option(
        "--also-listen",
        action="append",
        default=[],
        metavar="HOST:PORT[=ADVERTISED]",
        help="at a further address; who comes there is told ADVERTISED, HOST:PORT",
    )
    option(
        "--silent-port",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="accept connections there and say nothing, as a stand-in for Kafka's controller or JMX port",
    )
    option("--data-dir", metavar="DIR", help="default: `log.dirs`, or a temporary directory, removed at exit")
    option(
        "--advertise", metavar="HOST:PORT", help="where clients find it; default: `advertised.listeners`, or as dialled"
    )
    option(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="a server.properties with Kafka's own names; of several files the last one wins",
    )
    option(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help="one of them; wins over FILE"
    )
    option("--emulate", metavar="RELEASE", help="serve what that release of Kafka serves: 0.8.2, 0.9, ... 4.4")
    option("--topic", action="append", default=[], metavar="NAME[:PARTITIONS[:KEY=VALUE,...]]", help="unless it exists")
    option("--seed-data", metavar="FILE", help="topics and records to start with: YAML, JSON or JSON lines")
    option("--ready-file", metavar="PATH", help="write the bootstrap address there once clients can connect")
    option(
        "--faults", metavar="FILE", help="what is to go wrong, for whom and how often: JSON or YAML, see docs/faults.md"
    )
    option(
        "--journal",
        nargs="?",
        const=True,
        default=False,
        type=int,
        metavar="N",
        help="keep the newest N requests (10000)",
    )
    option("--control", metavar="HOST:PORT", help="the HTTP control plane, see docs/control-plane.md; port 0 picks one")
    option(
        "--control-token",
        metavar="TOKEN",
        help="what its clients have to know, else MINIBROKER_CONTROL_TOKEN; needed where others can reach it",
    )
    option("--log-format", choices=("text", "json"), default="text", help="of what is written to stderr (default text)")
    option("-v", "--verbose", action="store_true", help="a line on stderr for each request")
    serve.set_defaults(run=_run_serve, parser=serve)
    add_dump_parser(commands)
    add_trace_parser(commands)
    add_certificates_parser(commands)
    return parser


def _run_serve(options: argparse.Namespace) -> int:
    gc.disable()  # until `warm_up`: a start makes objects that stay, and the collector would look at them ten times
    try:
        from minibroker.cli.console import Console  # noqa: PLC0415 - `--help` needs none of it

        with Console(options.log_format, verbose=options.verbose) as console:
            try:
                return asyncio.run(_serve(options, console))
            except (ValueError, OSError) as error:
                _logger.critical("%s", _reason(error))
                return 1
    finally:
        gc.enable()


async def _serve(options: argparse.Namespace, console: "Console") -> int:
    from minibroker.broker import Broker  # noqa: PLC0415 - `--help` needs none of it
    from minibroker_storage.checkpoints import write_atomically  # noqa: PLC0415 - the same

    properties = _properties(options)
    listeners = None if options.listen else properties.get("listeners") or None
    if options.data_dir == "":
        raise ValueError("--data-dir is empty")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        broker = Broker(
            listen=options.listen or _DEFAULT_LISTEN,
            data_dir=options.data_dir or _first(properties, "log.dirs") or _first(properties, "log.dir"),
            advertise=options.advertise,
            config=properties,
            topics=options.topic,
            seed_data=options.seed_data,
            brokers=options.brokers,
            also_listen=options.also_listen,
            listeners=listeners,
            journal=options.journal,
            control=options.control,
            control_token=options.control_token or os.environ.get("MINIBROKER_CONTROL_TOKEN") or None,
        )
    for each in caught:
        _logger.warning("%s", each.message)
    faults = _faults(options.faults) if options.faults else []
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    ready_file = options.ready_file
    if ready_file:
        _remove(ready_file)  # an old one would tell that a broker is ready which is only starting
    broker.twin.owns_loop = True
    try:
        async with broker, _silent_ports(options.silent_port):
            if faults:
                _install(broker.services, faults)
            if options.verbose:
                _watch(broker.services)
            if ready_file:
                write_atomically(ready_file, f"{broker.bootstrap_servers}\n".encode())
            where = f"bootstrap={broker.bootstrap_servers} data-dir={broker.data_dir} pid={os.getpid()}"
            if options.control:
                where += f" control={broker.control_url}"
            if len(broker.twin.listener_names) > 1:
                where += f" listeners={_listeners(broker)}"
            print(f"minibroker ready: {where}", flush=True)  # noqa: T201 - the one line that others wait for
            _write_kafka_lines(broker)
            console.greet(_summary(broker, control=options.control))
            for host in {host for host, _ in broker.twin.advertised}:
                console.check_advertised(host)
            _warm_up(broker.services.core)
            await stop.wait()
    finally:
        if ready_file:
            _remove(ready_file)
    return 0


@contextlib.asynccontextmanager
async def _silent_ports(addresses: Sequence[str]) -> AsyncGenerator[None]:
    """Keep ports open that say nothing."""
    if not addresses:
        yield
        return
    from minibroker.server.silent import SilentPorts  # noqa: PLC0415 - most runs have none

    ports = SilentPorts(addresses)
    await ports.open()
    try:
        yield
    finally:
        ports.close()


def _write_kafka_lines(broker: "Broker") -> None:
    """Write the lines that MINIBROKER_LOG_LINES=kafka asks for."""
    if os.environ.get("MINIBROKER_LOG_LINES") != "kafka":
        return
    from minibroker.cli.kafka_lines import write_broker_lines  # noqa: PLC0415 - containers want them

    found = (
        (name, address)
        for name in broker.twin.listener_names
        for address in broker.twin.bootstrap_servers_of(name).split(",")
    )
    write_broker_lines(next(iter(broker.services.core.cluster.nodes)), found)


def _faults(path: str) -> "list[Fault]":
    from minibroker.faults.files import read_faults  # noqa: PLC0415 - most runs have none

    return read_faults(path)


def _install(services: "Services", faults: "list[Fault]") -> None:
    from minibroker.faults.observer import faults_of  # noqa: PLC0415 - most runs have none

    registry = faults_of(services)
    for fault in faults:
        registry.add(fault)


def _watch(services: "Services") -> None:
    from minibroker.cli.console import tell_request  # noqa: PLC0415 - as above
    from minibroker.faults.observer import watch_requests  # noqa: PLC0415 - most runs tell of none

    watch_requests(services, tell_request)


def _warm_up(core: "Core") -> None:
    from minibroker.cli.warm_up import warm_up  # noqa: PLC0415 - clients can connect by now

    warm_up(core)


def _summary(broker: "Broker", *, control: str | None) -> dict[str, str]:
    """The rows of the banner of a broker that has just started."""
    topics = [topic.name for topic in broker.twin.services.core.topics if not topic.is_internal]
    release = broker.twin.services.release
    rows = {
        "minibroker": __version__ if release is None else f"{__version__}, as a Kafka {release.name}",
        "bootstrap.servers": broker.bootstrap_servers,
        "advertised": _advertised(broker),
        "data": broker.data_dir,
        "topics": ", ".join(topics[:_TOLD_TOPICS]) + (", ..." if len(topics) > _TOLD_TOPICS else "") or "none yet",
    }
    if len(broker.twin.listener_names) > 1:
        rows["listeners"] = _listeners(broker).replace(",", ", ")
    if control:
        rows["control plane"] = broker.control_url
    rows["to stop it"] = "Ctrl-C"
    return rows


def _advertised(broker: "Broker") -> str:
    return ", ".join(f"{host}:{port}" for host, port in broker.twin.advertised) or "where each client has found it"


def _listeners(broker: "Broker") -> str:
    """All of them as Kafka writes a list; of several brokers each listener as often."""
    twin = broker.twin
    found = ((name, address) for name in twin.listener_names for address in twin.bootstrap_servers_of(name).split(","))
    return ",".join(f"{name}://{address}" for name, address in found)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _properties(options: argparse.Namespace) -> dict[str, str]:
    """The broker's configuration from the file and the command line."""
    properties: dict[str, str] = {}
    for path in options.config:
        with open(path, encoding="utf-8") as file:
            try:
                properties.update(parse_properties(file.read()))
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
    for setting in options.settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--set {setting!r} is not KEY=VALUE")
        properties[key.strip()] = value.strip()
    if options.emulate is not None:
        properties["minibroker.emulate"] = options.emulate
    return properties


def _first(properties: Mapping[str, str], name: str) -> str | None:
    """The first item of a list that may not be there."""
    return properties.get(name, "").split(",")[0].strip() or None


def _reason(error: ValueError | OSError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return str(error)
