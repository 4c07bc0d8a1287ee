"""The host library's kernels beside PyTorch's and a warm memcpy, in one process for each number of threads.

Outputs and copies go to memory that was written before; PyTorch allocates its own. Times are those of the fastest
round. Above 1 in "x PyTorch", ours is faster. "x memory" is our time over that of moving the bytes that must be read
and written; "x float32" is that over the time for float32 of the same product or convolution. The gradients of a
convolution are those that training needs; "times" says how often a model has it.
"""

import argparse
import ctypes
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Final

import numpy as np
import torch

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import PLANES
from aclgrad_native.backends import host_library
from tools.abi.acl import Library
from tools.benchmarks import kernel_attention, torchvision_kernel
from tools.benchmarks.kernel_cases import DTYPES, Contest, timed_cases
from tools.benchmarks.kernel_convolutions import races
from tools.benchmarks.kernel_products import products
from tools.benchmarks.measure import Figures, in_turns
from tools.benchmarks.report import Report

THREADS: Final = (1, 2)
TIMED: Final = tuple(
    spec.name
    for spec in OPERATORS.values()
    if not any(each.is_list for each in spec.inputs) and not any(each.begins_as for each in spec.outputs)
)
"""Without those that take a list, or write in the place of an input."""
ROUND_S: Final = 0.05
"""Calls shorter than this are repeated within a round."""
PER_THREAD: Final = 1 << 18
"""Fewer bytes are copied by one thread."""


def mover(moved_bytes: int, threads: int) -> Callable[[], None]:
    """Returns a function that reads half of so many bytes, and writes the other half."""
    half = moved_bytes // 2
    source, target = np.ones(half, np.uint8), np.ones(half, np.uint8)
    threads = threads if half >= PER_THREAD else 1
    parts = list(pairwise(half * index // threads for index in range(threads + 1)))
    pool = ThreadPoolExecutor(threads)

    def move(begin: int, end: int) -> None:
        ctypes.memmove(target.ctypes.data + begin, source.ctypes.data + begin, end - begin)

    def run() -> None:
        others = [pool.submit(move, *part) for part in parts[1:]]
        move(*parts[0])
        for other in others:
            other.result()

    return run


def fastest_ms(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Returns the milliseconds of each call's fastest round: other load only adds time."""
    for call in calls.values():
        call()  # the first one meets cold memory
    repeats = {name: max(1, int(ROUND_S / max(_seconds(call, 3), 1e-7))) for name, call in calls.items()}

    def timed(name: str) -> Figures:
        return {"ms": _seconds(calls[name], repeats[name]) * 1e3}

    measured = in_turns({name: partial(timed, name) for name in calls}, rounds)
    return {name: samples.least("ms") for name, samples in measured.items()}


def _seconds(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def time_case(acl: Library, case: Contest, threads: int, rounds: int) -> dict[str, float]:
    """Returns the milliseconds of ours, of memory, and of PyTorch if it has a kernel for this type."""
    with ExitStack() as stack:
        ours = case.prepare(acl, stack)
        ours()
        calls: dict[str, Callable[[], object]] = {"ours": ours, "memory": mover(case.moved_bytes, threads)}
        try:
            case.run_rival()
            compare(case, case.run_wide_rival())
            calls["pytorch"] = case.run_rival
        except (NotImplementedError, AttributeError, RuntimeError):
            pass  # it has no kernel for this type
        return fastest_ms(calls, rounds)


def compare(case: Contest, theirs: tuple[torch.Tensor, ...]) -> None:
    """Raises AssertionError if the results differ by more than rounding does."""
    # PyTorch itself loses some digits of float32 in the logarithms of CTC.
    allowed = 2e-3 if case.typed.dtype == "float32" else 5e-2
    # What stays inside comes last, and PyTorch has nothing like it.
    for out, rival in zip(case.outs[: len(theirs)], theirs, strict=True):
        count = min(out.size, 1 << 22)
        # Beyond the range of the dtype, as quotients by little may be, ours is infinite.
        with np.errstate(over="ignore"):
            expected = rival.reshape(-1)[:count].to(torch.float64).numpy().astype(out.dtype).astype(np.float64)
        found = out.reshape(-1)[:count].astype(np.float64)
        with np.errstate(invalid="ignore"):
            errors = np.where(found == expected, 0, np.abs(found - expected) / (1 + np.abs(expected)))
        worst = float(np.max(errors))
        if not worst <= allowed:
            raise AssertionError(f"{case.typed}: the results differ by {worst:.3g}")


def open_library(threads: int, vector_level: str | None = None) -> Library:
    """Returns the library with so many threads, which it reads once in a process."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "acl.json"
        level = {"vector_level": vector_level} if vector_level else {}
        config.write_text(json.dumps({"host": {"threads": threads, **level}}))
        acl = Library(str(host_library()))
        acl.call("aclInit", str(config).encode())
    acl.call("aclrtSetDevice", 0)
    return acl


def measure(flags: argparse.Namespace, threads: int) -> list[tuple[str, ...]]:
    """Returns the cells of each case; runs in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            torchvision_kernel.load(Path(folder))
        except (OSError, AssertionError) as error:
            print(f"torchvision's kernel does not load: {error}")
    acl = open_library(threads, flags.vector_level)
    found = []
    for operator, size in product(flags.operators, flags.sizes):
        for typed in (each for each in timed_cases(operator, size) if each.dtype in flags.dtypes):
            ms = time_case(acl, Contest(typed), threads, 3 if size == "1 GB" else flags.rounds)
            ours, pytorch, memory = ms["ours"], ms.get("pytorch", float("nan")), ms["memory"]
            times = (f"{each:.4g}" for each in (ours, pytorch, memory))
            ratios = f"{pytorch / ours:.2f}", f"{ours / memory:.2f}"
            cells = operator, size, typed.dtype, str(threads), *times, *ratios
            print(*cells, flush=True)
            found.append(cells)
    return found


def measure_products(flags: argparse.Namespace, threads: int, quick: bool) -> list[tuple[str, ...]]:
    """The same of the products of matrices."""
    acl = open_library(threads, flags.vector_level)
    found, of_float32 = [], {}
    for each in products(tuple(flags.dtypes), quick=quick):
        with ExitStack() as stack:
            ms = fastest_ms(each.calls(acl, stack), flags.rounds)
        ours, pytorch = ms["ours"], ms.get("pytorch", float("nan"))
        widest = of_float32.setdefault((each.shape, each.layout), ours)
        rate = each.operations / ours / 1e6
        times = (f"{number:.4g}" for number in (ours, pytorch, rate))
        cells = (
            str(each),
            each.layout,
            each.dtype,
            str(threads),
            *times,
            f"{pytorch / ours:.2f}",
            f"{ours / widest:.2f}",
        )
        print(*cells, flush=True)
        found.append(cells)
    return found


def measure_convolutions(flags: argparse.Namespace, threads: int, quick: bool) -> list[tuple[str, ...]]:
    """The same of convolutions and their gradients."""
    acl = open_library(threads, flags.vector_level)
    found, of_float32 = [], {}
    for race in races(tuple(flags.dtypes), quick=quick):
        with ExitStack() as stack:
            ms = fastest_ms(race.calls(acl, stack), flags.rounds)
        ours, pytorch = ms["ours"], ms.get("pytorch", float("nan"))
        widest = of_float32.setdefault((race.layer, race.is_forward), ours)
        times = (f"{number:.4g}" for number in (ours, pytorch, race.operations / ours / 1e6))
        ratios = f"{pytorch / ours:.2f}", f"{ours / widest:.2f}"
        of = f"{race.layer.name} {'forward' if race.is_forward else 'backward'}"
        cells = of, str(race), str(race.layer.count), race.dtype, str(threads), *times, *ratios
        print(*cells, flush=True)
        found.append(cells)
    return found


def measure_attention(flags: argparse.Namespace, threads: int, quick: bool) -> list[tuple[str, ...]]:
    """The same of attention and its gradients, with our workspace."""
    acl = open_library(threads, flags.vector_level)
    found = []
    for race in kernel_attention.races(tuple(flags.dtypes), quick=quick):
        with ExitStack() as stack:
            calls, workspace_bytes = race.calls(acl, stack)
            ms = fastest_ms(calls, flags.rounds)
        ours, pytorch = ms["ours"], ms["pytorch"]
        times = (f"{number:.4g}" for number in (ours, pytorch, race.operations / ours / 1e6))
        of = f"{race.sizes.name} {'forward' if race.is_forward else 'backward'}"
        more = f"{workspace_bytes / 2**20:.1f}", f"{pytorch / ours:.2f}"
        cells = of, str(race), race.dtype, str(threads), *times, *more
        print(*cells, flush=True)
        found.append(cells)
    return found


def main(quick: bool, arguments: list[str]) -> None:
    flags = _flags(quick, arguments)
    report = Report("kernels", f"PyTorch {torch.__version__}. {__doc__}")
    found: list[tuple[str, ...]] = []
    of_products: list[tuple[str, ...]] = []
    of_convolutions: list[tuple[str, ...]] = []
    of_attention: list[tuple[str, ...]] = []
    for threads in flags.threads:
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as process:
            if flags.sizes:
                found += process.apply(measure, (flags, threads))
            if flags.products:
                of_products += process.apply(measure_products, (flags, threads, quick))
            if flags.convolutions:
                of_convolutions += process.apply(measure_convolutions, (flags, threads, quick))
            if flags.attention:
                of_attention += process.apply(measure_attention, (flags, threads, quick))
    about = "dtype", "threads", "ours, ms", "PyTorch, ms"
    tables = {
        "Kernels": (("operator", "size", *about, "memory, ms", "x PyTorch", "x memory"), found),
        "Products": (("shape", "layout", *about, "GFLOP/s", "x PyTorch", "x float32"), of_products),
        "Convolutions": (("of", "weight", "times", *about, "GFLOP/s", "x PyTorch", "x float32"), of_convolutions),
        "Attention": (("of", "heads", *about, "GFLOP/s", "workspace, MiB", "x PyTorch"), of_attention),
    }
    for title, (heads, rows) in tables.items():
        if rows:
            report.table(title, *heads)
        for cells in rows:
            report.row(*cells)
    report.write()


def _flags(quick: bool, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench WHAT=kernels", description=__doc__)
    sizes, dtypes = (("16 KB", "6 MB"), DTYPES[:2]) if quick else (tuple(PLANES), DTYPES)
    parser.add_argument("--sizes", nargs="*", choices=tuple(PLANES), default=sizes)
    parser.add_argument("--operators", nargs="+", choices=TIMED, default=TIMED)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=dtypes)
    parser.add_argument("--no-products", dest="products", action="store_false", help="leave out products of matrices")
    parser.add_argument("--no-convolutions", dest="convolutions", action="store_false", help="leave out convolutions")
    parser.add_argument("--no-attention", dest="attention", action="store_false", help="leave out attention")
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS)
    parser.add_argument("--rounds", type=int, default=3 if quick else 7)
    parser.add_argument("--vector-level", help="one below the highest that the processor has: baseline, avx2")
    return parser.parse_args(arguments)
