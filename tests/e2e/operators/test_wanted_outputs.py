"""Of several outputs a client gets those that it wants, with the bits that all of them together have."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from aclgrad.wire import shared_memory
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

SEVERAL = [typed for typed in first_cases(Product.ATLAS_A2, every_dtype=True) if len(typed.spec.outputs) > 1]
WAYS: dict[str, dict[str, Any]] = {
    "unary": {},
    "chunked": {"max_message_bytes": 401},
    "shared": {"shared_memory": True},
}


def choices_of(typed: TypedCase) -> list[tuple[str, ...]]:
    names = [each.name for each in typed.spec.outputs]
    return [chosen for count in range(1, len(names) + 1) for chosen in combinations(names, count)]


def check(gradients: Any, everything: Any, wanted: tuple[str, ...]) -> None:
    for name, gradient in gradients._asdict().items():
        if name in wanted:
            whole = getattr(everything, name)
            assert (gradient.dtype, gradient.tobytes()) == (whole.dtype, whole.tobytes()), (name, wanted)
        else:
            assert gradient is None, (name, wanted)


def test_there_are_such_operators() -> None:
    assert {typed.spec.name for typed in SEVERAL} >= {
        "batch_norm_backward", "grid_sampler2d_backward", "layer_norm_backward"
    }  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_every_choice(
    connect: Callable[..., AnyClient], shared_server: Server, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(shared_memory, "SHARED_ABOVE_BYTES", 1)
    plain, client = connect(shared_server.address), connect(shared_server.address, **WAYS[way])
    for typed in SEVERAL:
        call = typed.spec.name, typed.arrays(), typed.case.attributes
        everything = await maybe_await(plain.execute(*call))
        for wanted in choices_of(typed):
            check(await maybe_await(client.execute(*call, outputs=wanted[::-1])), everything, wanted)
            out = tuple(
                np.empty(type.shape, type.dtype.numpy) if name in wanted else None
                for name, type in typed.outputs.items()
            )
            found = await maybe_await(client.execute(*call, outputs=wanted, out=out))
            assert all(each is given for each, given in zip(found, out, strict=True))
            check(found, everything, wanted)


async def test_every_choice_in_one_batch(connect: Callable[..., AnyClient], shared_server: Server) -> None:
    client = connect(shared_server.address)
    for typed in SEVERAL:
        call = typed.spec.name, typed.arrays(), typed.case.attributes
        batch = client.batch()
        for wanted in choices_of(typed):
            batch.execute(*call, outputs=wanted)
        results = await maybe_await(batch.run())
        for wanted, gradients in zip(choices_of(typed), results, strict=True):
            check(gradients, results[-1], wanted)


async def test_what_is_written_for_nobody_is_given_back(
    connect: Callable[..., AnyClient], shared_server: Server
) -> None:
    """The operator has to be given memory for both of its outputs."""
    client = connect(shared_server.address)
    (typed, *_) = (each for each in SEVERAL if each.spec.name == "grid_sampler2d_backward")
    call = typed.spec.name, typed.arrays(), typed.case.attributes
    for wanted in (("input_grad",), ("grid_grad",)):
        for _ in range(20):
            await maybe_await(client.execute(*call, outputs=wanted))
    (device,) = (await maybe_await(client.server_status())).devices
    assert device.pool.allocated_bytes == 0
