"""`minibroker trace` runs a proxy that shows the requests and responses between clients and brokers."""

import argparse
import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, TextIO

from minibroker.clock import SystemClock
from minibroker.cluster.routing.routes import ROUTES
from minibroker.config.addresses import (
    format_address,
    is_loopback,
    parse_address,
    parse_advertised,
    parse_guarded_address,
)
from minibroker.config.event_loops import make_stop_event
from minibroker.config.properties import PropertiesError, parse_properties
from minibroker.server.requests.endpoints import endpoint
from minibroker_lab.page import open_trace_page
from minibroker_lab.reading import Reading
from minibroker_lab.trace import lines
from minibroker_lab.trace.lines import LineWriter, Output
from minibroker_lab.trace.proxy import Proxy
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.security.tls import contexts
    from minibroker.server.faults import fault
    from minibroker_chaos import steps
    from minibroker_lab.trace import faults as trace_faults

if TYPE_CHECKING:
    from minibroker_lab.page.plane import TracePlane
    from minibroker_lab.trace.faults import ProxyFaults

_DEFAULT_LISTEN: Final = "127.0.0.1:9095"

_DESCRIPTION: Final = """\
A proxy between Kafka's clients and any broker. It shows each request with its response. Without --faults or --chaos it
changes nothing but the addresses of brokers in responses, so that clients stay on the proxy.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the description and the options of the command."""
    parser.description = _DESCRIPTION
    option = parser.add_argument
    option("--to", required=True, metavar="HOST:PORT", help="address of a broker of the cluster")
    option(
        "--listen",
        default=_DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"address for clients (default {_DEFAULT_LISTEN}); other brokers get the next ports; 0 takes free ones",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", metavar="FILE", help="write JSON lines to FILE, and no list; - is stdout")
    shown.add_argument("--quiet", action="store_true", help="show nothing in the terminal")
    option("--page", metavar="HOST:PORT", help="address of a web page with the requests; port 0 takes a free port")
    option(
        "--page-token",
        metavar="TOKEN",
        help="token for the page; needed if others can reach its address (default MINIBROKER_CONTROL_TOKEN)",
    )
    option("--faults", metavar="FILE", help="faults to inject, as JSON or YAML: see docs/trace.md")
    option("--chaos", metavar="SEED[:PROFILE]", help="misbehave as a cluster may, from a seed: see docs/chaos.md")
    option(
        "--yes-this-is-a-test",
        action="store_true",
        help="misbehave although the broker is on another machine",
    )
    option("--to-tls", action="store_true", help="connect to brokers with TLS")
    option("--to-config", metavar="FILE", help="a file with Kafka's client properties, for TLS to the brokers")
    parser.set_defaults(run=run)


_PROTOCOLS: Final = {"PLAINTEXT": False, "SASL_PLAINTEXT": False, "SSL": True, "SASL_SSL": True}
"""The values of `security.protocol`, and whether each one uses TLS."""


def run(options: argparse.Namespace) -> int:
    """Run the proxy until SIGINT or SIGTERM.

    Raises:
        ValueError: an option is invalid.
        OSError: a file cannot be read or written, or an address is not available.
    """
    to = parse_advertised(options.to, "--to")
    listen = parse_address(options.listen, "--listen")
    context = _make_tls_context(options)
    faults = _read_faults(options, to[0]) if options.faults or options.chaos else None
    page = _open_page(options)
    with _open_output(options) as file:
        return asyncio.run(_run(options, to, listen, context, file, page, faults))


def _open_page(options: argparse.Namespace) -> "TracePlane | None":
    """Return the page, bound to its address, or None without --page."""
    if not options.page:
        return None
    token = options.page_token or os.environ.get("MINIBROKER_CONTROL_TOKEN") or None
    sources = "--page-token or MINIBROKER_CONTROL_TOKEN"
    return open_trace_page(parse_guarded_address("--page", options.page, token, sources), token)


def _read_faults(options: argparse.Namespace, host: str) -> "ProxyFaults":
    if not is_loopback(host) and not options.yes_this_is_a_test:
        source = "--faults" if options.faults else "--chaos"
        raise ValueError(
            f"{source}: {host} is not this machine; if that broker is for tests only, add --yes-this-is-a-test"
        )
    try:
        read = fault.read_faults(options.faults) if options.faults else ()
        return trace_faults.ProxyFaults(read, steps.parse_seed(options.chaos))
    except steps.ChaosError as error:
        raise ValueError(f"--chaos {options.chaos}: {error}") from None
    except fault.FaultError as error:
        raise ValueError(f"--faults {error}") from None


def _make_tls_context(options: argparse.Namespace) -> ssl.SSLContext | None:
    properties = _read_properties(options.to_config) if options.to_config else {}
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(
            f"--to-config {options.to_config}: security.protocol: {protocol} is not one of {', '.join(_PROTOCOLS)}"
        )
    if not options.to_tls and not _PROTOCOLS[protocol]:
        return None
    return contexts.client_context(properties)


def _read_properties(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="iso-8859-1") as file:
            return parse_properties(file.read())
    except PropertiesError as error:
        raise ValueError(f"--to-config {path}: {error}") from None


@contextlib.contextmanager
def _open_output(options: argparse.Namespace) -> Generator[TextIO | None]:
    """Yield the file for the lines, or None with --quiet."""
    if options.quiet:
        yield None
    elif options.json is None or options.json == "-":
        yield sys.stdout
    else:
        with open(options.json, "w", encoding="utf-8") as file:
            yield file


async def _run(
    options: argparse.Namespace,
    to: tuple[str, int],
    listen: tuple[str, int],
    context: ssl.SSLContext | None,
    file: TextIO | None,
    page: "TracePlane | None",
    faults: "ProxyFaults | None",
) -> int:
    stop = make_stop_event()
    name = "stdout" if file is sys.stdout else options.json
    output: Output | None = None
    if file is not None:
        output = Output(file, lambda error: _print_error(f"{name}: {error.strerror or error}; nothing more is shown"))
    line, left_out = _choose_formatters(json=options.json is not None)
    clock = SystemClock(asyncio.get_running_loop())
    writer = LineWriter(clock, output, line, left_out, _print_error, None if page is None else page.ring)
    proxy = Proxy(to, listen, context, writer, faults)
    try:
        await proxy.start()
        status = f"listen={format_address(proxy.address)} to={format_address(to)} pid={os.getpid()}"
        if page is not None:
            page.serve({"bootstrap_servers": format_address(proxy.address), "to": format_address(to)})
            status += f" page={page.url}"
        # Programs wait for this line. If the JSON output goes to stdout, the line goes to stderr.
        print(f"minibroker trace ready: {status}", flush=True, file=sys.stderr if options.json == "-" else sys.stdout)
        if output is not None:
            await _warm_up(output, is_list=options.json is None)
        await stop.wait()
    finally:
        proxy.close()
        writer.close()
        if faults is not None and faults.chaos is not None:
            sys.stderr.write("\n".join([*faults.chaos.report(), ""]))
        if page is not None:
            await page.stop()
    return 0


def _choose_formatters(*, json: bool) -> tuple[Callable[[Reading], str], Callable[[int], str]]:
    """Return two functions that format a request, and the number of omitted requests."""
    if json:
        return lines.json_of, lambda count: f'{{"leftOut": {count}}}\n'
    return lines.line_of, lambda count: f"... {count} requests are left out: they came faster than they were read\n"


async def _warm_up(output: Output, *, is_list: bool) -> None:
    """Load the modules that decode messages, one by one, so that an API's first request does not wait for imports."""
    if is_list:
        output.write(lines.HEADING)
    for route in ROUTES:
        endpoint(route.key)
        await asyncio.sleep(0)


def _print_error(text: str) -> None:
    print(f"minibroker: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the user's message
