"""Matrix products through a server, beside the kernel alone and PyTorch in this process, all with as many threads.

Arrays go over loopback, or as shared memory. "x kernel" is the time to the kernel's own; above 1 in "x PyTorch", we are
faster.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import torch

import aclgrad
import aclgrad.composites
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import case
from aclgrad_native.backends import host_library
from tools.abi.acl import Library
from tools.benchmarks.kernel_cases import Contest
from tools.benchmarks.measure import SERVER, SERVER_FLAGS, Figures, Samples, in_turns, running
from tools.benchmarks.report import Report

PRODUCTS: Final = {"5 GFLOP, square": (1357, 1357, 1357), "5 GFLOP, deep": (1024, 2400, 1024), "tiny": (64, 64, 64)}
"""Rows, terms and columns."""
LAYERS: Final = {"GPT-2, feed forward": (1024, 768, 3072), "BERT, attention": (2048, 768, 768)}
"""Rows, inputs and outputs of linear layers."""
MOST: Final = 1.15
"""The time of 5 GFLOP to that of the kernel."""

Call = Callable[[], object]


def main(quick: bool, arguments: list[str]) -> None:
    report = Report("products", f"PyTorch {torch.__version__}. {__doc__}")
    threads = psutil.cpu_count(logical=True) or 1
    torch.set_num_threads(threads)
    rounds = 5 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        acl = _library(Path(folder), threads)
        listen = "--listen", f"unix:{folder}/server", "--shared-memory"
        with (
            running(SERVER, *SERVER_FLAGS, *listen) as server,
            aclgrad.Client(server.address) as client,
            aclgrad.Client(server.local_address, shared_memory=True) as sharing,
        ):
            report.table(
                "Products", "product", "GFLOP/s of the kernel", "way", "ms", f"x kernel (most {MOST})", "x PyTorch"
            )
            for name, sizes in PRODUCTS.items():
                with _calls(acl, client, sharing, sizes) as calls:
                    found = _in_turns(calls, rounds)
                speed = 2e-6 * np.prod(sizes, dtype=float) / found["kernel"].median("ms")
                _tell(report, (name, f"{speed:.0f}"), found, "kernel")
            report.table("Gradients of linear layers", "layer", "way", "ms", "x PyTorch alone", "x PyTorch")
            for name, sizes in LAYERS.items():
                _tell(report, (name,), _in_turns(_backward_calls(client, sharing, sizes), rounds), "PyTorch")
    report.write()


def _library(folder: Path, threads: int) -> Library:
    config = folder / "acl.json"
    config.write_text(json.dumps({"host": {"threads": threads}}))
    acl = Library(str(host_library()))
    acl.call("aclInit", str(config).encode())
    acl.call("aclrtSetDevice", 0)
    return acl


@contextmanager
def _calls(
    acl: Library, client: aclgrad.Client, sharing: aclgrad.Client, sizes: tuple[int, ...]
) -> Iterator[dict[str, Call]]:
    rows, terms, columns = sizes
    typed = TypedCase(OPERATORS["mm"], case("timed", self=(rows, terms), mat2=(terms, columns)), "float32")
    contest = Contest(typed)
    one, two = contest.read.values()
    with ExitStack() as stack:
        yield {
            "kernel": contest.prepare(acl, stack),
            "PyTorch": contest.run_rival,
            "loopback": partial(client.mm, one, two),
            "shared memory": partial(sharing.mm, one, two),
        }


def _backward_calls(client: aclgrad.Client, sharing: aclgrad.Client, sizes: tuple[int, ...]) -> dict[str, Call]:
    rows, inputs, outputs = sizes
    generator = np.random.default_rng(0)
    shapes = (rows, outputs), (rows, inputs), (outputs, inputs)
    arrays = [generator.standard_normal(shape, np.float32) for shape in shapes]
    grad, input, weight = map(torch.from_numpy, arrays)

    def in_a_program(client: aclgrad.Client) -> object:
        program = client.program()
        return program.run(*aclgrad.composites.linear_backward(program, *arrays))

    return {
        "PyTorch": lambda: (grad @ weight, grad.T @ input, grad.sum(0)),
        "program, loopback": partial(in_a_program, client),
        "program, shared memory": partial(in_a_program, sharing),
    }


def _in_turns(calls: dict[str, Call], rounds: int) -> dict[str, Samples]:
    for call in calls.values():
        call()
    return in_turns({name: partial(_timed, call) for name, call in calls.items()}, rounds)


def _timed(call: Call) -> Figures:
    begin = time.perf_counter()
    call()
    return {"ms": (time.perf_counter() - begin) * 1e3}


def _tell(report: Report, about: tuple[str, ...], found: dict[str, Samples], beside: str) -> None:
    for name, samples in found.items():
        to_first, to_pytorch = samples.ratio(found[beside], "ms"), found["PyTorch"].ratio(samples, "ms")
        report.row(*about, name, f"{samples.median('ms'):.2f}", f"{to_first:.2f}", f"{to_pytorch:.2f}")
