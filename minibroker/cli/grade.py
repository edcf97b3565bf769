"""`minibroker grade`: the command line of the checks of any broker."""

import argparse
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Any

from minibroker.support.addresses import parse_advertised

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from minibroker.grade.check import Check
    from minibroker.grade.runner import Result, Target

_DESCRIPTION = """\
Check a broker of any make, stage by stage, against what Kafka's clients rely on. Each failure shows what was sent, what
came, what was expected and why. The exit status is 0 when no check fails.
"""


def add_parser(subparsers: Any) -> None:
    """Add the sub-command to an argparse parser; its options carry `run`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "grade", help="check a broker of any make, stage by stage", description=_DESCRIPTION
    )
    option = parser.add_argument
    option("address", nargs="?", metavar="HOST:PORT", help="the broker; with --start a free port if it is left out")
    option("--data-dir", metavar="DIR", help="the broker's log directory, for checks of its files and for {dir}")
    option("--start", metavar="COMMAND", help="command that starts the broker; {port} and {dir} in it are replaced")
    option("--upto", metavar="STAGE", help="end with this stage")
    option("--only", metavar="CHECK", help="run this check alone, or this stage")
    option("--list", action="store_true", help="list stages and checks, and end")
    option("--json", metavar="FILE", help="write the results there as JSON, as they come; - is stdout, at the end")
    option("--junit", metavar="FILE", help="write the results there as JUnit XML, as they come")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Grade the broker; returns 0 when no check fails. ValueError for bad options, OSError for an unreachable one."""
    from minibroker.grade.catalogue import STAGES, chosen  # noqa: PLC0415 - other commands need none of it
    from minibroker.grade.report import Report, failure_text, summary  # noqa: PLC0415 - the same
    from minibroker.grade.runner import is_alive  # noqa: PLC0415 - the same
    from minibroker.grade.runner import run as run_checks  # noqa: PLC0415 - the same

    checks = chosen(options.upto, options.only)
    if options.list:
        for check in checks:
            print(f"{check.name}: {check.teaches}")  # noqa: T201 - the list that was asked for
        return 0
    if options.address is None and options.start is None:
        options.parser.error("HOST:PORT or --start is needed")
    to_stdout = options.json == "-"
    with _target(options) as target:
        where = f"{target.address[0]}:{target.address[1]}"
        if not is_alive(target.address):
            raise ValueError(f"no broker accepts connections at {where}")
        report = Report(where, len(checks), None if to_stdout else options.json, options.junit)

        def done(result: "Result") -> None:
            advance(result)
            if result.has_failed:  # stdout and stderr are other ones below a progress bar
                print(failure_text(result), end="\n\n", file=sys.stderr if to_stdout else sys.stdout, flush=True)
            report.add(result)

        try:
            with _progress(checks) as advance:
                run_checks(target, checks, done)
            status = int(any(result.has_failed for result in report.results))
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
        finally:
            report.end()
            print(summary(STAGES, report.results, len(checks)), file=sys.stderr if to_stdout else sys.stdout)
            if to_stdout:
                sys.stdout.write(report.json())
    return status


@contextlib.contextmanager
def _target(options: argparse.Namespace) -> "Generator[Target]":
    """The broker, started if need be; it is stopped at the end."""
    import tempfile  # noqa: PLC0415 - as above

    from minibroker.grade.process import BrokerProcess, free_port  # noqa: PLC0415 - as above
    from minibroker.grade.runner import Target  # noqa: PLC0415 - as above

    address = parse_advertised(options.address, "HOST:PORT") if options.address else ("127.0.0.1", free_port())
    if options.start is None:
        yield Target(address, options.data_dir)
        return
    with contextlib.ExitStack() as ends:
        directory = options.data_dir or ends.enter_context(tempfile.TemporaryDirectory(prefix="minibroker-grade-"))
        process = BrokerProcess(options.start, address, directory)
        ends.enter_context(process.running())
        yield Target(address, directory, process)


@contextlib.contextmanager
def _progress(checks: "Sequence[Check]") -> "Generator[Callable[[Result], None]]":
    """A progress bar at a terminal where rich is installed; else nothing."""
    try:
        from rich.console import Console  # noqa: PLC0415 - it is not always installed
        from rich.progress import Progress  # noqa: PLC0415 - the same
    except ImportError:
        yield lambda _: None
        return
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(checks))
        yield lambda result: bar.update(task, advance=1, description=result.check.name)
