"""Measures the overhead of aclgrad.torch: the backward pass of one function compared with the client's own call.

`python -m tools.benchmarks.bridge` prints the medians of both, in turns, and their ratio.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import aclgrad
import aclgrad.torch
from tools.serving import Server

SHAPES = {"16 KB": (1, 16, 16, 16), "6 MB": (8, 64, 56, 56)}
REPEATS = {"16 KB": 1000, "6 MB": 60}


def main() -> None:
    torch.set_num_threads(1)
    with Server() as server, aclgrad.Client(server.address) as client:
        for size, shape in SHAPES.items():
            input = torch.randn(shape, requires_grad=True)
            grad_output = torch.randn(*shape[:2], shape[2] + 4, shape[3] + 4)
            array = grad_output.numpy()
            with aclgrad.torch.remote_backward(client):
                remote = padded(input)
            rows = {
                "local": backward(padded(input), input, grad_output),
                "client": partial(client.replication_pad2d_backward, array, shape, (2, 2, 2, 2)),
                "aclgrad.torch": backward(remote, input, grad_output),
                "forward, local": partial(padded, input),
                "forward, rerouted": rerouted(client, input),
            }
            times = measured(rows, REPEATS[size])
            told = ", ".join(f"{name} {seconds * 1e6:,.0f} us" for name, seconds in times.items())
            print(f"{size}: {told}; aclgrad.torch / client {times['aclgrad.torch'] / times['client']:.2f}")
            np.testing.assert_allclose(rows["aclgrad.torch"]()[0], rows["client"](), rtol=1e-6)


def padded(input: Tensor) -> Tensor:
    return functional.pad(input, (2, 2, 2, 2), mode="replicate")


def rerouted(client: aclgrad.Client, input: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        with aclgrad.torch.remote_backward(client):
            return padded(input)

    return run


def backward(output: Tensor, input: Tensor, grad_output: Tensor) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: torch.autograd.grad(output, input, grad_output, retain_graph=True)


def measured(rows: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Returns the median time of each row; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(repeats):
        for name, run in rows.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each[len(each) // 10 :]) for name, each in times.items()}


if __name__ == "__main__":
    main()
