"""One table: what aclgrad reaches, its goals, and what somebody would use instead, all in the same run.

A speed is relative to the other's in the same round; above 1, aclgrad is faster. Kernels run on the CPU.
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch

import aclgrad
import aclgrad.torch
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from tools.benchmarks import goals, h2load, loads, programs, steps
from tools.benchmarks.goals import Found
from tools.benchmarks.kernel_attention import ALL as ATTENTIONS
from tools.benchmarks.kernel_attention import Race as AttentionRace
from tools.benchmarks.kernel_cases import Contest
from tools.benchmarks.kernel_convolutions import Layer
from tools.benchmarks.kernel_convolutions import Race as ConvolutionRace
from tools.benchmarks.kernel_products import Product
from tools.benchmarks.kernels import fastest_ms, open_library
from tools.benchmarks.local_steps import Local, local_net
from tools.benchmarks.measure import SERVER, SERVER_FLAGS, Figures, Samples, in_turns, running
from tools.benchmarks.report import Report, conditions
from tools.benchmarks.sizes import SIZES
from tools.benchmarks.ten_steps import Net
from tools.generate.figures import PAGE, block, with_block
from tools.serving import Server

SMALL: Final = {1: goals.CALL_1, 4: goals.CALL_4, 16: goals.CALL_16}
PASSES: Final = 20
"""Of the ten steps in a round."""
QUIET: Final = 0.5
"""The load average above which other programs were running."""


def calls(quick: bool) -> Iterator[Found]:
    """Measures calls that h2load makes, which takes little of the machine from the server."""
    rounds, seconds = (1, 0.3) if quick else (7, 1.0)
    cases = [("16 KB", at_once, goals.ECHO, loads.echo, what) for at_once, what in SMALL.items()]
    cases += [("6.4 MB", 4, goals.FRESH_ECHO, loads.fresh_echo, goals.LARGE)]
    with (
        running(SERVER, *SERVER_FLAGS) as server,
        running("tools.benchmarks.ceilings") as echo,
        running("tools.benchmarks.naive") as naive,
    ):
        for size, at_once, ceiling, load, what in cases:
            ways = {
                "aclgrad": (server, loads.unary(SIZES[size])),
                ceiling: (echo, load(SIZES[size])),
                goals.NAIVE: (naive, loads.unary(SIZES[size])),
            }
            for under_test, sent in ways.values():
                h2load.check(under_test.address, sent)
            found = in_turns(
                {
                    name: partial(h2load.measure, under_test.address, sent, at_once, seconds)
                    for name, (under_test, sent) in ways.items()
                },
                rounds,
            )
            here = f"{found['aclgrad'].median('calls_per_s'):,.0f} calls/s"
            for beside in (ceiling, goals.NAIVE):
                yield Found(what, beside, here, found["aclgrad"].ratio(found[beside], "calls_per_s"))


def of_programs(quick: bool) -> Iterator[Found]:
    """Measures programs beside the same steps as calls, and beside PyTorch in this process."""
    rounds = 3 if quick else 15
    with (
        running(SERVER, *SERVER_FLAGS) as server,
        loads.channel_to(server.address) as channel,
        aclgrad.Client(server.address, timeout_s=None) as client,
    ):
        net = Net()
        local = local_net(net)

        def in_a_program() -> list[np.ndarray]:
            program = client.program()
            return program.run(*net.backward(program))

        ways = {
            "aclgrad": in_a_program,
            goals.CALLS: lambda: net.backward(client),
            goals.LOCAL: lambda: local.backward(Local()),
        }
        for one, other in zip(ways["aclgrad"](), ways[goals.LOCAL](), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
        yield from _times(goals.TEN_STEPS, ways, rounds, PASSES)
        chained = programs.connected(channel)
        ways = {"aclgrad": chained["one program, shared second input"], goals.CALLS: chained["calls"]}
        yield from _times(goals.CHAIN, ways, rounds, 2)


def training_steps(quick: bool) -> Iterator[Found]:
    """Measures steps of PyTorch's models, each with a server that has done nothing else."""
    for what, name, count in ((goals.RESNET, "resnet18", 8), (goals.GPT2, "gpt2", 1))[: 1 if quick else None]:
        known, model, batch = steps.made(name, False, count)
        with Server() as server, aclgrad.Client(server.address, timeout_s=600) as client:
            step = aclgrad.torch.remote_step(model, known.loss, client, verify_every=0)
            ways: Mapping[str, Callable[[], object]] = {
                "aclgrad": partial(steps.timed, model, partial(step, *batch)),
                goals.LOCAL: partial(steps.timed, model, partial(steps.own_step, known, model, batch)),
            }
            yield from _times(what, ways, 2 if quick else 5, 1)


def kernels(quick: bool) -> Iterator[Found]:
    """Measures the host library's kernels, with as many threads as PyTorch, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as process:
        yield from process.apply(_kernels, (quick,))


def _kernels(quick: bool) -> list[Found]:
    acl = open_library(torch.get_num_threads())
    (attention,) = (each for each in ATTENTIONS if each.name == "GPT-2" and each.is_causal)
    layer = Layer("ResNet-50 64", (8, 64, 56, 56), (64, 64, 3, 3), 1, 1)
    pooling = Contest(
        TypedCase(OPERATORS["avg_pool2d_backward"], samples_of("avg_pool2d_backward").timed["100 MB"], "float32")
    )
    races: dict[str, Callable[[ExitStack], Mapping[str, Callable[[], object]]]] = {
        goals.CONVOLUTION: lambda stack: ConvolutionRace(layer, "float32", is_forward=False).calls(acl, stack),
        goals.PRODUCT: lambda stack: Product((1024, 1024, 1024), "NN", "float32").calls(acl, stack),
        goals.ATTENTION: lambda stack: AttentionRace(attention, "float32", is_forward=False).calls(acl, stack)[0],
        goals.POOLING: lambda stack: {"ours": pooling.prepare(acl, stack), "pytorch": pooling.run_rival},
    }
    found = []
    for what, prepare in races.items():
        with ExitStack() as stack:
            ms = fastest_ms({**prepare(stack)}, 2 if quick else 9)
        found.append(Found(what, goals.KERNEL, f"{ms['ours']:.1f} ms", ms["pytorch"] / ms["ours"]))
    return found


def _times(what: str, ways: Mapping[str, Callable[[], object]], rounds: int, passes: int) -> Iterator[Found]:
    """Yields how fast the first way is, relative to each of the others."""
    for way in ways.values():
        way()
    found = in_turns({name: partial(_seconds, way, passes) for name, way in ways.items()}, rounds)
    ours = found.pop("aclgrad")
    here = _duration(ours.median("s"))
    yield from (Found(what, name, here, _speed(ours, other)) for name, other in found.items())


def _speed(ours: Samples, other: Samples) -> float:
    return other.ratio(ours, "s")


def _seconds(way: Callable[[], object], passes: int) -> Figures:
    begin = time.perf_counter()
    for _ in range(passes):
        way()
    return {"s": (time.perf_counter() - begin) / passes}


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


PARTS: Final[Mapping[str, Callable[[bool], Iterator[Found]]]] = {
    "calls": calls,
    "programs": of_programs,
    "steps": training_steps,
    "kernels": kernels,
}


def main(quick: bool, arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="a part of the table; repeatable")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE}")
    flags = parser.parse_args(arguments)
    if flags.write and flags.only:
        parser.error("--write needs the whole table; leave out --only")
    busy = os.getloadavg()[0]
    found: list[Found] = []
    report = Report("summary", __doc__ or "")
    for name in flags.only or PARTS:
        print(f"measuring {name}", flush=True)
        found += PARTS[name](quick)
    cells = goals.rows(found)
    widths = [max(map(len, column)) for column in zip(goals.HEADINGS, *cells, strict=True)]
    heads, *lines = (
        [cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in (goals.HEADINGS, *cells)
    )
    report.table("aclgrad and what you would use instead", *heads)
    for line in lines:
        report.row(*line)
    report.write()
    if flags.write:
        notes = ["a quick run, whose figures are rough"] * quick
        notes += [f"other programs were running (load average {busy:.1f})"] * (busy > QUIET)
        page = Path(PAGE)
        page.write_text(with_block(page.read_text(), block("; ".join([conditions(), *notes]), goals.HEADINGS, cells)))
        print(f"the table is in {PAGE}")
