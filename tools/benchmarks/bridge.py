"""The overhead of aclgrad.torch: the backward pass of one function beside the client's own call and PyTorch's own."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import aclgrad
import aclgrad.torch
from tools.benchmarks.measure import Figures, in_turns
from tools.benchmarks.report import Report
from tools.serving import Server

SHAPES: Final = {"16 KB": (1, 16, 16, 16), "6 MB": (8, 64, 56, 56)}
ROUNDS: Final = {"16 KB": 1000, "6 MB": 60}


def main(quick: bool, arguments: list[str]) -> None:
    torch.set_num_threads(1)
    report = Report("bridge", __doc__)
    report.table("Time of one pass", "size", "pass", "us", "to client")
    with Server() as server, aclgrad.Client(server.address) as client:
        for size, shape in SHAPES.items():
            ways = _ways(client, shape)
            np.testing.assert_allclose(ways["aclgrad.torch"]()[0], ways["client"](), rtol=1e-6)
            measured = in_turns(
                {name: partial(_timed, run) for name, run in ways.items()}, ROUNDS[size] // (5 if quick else 1)
            )
            for name, samples in measured.items():
                ratio = samples.ratio(measured["client"], "us")
                report.row(size, name, f"{samples.median('us'):.0f}", f"{ratio:.2f}")
    report.write()


def _ways(client: aclgrad.Client, shape: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    input = torch.randn(shape, requires_grad=True)
    grad_output = torch.randn(*shape[:2], shape[2] + 4, shape[3] + 4)
    with aclgrad.torch.remote_backward(client):
        remote = _padded(input)

    def rerouted() -> Tensor:
        with aclgrad.torch.remote_backward(client):
            return _padded(input)

    return {
        "local": _backward(_padded(input), input, grad_output),
        "client": partial(client.replication_pad2d_backward, grad_output.numpy(), shape, (2, 2, 2, 2)),
        "aclgrad.torch": _backward(remote, input, grad_output),
        "forward, local": partial(_padded, input),
        "forward, rerouted": rerouted,
    }


def _padded(input: Tensor) -> Tensor:
    return functional.pad(input, (2, 2, 2, 2), mode="replicate")


def _backward(output: Tensor, input: Tensor, grad_output: Tensor) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: torch.autograd.grad(output, input, grad_output, retain_graph=True)


def _timed(run: Callable[[], object]) -> Figures:
    start = time.perf_counter()
    run()
    return {"us": (time.perf_counter() - start) * 1e6}
