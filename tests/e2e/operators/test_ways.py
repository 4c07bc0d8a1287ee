"""Every way to send a call gives the bits of one message, for every operator, dtype and choice of outputs."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import pytest

import aclgrad
from aclgrad.operators.cases import arrays_of, first_cases
from aclgrad.products import Product
from aclgrad.wire import service
from tests.bounds import assert_near, bits_of
from tests.e2e.shared_objects import Objects
from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import Server

TYPED = [
    *first_cases(Product.ATLAS_A2),
    *{typed.dtype: typed for typed in first_cases(Product.ATLAS_A2, every_dtype=True)}.values(),
]
"""Each operator, and each dtype; no way looks at both together."""
CASES = [
    (typed, outputs)
    for typed in TYPED
    for names in [[each.name for each in typed.spec.returned]]
    for count in range(1, len(names) + 1)
    for outputs in combinations(names, count)
    if typed.dtype == "float32" or count == len(names)
]
"""Of float32 with each choice of its outputs."""

# Options of the client, and what the log has to say of at least so many calls: the method.
WAYS: dict[str, tuple[dict[str, Any], str, int]] = {
    "unary": ({}, "ExecuteOperator ok in ", 40),
    # So small a limit that calls go in chunks of 337 bytes.
    "chunked": ({"max_message_bytes": 401}, "ExecuteProgramChunked ok in ", 20),
    "shared": ({"shared_memory": True}, "ExecuteOperator ok in ", 40),
    "batched": ({}, "ExecuteProgram of ", 1),
}


@pytest.fixture(scope="module")
def whole(shared_server: Server) -> Iterator[dict[str, tuple[Any, ...]]]:
    """All gradients of each case, which are right; all inputs are sent, in one message."""
    with aclgrad.Client(shared_server.address, shape_only=False) as client:
        gradients = {}
        for typed in TYPED:
            found = client.execute(typed.spec.name, typed.arrays(), typed.case.attributes)
            assert_near(typed, found, Product.ATLAS_A2)
            gradients[str(typed)] = arrays_of(found)
        yield gradients


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_gives_the_bits_of_one_message(
    connect: Callable[..., AnyClient],
    shared_server: Server,
    whole: dict[str, tuple[Any, ...]],
    objects: Objects,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """Inputs that are not read are sent as shapes. The log has the id of each call."""
    monkeypatch.setattr(service, "SHARED_ABOVE_BYTES", 1)
    options, what, least = WAYS[way]
    client = connect(shared_server.address, **options)
    caller = client.batch() if way == "batched" else client
    name = f"{type(client).__name__}-{way}"
    with aclgrad.request_id(name):
        results = [
            await maybe_await(
                caller.execute(typed.spec.name, typed.arrays(), typed.case.attributes, outputs=outputs[::-1])
            )
            for typed, outputs in CASES
        ]
        if way == "batched":
            results = await maybe_await(caller.run())
    assert bool(objects.names()) is (way == "shared")
    for (typed, outputs), result in zip(CASES, results, strict=True):
        for spec, expected, found in zip(typed.spec.outputs, whole[str(typed)], arrays_of(result), strict=True):
            assert (found is not None) is (spec.name in outputs), (typed, spec.name)
            assert found is None or bits_of(found) == bits_of(expected), (typed, spec.name)
            assert found is None or found.flags.writeable
    wait_until(lambda: shared_server.log.count(f"{name} {what}") >= least)
    (device,) = (await maybe_await(connect(shared_server.address).server_status())).devices
    assert device.pool.allocated_bytes == 0
