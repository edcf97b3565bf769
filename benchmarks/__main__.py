"""`python -m benchmarks` measures minibroker beside Apache Kafka, kfake and librdkafka's mock; see README.md."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks import children, peers, report
from benchmarks.clients.__main__ import raise_descriptor_limit
from benchmarks.measures import MEASURES
from benchmarks.model import QUICK, STANDARD, Measure, Scale
from benchmarks.runner import Runner

_RESULTS = Path(__file__).with_name("results")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure minibroker beside its peers.")
    parser.add_argument("--quick", action="store_true", help="less of everything: two minutes")
    parser.add_argument("--long", action="store_true", help="10 GB instead of 2 GB in the endurance measure")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of the measures that run side by side")
    parser.add_argument(
        "--warm-ups", type=int, metavar="N", help="how often the hot paths are taken before rounds count"
    )
    parser.add_argument("--only", metavar="NAME,...", help="only these measures, or those whose names begin so")
    parser.add_argument("--peers", default=",".join(peers.PEERS), metavar="NAME,...", help="default: %(default)s")
    parser.add_argument("--kafka-libs", metavar="DIR", help="Apache Kafka's jars (default: $KAFKA_LIBS, else by Maven)")
    parser.add_argument(
        "--work-dir", type=Path, metavar="DIR", help="where data directories go (default: the temp dir)"
    )
    parser.add_argument("--list", action="store_true", help="list the measures and end")
    arguments = parser.parse_args()
    known = [*peers.PEERS, *peers.OTHERS]
    unknown = set(arguments.peers.split(",")) - set(known)
    if unknown:
        parser.error(f"no peer is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if arguments.warm_ups is not None and arguments.warm_ups < 0:
        parser.error("--warm-ups must not be negative")
    arguments.measures = _chosen(arguments.only)
    if not arguments.measures:
        parser.error(f"no measure's name begins with {arguments.only}; --list shows them")
    return arguments


def _chosen(only: str | None) -> list[Measure]:
    if only is None:
        return [measure for measure in MEASURES if not measure.title]
    names = {measure.name for measure in MEASURES}
    exact = {name for name in only.split(",") if name in names}
    prefixes = tuple(name for name in only.split(",") if name and name not in names)
    return [measure for measure in MEASURES if measure.name in exact or measure.name.startswith(prefixes)]


def _scale(arguments: argparse.Namespace) -> Scale:
    scale = QUICK if arguments.quick else STANDARD
    if arguments.long:
        scale = replace(scale, endurance_bytes=10_000_000_000)
    if arguments.rounds is not None:
        scale = replace(scale, rounds=arguments.rounds)
    return scale if arguments.warm_ups is None else replace(scale, warm_ups=arguments.warm_ups)


def _end_like_ctrl_c(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)  # This runs every `finally` block, so no child is left.


def _list() -> None:
    for measure in MEASURES:
        if measure.title:
            print(f"{measure.name:40} {measure.title} (only when asked for)")
            continue
        print(f"{measure.name:22} {'; '.join(f'{figure.label} ({figure.unit})' for figure in measure.figures)}")


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        _list()
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_like_ctrl_c)
    raise_descriptor_limit()
    # On a pipe, rich assumes 80 columns, which are too few for the table.
    console = Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=160)
    found, missing = peers.available(arguments.peers.split(","), arguments.kafka_libs)
    for name, reason in missing.items():
        console.print(f"[yellow]{name} is not measured: {reason}[/yellow]")
    if not found:
        return 1
    return _run(console, arguments.measures, found, _scale(arguments), arguments.work_dir, missing)


def _run(
    console: Console,
    measures: Sequence[Measure],
    kinds: Sequence[type[peers.Peer]],
    scale: Scale,
    work_dir: Path | None,
    missing: dict[str, str],
) -> int:
    begin = time.time()
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("")
        done = -1

        def step(description: str) -> None:
            nonlocal done
            done += 1
            progress.update(task, completed=done, description=description)
            if not console.is_terminal:
                console.print(f"[dim]{time.time() - begin:5.0f} s[/dim]  {description}", highlight=False)

        runner = Runner(kinds, measures, scale, step, work_dir)
        progress.update(task, total=runner.steps)
        interrupted = False
        try:
            runner.run()
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C or a termination signal
            interrupted = True
            console.print("[yellow]interrupted: this is what was measured until then[/yellow]")
    names = [kind.name for kind in kinds]
    report.show(console, measures, names, runner.results, scale)
    about: dict[str, object] = {
        "seconds": round(time.time() - begin),
        "versions": peers.versions(),
        "load_average": os.getloadavg(),
        "command": sys.argv[1:],
        "scale": asdict(scale),
        "not_measured": missing,
    }
    _write(console, measures, names, runner, about, begin)
    if interrupted:
        return 128 + signal.SIGINT
    return 1 if runner.results.failures else 0


def _write(
    console: Console,
    measures: Sequence[Measure],
    names: list[str],
    runner: Runner,
    about: dict[str, object],
    begin: float,
) -> None:
    from benchmarks import plot  # noqa: PLC0415 - matplotlib is not loaded while times are taken

    _RESULTS.mkdir(exist_ok=True)
    stem = _RESULTS / time.strftime("%Y%m%d-%H%M%S", time.localtime(begin))
    report.write_json(stem.with_suffix(".json"), measures, runner.results, about)
    plotted = [measure for measure in measures if not measure.title]
    table = stem.with_suffix(".md")
    table.write_text(report.targets(plotted, names, runner.results))
    for path in (stem.with_suffix(".json"), table, *plot.draw(stem, plotted, names, runner.results)):
        console.print(f"wrote {path.relative_to(children.ROOT)}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
