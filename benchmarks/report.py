"""The report of a run: a table on the terminal, and JSON, the targets as Markdown and a plot in benchmarks/results/."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import interpreter
from benchmarks.model import Figure, Measure, Scale
from benchmarks.peers import REFERENCE, REFERENCES, KfakePeer, MinibrokerPeer
from benchmarks.runner import Results

SUBJECT = MinibrokerPeer.name


def _number(value: float | None, figure: Figure) -> str:
    return "-" if value is None else f"{value:,.{figure.decimals}f}"


def _ratio(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    middle = f"{_median(ratios):.2f}x" if ratios[0] < 10 else f"{_median(ratios):.0f}x"
    return middle if len(ratios) == 1 else f"{middle} [dim]{ratios[0]:.2f}-{ratios[-1]:.2f}[/dim]"


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def verdict(figure: Figure, results: Results) -> bool | None:
    """Return whether minibroker meets the figure's target, or None if there is no target or no measurement."""
    value = results.median(figure.key, SUBJECT)
    to_kafka, to_kfake = (
        _median(ratios) if (ratios := results.ratios(figure.key, SUBJECT, peer)) else None
        for peer in (REFERENCE, KfakePeer.name)
    )
    return None if value is None else figure.is_met(value, to_kafka, to_kfake)


_MARKS = {True: "[green]met[/green]", False: "[bold red]missed[/bold red]", None: ""}


def table(measures: Sequence[Measure], peers: Sequence[str], results: Results) -> Table:
    shown = Table(title="medians of all rounds", header_style="bold", row_styles=["", "on grey7"])
    shown.add_column("what")
    shown.add_column("unit", style="dim")
    for peer in peers:
        shown.add_column(peer, justify="right", style="bold" if peer == SUBJECT else "")
    references = [peer for peer in REFERENCES if SUBJECT in peers and peer in peers]
    for peer in references:
        shown.add_column(f"{SUBJECT} / {peer}\n[dim]median min-max[/dim]", justify="right")
    shown.add_column("target", style="cyan")
    shown.add_column("")
    for measure in measures:
        for figure in () if measure.title else measure.figures:
            cells = [_cell(measure, figure, peer, results) for peer in peers]
            cells += [_ratio(results.ratios(figure.key, SUBJECT, peer)) for peer in references]
            shown.add_row(figure.label, figure.unit, *cells, figure.target, _MARKS[verdict(figure, results)])
        shown.add_section()
    return shown


def _cell(measure: Measure, figure: Figure, peer: str, results: Results) -> str:
    mark = "*" if figure.higher_is_better and (measure.name, peer) in results.client_bound else ""
    return _number(results.median(figure.key, peer), figure) + mark


def rows(measures: Sequence[Measure], peers: Sequence[str], results: Results) -> Table:
    """Return the table of the measures with a title: one row per measure and peer, and one column per figure."""
    shown = Table(header_style="bold")
    shown.add_column("what", overflow="fold")
    shown.add_column("")
    for figure in measures[0].figures:
        shown.add_column(f"{figure.label}\n[dim]{figure.unit} {figure.target}[/dim]", justify="right")
    shown.add_column("outcome", overflow="fold")
    for measure in measures:
        for number, peer in enumerate(peers):
            cells = [_number(results.median(figure.key, peer), figure) for figure in measure.figures]
            style = "bold red" if peer == SUBJECT and False in _verdicts(measure, results) else ""
            outcome = results.outcomes[measure.name].get(peer, "")
            shown.add_row("" if number else escape(measure.title), peer, *cells, escape(outcome), style=style)
        shown.add_section()
    return shown


def _verdicts(measure: Measure, results: Results) -> list[bool | None]:
    return [verdict(figure, results) for figure in measure.figures]


def show(console: Console, measures: Sequence[Measure], peers: Sequence[str], results: Results, scale: Scale) -> None:
    if any(not measure.title for measure in measures):
        console.print(table(measures, peers, results))
    if titled := [measure for measure in measures if measure.title]:
        console.print(rows(titled, peers, results))
        missed = sum(False in _verdicts(measure, results) for measure in titled)
        if SUBJECT in peers:
            console.print(f"{missed} of {len(titled)} rows miss a target on {SUBJECT}.")
    if results.client_bound:
        console.print("* the client's thread used a whole CPU: the broker may be faster than this")
    if any(measure.when == "round" for measure in measures):
        console.print(f"{scale.rounds} rounds; {_warmth(scale)}. CPU s/GB is the figure that survives a noisy machine.")
    console.print(
        f"Python {interpreter.description()}. It runs minibroker and the clients of all brokers.", highlight=False
    )
    for note in results.notes:
        console.print(f"[yellow]{escape(note)}[/yellow]")
    for failure in results.failures:
        console.print(f"[red]FAILED[/red] {escape(failure)}", highlight=False)


def _warmth(scale: Scale) -> str:
    if not scale.warm_ups:
        return "no warm-up: a JVM is measured as a test suite meets it"
    requests = 10_000 * scale.warm_ups
    amounts = (
        f"{0.7 * scale.warm_ups:.1f} GB produced, {0.8 * scale.warm_ups:.1f} GB fetched, {requests:,} requests in turn"
    )
    return f"warmed up first, uncounted, by {amounts}, {2 * scale.warm_ups} s of pipelined ones"


def targets(measures: Sequence[Measure], peers: Sequence[str], results: Results) -> str:
    """Return the figures with a target as a Markdown table: medians, ratios as `median (min-max)`, and verdicts.

    The Python that ran them is stated below the table.
    """
    references = [peer for peer in REFERENCES if SUBJECT in peers and peer in peers]
    head = ["figure", "unit", *peers, *(f"to {peer}" for peer in references), "target", ""]
    lines = [head, ["---"] * len(head)]
    for figure in (each for measure in measures for each in measure.figures if each.target):
        met = verdict(figure, results)
        cells = [_number(results.median(figure.key, peer), figure) for peer in peers]
        cells += [_plain_ratio(results.ratios(figure.key, SUBJECT, peer)) for peer in references]
        lines.append([figure.label, figure.unit, *cells, figure.target, _WORDS[met]])
    written = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{written}\nPython {interpreter.description()}.\n"


_WORDS = {True: "met", False: "**missed**", None: "not judged"}


def _plain_ratio(ratios: Sequence[float]) -> str:
    return f"{_median(ratios):.2f}x ({ratios[0]:.2f}-{ratios[-1]:.2f})" if ratios else "-"


def write_json(path: Path, measures: Sequence[Measure], results: Results, about: dict[str, object]) -> None:
    figures = {
        figure.key: {
            "label": figure.label,
            "unit": figure.unit,
            "higher_is_better": figure.higher_is_better,
            "target": figure.target,
            "met": verdict(figure, results),
            "median": {peer: results.median(figure.key, peer) for peer in results.samples[figure.key]},
            "samples": results.samples[figure.key],
        }
        for measure in measures
        for figure in measure.figures
    }
    record = {
        **about,
        "figures": figures,
        "client_bound": sorted(results.client_bound),
        "outcomes": results.outcomes,
        "notes": list(results.notes),
        "failures": results.failures,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
