"""`minibroker grade` runs checks against any broker, with a progress bar and a report."""

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence

from minibroker.config.addresses import parse_advertised
from minibroker_grade.catalogue import STAGES, select_checks
from minibroker_grade.check import Check
from minibroker_grade.process import BrokerProcess, free_port
from minibroker_grade.report import Report, failure_text, summary
from minibroker_grade.runner import ANSWER_S, Result, Target
from minibroker_grade.runner import run as run_checks
from minibroker_grade.wire import accepts_connections

_DESCRIPTION = """\
Check any broker, stage by stage, for everything that Kafka's clients need. Each failure shows the request, the
response, the expected response and the reason. The exit status is 0 if no check fails.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the description and the options of the command."""
    parser.description = _DESCRIPTION
    option = parser.add_argument
    option("address", nargs="?", metavar="HOST:PORT", help="address of the broker; a free port with --start")
    option("--data-dir", metavar="DIR", help="the broker's log directory, for checks of its files; replaces {dir}")
    option("--start", metavar="COMMAND", help="command that starts the broker; {port} and {dir} in it are replaced")
    option("--upto", metavar="STAGE", help="stop after this stage")
    option("--only", metavar="CHECK", help="run only this check or stage")
    option("--list", action="store_true", help="list stages and checks, and run none")
    option("--json", metavar="FILE", help="write each result to FILE as JSON; - is stdout, at the end")
    option("--junit", metavar="FILE", help="write each result to FILE as JUnit XML")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Grade the broker, and return 0 if no check fails.

    Raises:
        ValueError: an option is invalid, or the broker is unreachable.
        OSError: the broker cannot be started, or a report cannot be written.
    """
    checks = select_checks(options.upto, options.only)
    if options.list:
        for check in checks:
            print(f"{check.name}: {check.teaches}")  # noqa: T201 - the list that was asked for
        return 0
    if options.address is None and options.start is None:
        options.parser.error("HOST:PORT or --start is needed")
    to_stdout = options.json == "-"
    with _start_target(options) as target:
        address = f"{target.address[0]}:{target.address[1]}"
        if not accepts_connections(target.address, ANSWER_S):
            raise ValueError(f"no broker accepts connections at {address}")
        report = Report(address, len(checks), None if to_stdout else options.json, options.junit)
        try:
            with _show_progress(checks) as advance:
                for result in run_checks(target, checks):
                    advance(result)
                    # The progress bar replaces sys.stdout and sys.stderr, so both are looked up for each failure.
                    if result.has_failed:
                        output = sys.stderr if to_stdout else sys.stdout
                        print(failure_text(result), end="\n\n", file=output, flush=True)
                    report.add(result)
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
def _start_target(options: argparse.Namespace) -> Generator[Target]:
    """Yield the broker to grade. With a command, start it first and stop it afterwards."""
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
def _show_progress(checks: Sequence[Check]) -> Generator[Callable[[Result], None]]:
    """Show a progress bar on a terminal, if rich is installed."""
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
