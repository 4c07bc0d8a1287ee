"""A plot of all figures over time."""

from pathlib import Path

import matplotlib as mpl

from tools.soak.run import Run

mpl.use("Agg")  # needs no screen

from matplotlib import pyplot as plt

COLUMNS = 3


def draw(run: Run, path: Path) -> None:
    """Writes a panel for each figure, with a line for each process and a mark for each restart."""
    names = list(dict.fromkeys(each.figure for each in run.samples))
    rows = max(1, -(-len(names) // COLUMNS))
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(6 * COLUMNS, 4 * rows), squeeze=False)
    subjects = list(dict.fromkeys(each.subject for each in run.samples))
    for axes, name in zip(grid.flat, names, strict=False):
        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for each in run.samples:
            if each.figure == name:
                lines.setdefault((each.subject, each.life), []).append((each.seconds / 60, each.value))
        named = set()
        for (subject, _), points in lines.items():
            label = None if subject in named else subject
            named.add(subject)
            colour = f"C{subjects.index(subject)}"
            axes.plot(*zip(*points, strict=True), ".-", markersize=3, linewidth=1, color=colour, label=label)
        for seconds, _ in run.restarts:
            axes.axvline(seconds / 60, color="grey", alpha=0.4)
        unit = {"p50": "ms, small calls", "p99": "ms, small calls"}.get(name, "MiB" if _is_memory(name) else "count")
        axes.set(title=name, xlabel="minutes", ylabel=unit, ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    for axes in list(grid.flat)[len(names) :]:
        axes.remove()
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _is_memory(name: str) -> bool:
    return name in ("RSS", "PSS", "pool", "shared memory")
