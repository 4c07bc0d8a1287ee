"""Two plots of the wire rows: latency over size, throughput over concurrency."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tools.benchmarks.wire import Result

mpl.use("Agg")  # needs no screen

from matplotlib import pyplot as plt


def draw(results: Sequence[Result], folder: Path) -> None:
    """Writes latency.png and throughput.png."""
    _draw_latency([result for result in results if result.concurrency == 1], folder / "latency.png")
    _draw_throughput(results, folder / "throughput.png")


def _draw_latency(results: Sequence[Result], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for row in dict.fromkeys(result.row for result in results):
        mine = [result for result in results if result.row == row]
        axes.plot(
            [result.size.tensor_bytes / 1e6 for result in mine], [result.median_ms for result in mine], "o-", label=row
        )
    axes.set(xscale="log", yscale="log", xlabel="MB of one tensor", ylabel="median latency, ms (a batch: all of it)")
    _finish(figure, [axes], path)


def _draw_throughput(results: Sequence[Result], path: Path) -> None:
    sizes = list(dict.fromkeys(result.size.name for result in results))
    figure, all_axes = plt.subplots(1, len(sizes), figsize=(4 * len(sizes), 4), squeeze=False)
    for size, axes in zip(sizes, all_axes[0], strict=True):
        for row in dict.fromkeys(result.row for result in results):
            mine = [result for result in results if result.row == row and result.size.name == size]
            if mine:
                axes.plot([each.concurrency for each in mine], [each.gradients_per_s for each in mine], "o-", label=row)
        axes.set(xscale="log", title=size, xlabel="calls at once", ylabel="gradients/s", ylim=(0, None))
        axes.set_xticks(sorted({result.concurrency for result in results}), minor=False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.minorticks_off()
    _finish(figure, list(all_axes[0]), path)


def _finish(figure: Figure, all_axes: Sequence[Axes], path: Path) -> None:
    for axes in all_axes:
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
