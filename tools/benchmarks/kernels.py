"""The command behind `make bench-kernels`: compares the times of the host library's kernels, PyTorch and a warm memcpy.

They take turns for several rounds, in one process for each number of threads. Outputs and copies go to memory that was
written before; PyTorch allocates its own. A ratio to PyTorch above 1 means that ours is faster. The ratio to memcpy is
our time over the time of moving the bytes that must be read and written.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import PLANES
from aclgrad_native.backends import host_library
from tools.abi.acl import Library
from tools.benchmarks import torchvision_kernel
from tools.benchmarks.kernel_cases import DTYPES, LINE_BYTES, Contest, timed_cases

FOLDER: Final = Path("build/bench-kernels")
THREADS: Final = (1, 2)
ROUND_S: Final = 0.05
"""Calls shorter than this are repeated within a round."""


@dataclass(frozen=True, slots=True)
class Plan:
    sizes: Sequence[str] = tuple(PLANES)
    operators: Sequence[str] = tuple(OPERATORS)
    dtypes: Sequence[str] = DTYPES
    rounds: int = 7


@dataclass(frozen=True, slots=True)
class Figure:
    """Milliseconds of the fastest round; NaN if the rival has no such kernel."""

    operator: str
    size: str
    dtype: str
    threads: int
    ours_ms: float
    pytorch_ms: float
    memory_ms: float
    """A warm memcpy of the bytes read and written; for a gather, plus the time of touching the gathered cache lines."""
    load_average: float

    @property
    def to_pytorch(self) -> float:
        return self.pytorch_ms / self.ours_ms

    @property
    def to_memory(self) -> float:
        return self.ours_ms / self.memory_ms


class Memory:
    """Measures the movement of bytes with a number of threads."""

    def __init__(self, threads: int, touch: ctypes.CDLL | None) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._touch = touch.touch if touch else None

    def mover(self, case: Contest) -> Callable[[], None]:
        half = case.moved_bytes // 2
        source, target = np.ones(half, np.uint8), np.ones(half, np.uint8)
        parts = self._parts(half)

        def move(begin: int, end: int) -> None:
            ctypes.memmove(target.ctypes.data + begin, source.ctypes.data + begin, end - begin)

        return lambda: self._run(move, parts)

    def toucher(self, case: Contest) -> Callable[[], None]:
        if case.gathered is None or self._touch is None:
            return lambda: None
        lines = case.touched_lines()
        assert lines is not None
        base, numbers, touch = case.read[case.gathered].ctypes.data, lines.ctypes.data, self._touch
        touch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
        parts = self._parts(len(lines), 1 << 14)
        return lambda: self._run(lambda begin, end: touch(base, numbers + 8 * begin, end - begin, LINE_BYTES), parts)

    def _parts(self, count: int, least: int = 1 << 18) -> list[tuple[int, int]]:
        threads = self._threads if count >= least else 1
        edges = [count * index // threads for index in range(threads + 1)]
        return list(pairwise(edges))

    def _run(self, work: Callable[[int, int], Any], parts: list[tuple[int, int]]) -> None:
        others = [self._pool.submit(work, *part) for part in parts[1:]]
        work(*parts[0])
        for other in others:
            other.result()


def time_rounds(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Returns the milliseconds of each call's fastest round: other load only adds time. The calls take turns."""
    repeats = [max(1, int(ROUND_S / max(_seconds(call, 1), 1e-7))) for call in calls]
    # The first call of all may have met cold memory.
    repeats = [
        max(1, int(ROUND_S / _seconds(call, min(count, 50)))) for call, count in zip(calls, repeats, strict=True)
    ]
    samples = [[_seconds(call, count) for call, count in zip(calls, repeats, strict=True)] for _ in range(rounds)]
    return [min(column) * 1e3 for column in zip(*samples, strict=True)]


def _seconds(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def time_case(acl: Library, memory: Memory, case: Contest, rounds: int) -> tuple[float, float, float]:
    """Returns the milliseconds of ours, of PyTorch and of memory."""
    with ExitStack() as stack:
        ours = case.prepare(acl, stack)
        ours()
        calls: list[Callable[[], object]] = [ours, memory.mover(case), memory.toucher(case)]
        try:
            case.run_rival()
            compare(case, case.run_wide_rival())
            calls.append(case.run_rival)
        except (NotImplementedError, AttributeError, RuntimeError):
            pass  # it has no kernel for this type
        times = time_rounds(calls, rounds)
    touching = times[2] if case.gathered else 0.0
    return times[0], times[3] if len(times) > 3 else float("nan"), times[1] + touching


def compare(case: Contest, theirs: tuple[torch.Tensor, ...]) -> None:
    """Raises AssertionError if the results differ by more than rounding does."""
    allowed = 1e-3 if case.typed.dtype == "float32" else 5e-2
    for out, rival in zip(case.outs, theirs, strict=True):
        count = min(out.size, 1 << 22)
        expected = rival.reshape(-1)[:count].to(torch.float64).numpy()
        found = out.reshape(-1)[:count].astype(np.float64)
        worst = float(np.max(np.abs(found - expected) / (1 + np.abs(expected))))
        if not worst <= allowed:
            raise AssertionError(f"{case.typed}: the results differ by {worst:.3g}")


def measure(plan: Plan, threads: int, config: str, touch: str) -> list[Figure]:
    """Runs in its own process, because the host library reads its number of threads once."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        try:
            torchvision_kernel.load(Path(folder))
        except (OSError, AssertionError) as error:
            print(f"torchvision's kernel does not load: {error}")
    acl = Library(str(host_library()))
    acl.call("aclInit", config.encode())
    acl.call("aclrtSetDevice", 0)
    memory = Memory(threads, ctypes.CDLL(touch) if touch else None)
    figures = []
    for operator in plan.operators:
        for size in plan.sizes:
            for typed in (each for each in timed_cases(operator, size) if each.dtype in plan.dtypes):
                rounds = 3 if size == "1 GB" else plan.rounds
                times = time_case(acl, memory, Contest(typed), rounds)
                figures.append(Figure(operator, size, typed.dtype, threads, *times, os.getloadavg()[0]))
                print("  ".join(cell.rjust(10) for cell in cells(figures[-1])), flush=True)
    return figures


HEADINGS: Final = (
    *("operator", "size", "dtype", "threads", "ours, ms", "PyTorch, ms", "memory, ms"),
    *("x PyTorch", "x memory", "load average"),
)


def cells(figure: Figure) -> Sequence[str]:
    times = (f"{value:.4g}" for value in (figure.ours_ms, figure.pytorch_ms, figure.memory_ms))
    ratios = (f"{value:.2f}" for value in (figure.to_pytorch, figure.to_memory))
    load = f"{figure.load_average:.1f}"
    return (figure.operator, figure.size, figure.dtype, str(figure.threads), *times, *ratios, load)


def markdown(figures: Sequence[Figure]) -> Iterator[str]:
    """Yields the lines of the report."""
    yield f"# Host kernels\n\nPyTorch {torch.__version__}. {__doc__.partition('.')[2].strip()}\n"
    yield f"| {' | '.join(HEADINGS)} |"
    yield f"|{'---|' * len(HEADINGS)}"
    yield from (f"| {' | '.join(cells(figure))} |" for figure in figures)
    yield "\n## From one thread to two\n"
    yield "| operator | size | dtype | faster by |"
    yield "|---|---|---|---|"
    times = {(each.operator, each.size, each.dtype, each.threads): each.ours_ms for each in figures}
    for operator, size, dtype, threads in times:
        if threads == 2 and (operator, size, dtype, 1) in times:
            ratio = times[operator, size, dtype, 1] / times[operator, size, dtype, 2]
            yield f"| {operator} | {size} | {dtype} | {ratio:.2f} |"


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Draws both ratios over the size, one panel for each operator."""
    import matplotlib as mpl

    mpl.use("Agg")  # needs no screen
    from matplotlib import pyplot as plt

    operators = list(dict.fromkeys(figure.operator for figure in figures))
    grid, panels = plt.subplots(2, len(operators), figsize=(3.6 * len(operators), 7), squeeze=False)
    for column, operator in enumerate(operators):
        for row, (name, ratio) in enumerate(
            (("times faster than PyTorch", "to_pytorch"), ("time over that of memory", "to_memory"))
        ):
            axes = panels[row][column]
            for dtype, threads in dict.fromkeys((each.dtype, each.threads) for each in figures):
                mine = [e for e in figures if (e.operator, e.dtype, e.threads) == (operator, dtype, threads)]
                if mine:
                    line = "o-" if threads == max(THREADS) else "o:"
                    values = [getattr(each, ratio) for each in mine]
                    axes.plot([each.size for each in mine], values, line, label=f"{dtype}, {threads}")
            axes.set(title=operator, ylabel=name, yscale="log")
            axes.grid(alpha=0.3, which="both")
    panels[0][0].legend(fontsize="x-small", title="dtype, threads", title_fontsize="x-small")
    grid.tight_layout()
    grid.savefig(path, dpi=110)
    plt.close(grid)


def main() -> None:
    flags = parse()
    quick = Plan(("16 KB", "6 MB"), dtypes=("float32", "float16"), rounds=3) if flags.quick else Plan()
    plan = Plan(
        flags.sizes or quick.sizes, flags.operators or quick.operators, flags.dtypes or quick.dtypes, quick.rounds
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"load average {os.getloadavg()[0]:.1f}\n" + "  ".join(name.rjust(10) for name in HEADINGS))
    figures = []
    touch = FOLDER / "libtouch.so"
    for threads in flags.threads:
        config = FOLDER / f"threads-{threads}.json"
        level = {"vector_level": flags.vector_level} if flags.vector_level else {}
        config.write_text(json.dumps({"host": {"threads": threads, **level}}))
        with multiprocessing.get_context("spawn").Pool(1) as process:
            arguments = (plan, threads, str(config), str(touch) if touch.exists() else "")
            figures += process.apply(measure, arguments)
    if not figures:
        raise SystemExit("nothing was measured: no operator has a case of these sizes and dtypes")
    (FOLDER / "report.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=2))
    (FOLDER / "report.md").write_text("\n".join(markdown(figures)) + "\n")
    draw(figures, FOLDER / "ratios.png")
    print(f"load average {os.getloadavg()[0]:.1f}; the report is in {FOLDER}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-kernels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute: 16 KB and 6 MB, two types, three rounds")
    parser.add_argument("--sizes", nargs="+", choices=tuple(PLANES))
    parser.add_argument("--operators", nargs="+", choices=tuple(OPERATORS))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES)
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS)
    parser.add_argument("--vector-level", help="one below the highest that the processor has: baseline, avx2")
    return parser.parse_args()


if __name__ == "__main__":
    main()
