"""Plots with logarithmic axes: each peer's advantage over Apache Kafka, and costs by size."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # No display is needed.

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks.model import Figure, Measure
from benchmarks.peers import REFERENCE, MinibrokerPeer
from benchmarks.runner import Results

_COLORS = {"minibroker": "#1b7f79", "kfake": "#e0a03c", "mock": "#b8bfc6"}
SUBJECT = MinibrokerPeer.name
_TARGET_COLOUR = "#d1495b"


_LEFT_EDGE = 0.05
"""Longer bars are cut here, because the mock's tail latency alone would fill half of the plot."""
_NOT_COMPARED = ("B", "x")
"""Omitted figures: bytes on the wire depend on the protocol, not on the broker, and a ratio of ratios means little."""


def _better(figure: Figure, ratio: float) -> float:
    return ratio if figure.higher_is_better else 1 / ratio


def _advantages(figure: Figure, peer: str, results: Results) -> list[float]:
    """Return the sorted ratios to the reference, one per round. A ratio above 1 is better."""
    return sorted(_better(figure, ratio) for ratio in results.ratios(figure.key, peer) if ratio > 0)


def draw(stem: Path, measures: Sequence[Measure], peers: Sequence[str], results: Results) -> list[Path]:
    """Write STEM.png and STEM.svg, and return their paths. Write nothing without a pair to compare."""
    others = [peer for peer in peers if peer != REFERENCE]
    # Figures without minibroker are skipped, unless minibroker was not measured at all.
    shown = [SUBJECT] if SUBJECT in others else others
    figures = [
        figure
        for measure in measures
        for figure in measure.figures
        if figure.unit not in _NOT_COMPARED and any(_advantages(figure, peer, results) for peer in shown)
    ]
    if not figures:
        return []
    height = 0.8 / len(others)
    canvas, axes = plt.subplots(figsize=(10, 1.6 + 0.36 * len(figures)), layout="constrained")
    for place, peer in enumerate(others):
        shift = (place - (len(others) - 1) / 2) * height
        _bars(axes, figures, peer, results, shift, height)
    _targets(axes, figures)
    axes.set_xscale("log")
    axes.set_xlim(left=max(axes.get_xlim()[0], _LEFT_EDGE))
    axes.set_yticks(range(len(figures)), [f"{figure.label} ({figure.unit})" for figure in figures])
    axes.set_ylim(len(figures) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("times better than Apache Kafka (right of 1x is better; whiskers: worst and best round)")
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    canvas.legend(loc="outside upper center", ncols=len(others) + 1, frameon=False)
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        canvas.savefig(path, dpi=150)
    plt.close(canvas)
    return paths


def _bars(axes: Axes, figures: Sequence[Figure], peer: str, results: Results, shift: float, height: float) -> None:
    rows: list[float] = []
    middles: list[float] = []
    whiskers: tuple[list[float], list[float]] = ([], [])
    for row, figure in enumerate(figures):
        found = _advantages(figure, peer, results)
        if not found:
            continue
        middle = found[len(found) // 2]
        rows.append(row + shift)
        middles.append(middle)
        whiskers[0].append(middle - found[0])
        whiskers[1].append(found[-1] - middle)
    widths = [middle - 1 for middle in middles]  # Bars start at 1x, so worse values extend to the left.
    color = _COLORS.get(peer, "#7a6c9d")
    axes.barh(rows, widths, height, left=1, color=color, label=peer)
    axes.errorbar(middles, rows, xerr=whiskers, fmt="none", ecolor="#444444", elinewidth=0.8, capsize=1.5)


def _targets(axes: Axes, figures: Sequence[Figure]) -> None:
    rows = [(row, _better(figure, figure.ratio)) for row, figure in enumerate(figures) if figure.ratio]
    if rows:
        places, bounds = zip(*rows, strict=True)
        axes.scatter(
            bounds,
            places,
            marker="|",
            s=120,
            linewidths=2,
            color=_TARGET_COLOUR,
            label="target for minibroker",
            zorder=3,
        )


def draw_scale(stem: Path, found: Mapping[str, Mapping[int, Mapping[str, float]]]) -> list[Path]:
    """Write STEM.png and STEM.svg: the costs of each kind of item, by the number of items.

    A cost is shown as a multiple of the cost at the smallest number. The line is level if the cost grows in proportion.
    """
    canvas, panels = plt.subplots(1, len(found), figsize=(4.5 * len(found), 4), layout="constrained", squeeze=False)
    for axes, (kind, costs) in zip(panels[0], found.items(), strict=True):
        sizes = list(costs)
        for name, least in costs[sizes[0]].items():
            if least > 0:
                axes.plot(
                    sizes, [costs[size][name] / least for size in sizes], marker="o", label=name.partition(",")[0]
                )
        axes.set(xscale="log", yscale="log", title=kind)
        axes.axhline(1, color="black", linewidth=1)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(fontsize="small", frameon=False)
    panels[0][0].set_ylabel("cost beside that at the smallest number")
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        canvas.savefig(path, dpi=150)
    plt.close(canvas)
    return paths
