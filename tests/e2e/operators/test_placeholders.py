"""Programs of both clients that run again with other arrays, whichever way they go, and on another server."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aclgrad
from tests.e2e.shared_objects import Objects
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

F32 = "float32"
# Options of the client, and the listen address.
WAYS: dict[str, tuple[dict[str, Any], int]] = {
    "message": ({}, 1),
    "chunks": ({"max_message_bytes": 20_000}, 1),
    "shared": ({"shared_memory": True}, 0),
}


class Training:
    """A layer, its gradients and the step that follows from them, all arrays of which each run brings."""

    def __init__(self, client: AnyClient) -> None:
        self.program = p = client.program()
        types = {
            "table": (F32, (300, 64)),
            "rows": ("int64", (5, 32)),
            "weight": (F32, (128, 64)),
            "grad": (F32, (5, 16, 128)),
            "rate": (F32, ()),
            "empty": (F32, (0, 64)),
        }
        self.handles = {name: p.placeholder(aclgrad.TensorType.of(*each)) for name, each in types.items()}
        table, rows, weight, grad, rate, empty = self.handles.values()
        # The rows have values that the server checks, and come as a view.
        x = p.embedding(table, rows[:, ::2]).reshape(80, 64)
        made = p.mm(x, weight.T)
        grad_weight = p.mm(grad.reshape(80, 128).T, x)
        self.wanted = made, p.sub(weight, p.mul(grad_weight, rate)), p.relu(empty)

    def values(self, seed: int) -> dict[aclgrad.Handle, Any]:
        """Returns small integers, whose products and sums are exact in any order."""
        generator = np.random.default_rng(seed)
        given = [generator.integers(-4, 5, each.shape).astype(each.dtype) for each in self.handles.values()]
        given[1] = generator.integers(0, 300, (5, 32))
        return dict(zip(self.handles.values(), given, strict=True))

    @staticmethod
    def expected(values: Mapping[aclgrad.Handle, Any]) -> list[Any]:
        table, rows, weight, grad, rate, empty = values.values()
        x = table[rows[:, ::2]].reshape(80, 64)
        return [x @ weight.T, weight - (grad.reshape(80, 128).T @ x) * rate, empty]

    async def run(self, seed: int) -> None:
        """Runs it, and checks what comes back."""
        values = self.values(seed)
        found = await maybe_await(self.program.run(*self.wanted, values=values))
        for each, expected in zip(found, self.expected(values), strict=True):
            np.testing.assert_array_equal(each, expected)


@pytest.mark.parametrize("way", WAYS)
async def test_results_follow_the_values(
    connect: Callable[..., AnyClient], shared_server: Server, objects: Objects, way: str
) -> None:
    options, listener = WAYS[way]
    training = Training(connect(shared_server.addresses[listener], **options))
    for seed in range(4):
        await training.run(seed)
    values = training.values(0)
    values[training.handles["rows"]][3, 4] = 300
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 0 \(embedding.*inputs\[indices\].* outside \[0, 300\)"):
        await maybe_await(training.program.run(training.wanted[0], values=values))


@pytest.mark.parametrize("way", WAYS)
def test_threads_run_one_program_with_values_of_their_own(shared_server: Server, objects: Objects, way: str) -> None:
    options, listener = WAYS[way]
    with aclgrad.Client(shared_server.addresses[listener], **options) as client, ThreadPoolExecutor(4) as threads:
        training = Training(client)
        given = list(map(training.values, range(12)))
        results = threads.map(lambda values: training.program.run(*training.wanted, values=values), given)
        for values, found in zip(given, results, strict=True):
            for each, expected in zip(found, training.expected(values), strict=True):
                np.testing.assert_array_equal(each, expected)


@pytest.mark.parametrize("way", ["message", "chunks"])
async def test_another_server_goes_on_after_one_has_ended(connect: Callable[..., AnyClient], way: str) -> None:
    """It has never seen the program."""
    with Server() as stays:
        with Server() as ends:
            training = Training(connect([ends.address, stays.address], **WAYS[way][0]))
            for seed in range(4):
                await training.run(seed)
        for seed in range(4):
            await training.run(seed)
