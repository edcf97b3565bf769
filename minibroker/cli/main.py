"""The entry point of the command line: `minibroker serve`, `lab`, `dump`, `trace`, `grade`, `registry` ..."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NoReturn
from urllib import parse

from minibroker.cli.container_variables import add_variable, find_unread_variables, is_in_container
from minibroker.cli.options import DEFAULT_LISTEN, DEFAULT_PAGE, add_options
from minibroker.config import parse_properties
from minibroker.config.event_loops import LOOP_FACTORY, make_stop_event
from minibroker.config.names import suggestion
from minibroker.config.version import __version__
from minibroker_protocol.lazy_imports import lazy

with lazy:
    import minibroker_control
    from minibroker import broker as broker_module
    from minibroker.cli import certificates, dump, grade, kafka_lines, trace
    from minibroker.cli import console as console_module
    from minibroker.cli import warm_up as warm_up_module
    from minibroker.cluster import advice
    from minibroker.config import addresses as config_addresses
    from minibroker.operations import faults as operations_faults
    from minibroker.server.faults import fault, registry
    from minibroker.server.inspection import recording
    from minibroker_container import cluster as container_cluster
    from minibroker_container import health, ports
    from minibroker_registry import command as registry_command
    from minibroker_storage import files, installation_hints

if TYPE_CHECKING:
    from minibroker.broker import Broker
    from minibroker.cli.console import Console
    from minibroker.server.faults.fault import Fault
    from minibroker.server.services import Services

_MAX_BANNER_TOPICS: Final = 10
VERB: Final = "MINIBROKER_VERB"
"""The environment variable with the command that people have typed instead of `minibroker serve`."""
_OTHER_OPTIONS: Final = {
    **dict.fromkeys(("--address", "--bind", "--bootstrap-server", "--host", "--port", "-p"), "--listen HOST:PORT"),
    **dict.fromkeys(("--log-dir", "--log-dirs"), "--data-dir DIR"),
    **dict.fromkeys(("--override", "--property"), "--set KEY=VALUE"),
    "--version": "--emulate RELEASE",
}
"""The options of `serve` that correspond to those of other programs."""
_FILE_OPTIONS: Final = ("config", "data_dir", "faults", "ready_file", "seed_data")
_logger: Final = logging.getLogger("minibroker")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        options, unknown = make_parser(arguments).parse_known_args(arguments)
        if unknown:
            option = unknown[0].partition("=")[0]
            hint = suggestion(option, [f"--{name.replace('_', '-')}" for name in vars(options)])
            if not option.startswith("-") and hasattr(options, "seed_data"):
                hint = f"; did you mean --topic {option}?"
            elif option in _OTHER_OPTIONS and hasattr(options, "seed_data"):
                hint = f"; did you mean {_OTHER_OPTIONS[option]}?"
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except (ValueError, OSError) as error:
        print(f"minibroker: {_format_error(error)}", file=sys.stderr)  # noqa: T201 - the user's message
    except ModuleNotFoundError as error:
        print(f"minibroker: incomplete installation: {error}", file=sys.stderr)  # noqa: T201 - the same
    return 1


class _Parser(argparse.ArgumentParser):
    """A parser that prints the error alone, without the usage of all options."""

    def error(self, message: str) -> NoReturn:
        """Reject the arguments. In a container this raises an error; elsewhere the process exits with status 2.

        Raises:
            ValueError: the process runs in a container.
        """
        if is_in_container():
            raise ValueError(message)
        self.exit(2, f"{self.prog}: error: {message}\n`{self.prog} --help` explains the arguments\n")


def make_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser for these arguments. Options of commands that do not occur in the arguments are left out."""
    parser = _Parser(
        prog="minibroker",
        description="A Kafka-protocol broker emulator: real clients, real segment files, one small process.",
    )
    parser.add_argument("--version", action="version", version=f"minibroker {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run a broker until SIGTERM or SIGINT")
    if "serve" in arguments:
        add_options(serve)
    serve.set_defaults(run=_run_serve, parser=serve, browser=False, lesson=None, answers=False, terminal=False)
    lab = commands.add_parser("lab", help="run a broker, and show its requests and logs in a web page")
    if "lab" in arguments:
        add_options(lab)
        lab.add_argument(
            "--no-browser",
            action="store_false",
            dest="browser",
            help="do not open a browser; without a terminal none opens anyway",
        )
        lab.add_argument(
            "--lesson", type=int, choices=range(1, 12), metavar="N", help="open lesson N of the course, 1 to 11"
        )
        lab.add_argument("--answers", action="store_true", help="show the answers below the lessons, for teachers")
        lab.add_argument("--terminal", action="store_true", help="show the lab in this terminal, not in a browser")
        lab.set_defaults(page=DEFAULT_PAGE)
    lab.set_defaults(run=_run_serve, parser=lab)
    for module, name, text in (
        (dump, "dump", "print the content of log files"),
        (trace, "trace", "show the requests and responses between clients and brokers"),
        (grade, "grade", "check any broker, stage by stage"),
        (registry_command, "registry", "serve a schema registry for any Kafka"),
        (certificates, "certificates", "write certificates for TLS in tests"),
    ):
        command = commands.add_parser(name, help=text)
        command.set_defaults(parser=command)
        if name in arguments:
            module.add_options(command)
    return parser


def _run_serve(options: argparse.Namespace) -> int:
    # During start-up the garbage collector would scan the new, permanent objects ten times. `warm_up` enables the
    # collector again.
    gc.disable()
    try:
        with console_module.Console(options.log_format, verbose=options.verbose) as console:
            try:
                with asyncio.Runner(loop_factory=LOOP_FACTORY) as runner:
                    return runner.run(_serve(options, console))
            except (ValueError, OSError) as error:
                _logger.critical("%s", _format_error(error, options))
                return 1
    finally:
        gc.enable()


async def _serve(options: argparse.Namespace, console: "Console") -> int:
    broker = _create_broker(options)
    stop = _stop_event(with_stdin=options.stop_with_stdin)
    broker.asynchronous.owns_loop = True
    has_ports = options.silent_port or options.zookeeper
    async with (
        ports.open_ports(options.silent_port, None, options.zookeeper) if has_ports else contextlib.nullcontext()
    ):
        holds_logs: contextlib.AbstractAsyncContextManager[None] | None = contextlib.nullcontext()
        with _ready_file(options.ready_file) as write_ready_file:
            if options.meet:
                admin_ports = [text.rpartition("=")[2] for text in options.admin_api]
                holds_logs = await container_cluster.meet(
                    broker, options.meet, options.link, admin_ports, stop, write_ready_file
                )
            if holds_logs is not None:
                await _run_until(stop, broker, holds_logs, options, console, write_ready_file)
    health.report("waiting: the broker has been stopped\n")
    return 0


async def _run_until(
    stop: asyncio.Event,
    broker: "Broker",
    holds_logs: contextlib.AbstractAsyncContextManager[None],
    options: argparse.Namespace,
    console: "Console",
    write_ready_file: Callable[[str], None],
) -> None:
    faults = fault.read_faults(options.faults) if options.faults else []
    async with broker, holds_logs, contextlib.AsyncExitStack() as ends:
        if options.admin_api:
            admin_ports = ends.enter_context(contextlib.closing(minibroker_control.admin_ports(options.admin_api)))
            await admin_ports.open(broker.services)
        if broker.services.registry_url is None:
            options.registry = None
        if faults:
            _install_faults(broker.services, faults)
        if options.verbose:
            recording.recording_of(broker.services).watch(console_module.log_request)
        write_ready_file(broker.bootstrap_servers)
        protocols = broker.asynchronous.listener_protocols
        open_ports = [(protocols[name], address) for name, address in _listener_addresses(broker)]
        health.report_ports(open_ports)
        print(f"minibroker ready: {_ready_text(broker, options)}", flush=True)  # noqa: T201 - programs wait for it
        kafka_lines.write_ready_lines(
            broker.services.core.cluster.first.id,
            [
                (name, config_addresses.format_address(address))
                for name in broker.asynchronous.listener_names
                for address in broker.asynchronous.server.addresses_of(name)
            ],
        )
        kafka_lines.schedule_balancing_line(broker.services.core)
        console.print_banner(_banner_rows(broker, options))
        for host in {host for host, _ in broker.asynchronous.advertised}:
            threading.Thread(target=advice.check_advertised_host, args=(host,), name="advertised", daemon=True).start()
        if options.browser and not options.terminal and console.has_reader:
            open_browser(broker.page_url + lesson_path(options), _token(options))
        warm_up_module.warm_up(broker.services.core)
        if options.terminal:
            with console.hold_output():
                await _show_in_terminal(broker.page_url, _token(options), stop)
        await stop.wait()


def _create_broker(options: argparse.Namespace) -> "Broker":
    """Return a broker with these options, not yet started. Its warnings are logged."""
    properties = _read_properties(options)
    if options.meet:
        properties.pop("zookeeper.connect", None)  # --meet has its value; a warning would say that it has no effect.
    listeners = None if options.listen else properties.get("listeners") or None
    if options.data_dir == "":
        raise ValueError("--data-dir is empty")
    if options.chaos and options.meet:
        raise ValueError("chaos: all brokers have to be in one process, without --meet")
    if options.terminal:
        _check_terminal()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        broker = broker_module.Broker(
            listen=options.listen or DEFAULT_LISTEN,
            data_dir=options.data_dir or _first_item(properties, "log.dirs") or _first_item(properties, "log.dir"),
            advertise=options.advertise,
            config=properties,
            topics=options.topic,
            seed_data=options.seed_data,
            brokers=options.brokers,
            racks=options.racks,
            also_listen=options.also_listen,
            listeners=listeners,
            journal=options.journal,
            check=options.check,
            chaos=options.chaos,
            control=options.control,
            page=options.page,
            registry=options.registry,
            control_token=_token(options),
        )
    broker.asynchronous.checked_options.is_registry_optional = is_in_container()
    for caught_warning in caught:
        _logger.warning("%s", caught_warning.message)
    if unread := find_unread_variables():
        _logger.warning("%s", unread)
    return broker


@contextlib.contextmanager
def _ready_file(path: str | None) -> Generator[Callable[[str], None]]:
    """Yield a function that writes the bootstrap address to the ready file.

    The file exists only while clients can connect.
    """
    if not path:
        yield lambda _: None
        return
    _remove(path)  # A file left by an earlier run would signal readiness before the broker is ready.
    try:
        yield lambda address: files.write_atomically(path, f"{address}\n".encode())
    finally:
        _remove(path)


def _stop_event(*, with_stdin: bool) -> asyncio.Event:
    """Return an event that is set by SIGTERM, by SIGINT and, if requested, by the end of stdin."""
    stop = make_stop_event()
    if with_stdin:
        threading.Thread(target=_read_stdin, args=(asyncio.get_running_loop(), stop), daemon=True).start()
    return stop


def _read_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Read stdin to its end and set the event.

    This runs in a thread, because the event loop can watch pipes but not files or terminals.
    """
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # The call fails if the loop has already ended.
        loop.call_soon_threadsafe(stop.set)


def _ready_text(broker: "Broker", options: argparse.Namespace) -> str:
    """Return a broker's addresses and data directory as text that programs can parse."""
    text = f"bootstrap={_find_bootstrap(broker)} data-dir={broker.data_dir} pid={os.getpid()}"
    if options.control:
        text += f" control={broker.control_url}"
    if options.page:
        text += f" page={broker.page_url}{lesson_path(options)}"
    if options.chaos:
        text += f" chaos={options.chaos}"
    if options.registry:
        text += f" registry={broker.registry_url}"
    if len(broker.asynchronous.listener_names) > 1:
        text += f" listeners={_format_listeners(broker)}"
    return text


def _find_bootstrap(broker: "Broker") -> str:
    """Return the address for clients. In a container it is the advertised one, which is valid outside of it, too."""
    nodes = broker.services.core.cluster.nodes.values() if is_in_container() else ()
    name = broker.asynchronous.listener_names[0]
    # A broker in another process has no endpoints before it has joined.
    endpoints = [node.endpoints[name] for node in nodes if name in node.endpoints]
    advertised = [endpoint.advertised for endpoint in endpoints if endpoint.advertised is not None]
    return ",".join(map(config_addresses.format_address, advertised)) or broker.bootstrap_servers


def _token(options: argparse.Namespace) -> str | None:
    return options.control_token or os.environ.get("MINIBROKER_CONTROL_TOKEN") or None


def open_browser(url: str, token: str | None) -> None:
    """Open the page in a browser, if there is one.

    The address contains the token, which the page stores in a cookie.
    """
    import webbrowser  # noqa: PLC0415 - most runs open none

    if token is not None:
        address = parse.urlsplit(url)
        url = f"{url if address.path else f'{url}/'}{'&' if address.query else '?'}{parse.urlencode({'token': token})}"
    # Use a thread, because some browsers block the process that starts them.
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()


def lesson_path(options: argparse.Namespace) -> str:
    """Return the path of the requested lesson, relative to the page's address."""
    path = "" if options.lesson is None else f"/lessons/{options.lesson}"
    return f"{path or '/lessons'}?answers=1" if options.answers else path


def _install_faults(services: "Services", faults: "list[Fault]") -> None:
    installed = registry.faults_of(services)
    for rule in faults:
        for reason in operations_faults.reasons_never_to_match(services, rule):
            _logger.warning("%s cannot match: %s", rule, reason)
        installed.add(rule)


def _banner_rows(broker: "Broker", options: argparse.Namespace) -> dict[str, str]:
    """Return the rows of the banner for a broker that has just started."""
    topics = [topic.name for topic in broker.asynchronous.services.core.topics if not topic.is_internal]
    advertised = ", ".join(f"{host}:{port}" for host, port in broker.asynchronous.advertised)
    release = broker.asynchronous.services.release
    rows = {
        "minibroker": __version__ if release is None else f"{__version__}, as a Kafka {release.name}",
        "bootstrap.servers": broker.bootstrap_servers,
        "advertised": advertised or "where each client has found it",
        "data": broker.data_dir,
        "topics": ", ".join(topics[:_MAX_BANNER_TOPICS]) + (", ..." if len(topics) > _MAX_BANNER_TOPICS else "")
        or "none yet",
    }
    if len(broker.asynchronous.listener_names) > 1:
        rows["listeners"] = _format_listeners(broker).replace(",", ", ")
    if options.control:
        rows["control plane"] = broker.control_url
    if options.page:
        rows["page"] = broker.page_url + lesson_path(options)
    if options.chaos:
        rows["misbehaves"] = broker.asynchronous.chaos().report()[0]
    if options.registry:
        rows["schema registry"] = broker.registry_url
    rows["to stop it"] = "Ctrl-C"
    if broker.asynchronous.listener_protocols[broker.asynchronous.listener_names[0]] == "PLAINTEXT":
        tools = os.path.join(os.path.dirname(sys.argv[0]), "minibroker-tools")
        rows["to write to it"] = (
            f"echo hello | {tools if os.path.exists(tools) else 'minibroker-tools'} kafka-console-producer "
            f"--bootstrap-server {broker.bootstrap_servers} --topic {topics[0] if topics else 'orders'}"
        )
    return rows


def _format_listeners(broker: "Broker") -> str:
    """Return the addresses of all listeners, in Kafka's list format."""
    return ",".join(f"{name}://{address}" for name, address in _listener_addresses(broker))


def _listener_addresses(broker: "Broker") -> list[tuple[str, str]]:
    """Return the names and addresses of the listeners. With several brokers, each listener occurs once per broker."""
    return [
        (name, address)
        for name in broker.asynchronous.listener_names
        for address in broker.asynchronous.bootstrap_servers_of(name).split(",")
    ]


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _read_properties(options: argparse.Namespace) -> dict[str, str]:
    """Return the broker's configuration from the files and the command line."""
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


def _first_item(properties: Mapping[str, str], name: str) -> str | None:
    """Return the first item of a list, or None if the list is missing or empty."""
    return properties.get(name, "").split(",")[0].strip() or None


def _format_error(error: ValueError | OSError, options: argparse.Namespace | None = None) -> str:
    """Return the message of an error. An unusable file is named with the option that names it."""
    if isinstance(error, OSError):
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        for name in () if is_in_container() else _FILE_OPTIONS:
            paths: str | list[str] = getattr(options, name, None) or []
            for path in [paths] if isinstance(paths, str) else paths:
                if error.filename in (path, f"{path}.tmp"):
                    reason = f"--{name.replace('_', '-')} {path}: {error.strerror}"
    else:
        reason = str(error)
    if VERB in os.environ:
        reason = re.sub(r"(--\S+ \S+:0)\b.*", rf'{os.environ[VERB]} ARGS="\1"', reason)
    return add_variable(reason) if is_in_container() else reason


def _check_terminal() -> None:
    """Check that the terminal view can be used.

    Raises:
        ValueError: stdin or stdout is not a terminal, or the extra is not installed.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("--terminal: stdin and stdout are not a terminal")
    if find_spec("textual") is None:
        raise ValueError(f"--terminal: {installation_hints.missing('textual', 'lab')}")


async def _show_in_terminal(url: str, token: str | None, stop: asyncio.Event) -> None:
    """Show the page at `url` in the terminal until the user quits or `stop` is set. Quitting sets `stop`."""
    environment = {**os.environ} if token is None else {**os.environ, "MINIBROKER_CONTROL_TOKEN": token}
    command = [sys.executable, "-P", "-m", "minibroker_lab.terminal", url]
    child = await asyncio.create_subprocess_exec(*command, env=environment)
    ended = asyncio.ensure_future(child.wait())
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        await ended
    finally:
        stopped.cancel()
        stop.set()
