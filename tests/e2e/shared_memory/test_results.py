"""Calls through shared memory give, bit for bit, what messages give, and their results stay as they are."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.wire import shared_memory
from tests.bounds import bits_of
from tests.e2e.shared_objects import Objects
from tools.calling import maybe_await
from tools.serving import Server

LARGE = np.random.default_rng(7).standard_normal((4, 16, 96, 96), np.float32)
PADDED = (4, 16, 92, 92)
PADDING = (2, 2, 2, 2)


def pad(client: Any, grad_output: np.ndarray = LARGE) -> Any:
    return client.replication_pad2d_backward(grad_output, PADDED, padding=PADDING)


@pytest.mark.parametrize("operator", OPERATORS)
async def test_every_type_is_bit_equal(
    shared_server: Server,
    connect: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    objects: Objects,
    operator: str,
) -> None:
    monkeypatch.setattr(shared_memory, "SHARED_ABOVE_BYTES", 1)
    plain = connect(shared_server.address, shape_only=False)
    sharing = connect(shared_server.address, shape_only=False, shared_memory=True)
    shared = 0
    for typed in first_cases(Product.ATLAS_A2, every_dtype=True):
        if typed.spec.name == operator:
            given = (operator, typed.arrays(), typed.case.attributes)
            expected = await maybe_await(plain.execute(*given))
            result = await maybe_await(sharing.execute(*given))
            assert bits_of(result) == bits_of(expected), typed
            shared += bool(objects.names())
    assert shared


@pytest.mark.parametrize("size", [4, 127, 128, 1400])
async def test_sizes_on_either_side_of_every_threshold(
    shared_server: Server, connect: Callable[..., Any], objects: Objects, size: int
) -> None:
    grad_output = np.random.default_rng(size).standard_normal((1, size, size), np.float32)
    given = ("adaptive_avg_pool2d_backward", {"grad_output": grad_output, "self": (1, size + 3, size)})
    expected = await maybe_await(connect(shared_server.address).execute(*given))
    result = await maybe_await(connect(shared_server.address, shared_memory=True).execute(*given))
    assert result.tobytes() == expected.tobytes()
    # The output is three rows larger: at 127 it alone is of 64 KiB and more.
    assert len(objects.names()) == (size >= 127) + (size >= 128)


async def test_a_result_stays_what_it_was_whatever_comes_after(
    shared_server: Server, connect: Callable[..., Any], objects: Objects
) -> None:
    client = connect(shared_server.address, shared_memory=True)
    plain = connect(shared_server.address)
    inputs = [LARGE * factor for factor in range(1, 11)]
    expected = [(await maybe_await(pad(plain, each))).tobytes() for each in inputs]
    kept = []
    for each in inputs:
        result = await maybe_await(pad(client, each))
        assert result.flags.writeable
        # A view of a view, and the buffer alone, keep the memory as the array does.
        kept.append([result, result.reshape(-1)[:], memoryview(result)][len(kept) % 3])
        del result
        gc.collect()
    for held, true in zip(kept, expected, strict=True):
        assert bytes(held) == true
    await maybe_await(client.close())
    assert objects.names() == []
    kept[0][...] = 0
    for held, true in zip(kept[1:], expected[1:], strict=True):
        assert bytes(held) == true


async def test_regions_are_used_again_and_no_more_than_a_few_are_kept(
    shared_server: Server, connect: Callable[..., Any], objects: Objects
) -> None:
    client = connect(shared_server.address, shared_memory=True)
    await maybe_await(pad(client))
    names = objects.names()
    assert len(names) == 2
    for _ in range(10):
        await maybe_await(pad(client))
    assert objects.names() == names
    results = [await maybe_await(pad(client)) for _ in range(40)]
    assert len(objects.names()) == 41
    results.clear()
    await maybe_await(pad(client))
    assert len(objects.names()) <= 17


def test_many_threads_on_one_client(shared_server: Server, objects: Objects) -> None:
    with aclgrad.Client(shared_server.address) as plain:
        expected = pad(plain)
    with aclgrad.Client(shared_server.address, shared_memory=True) as client, ThreadPoolExecutor(8) as threads:
        factors = [2.0 ** (index % 16 - 8) for index in range(96)]
        results = list(threads.map(lambda factor: pad(client, LARGE * np.float32(factor)), factors))
    # Powers of two scale without rounding.
    for factor, result in zip(factors, results, strict=True):
        assert np.array_equal(result, expected * np.float32(factor))
    assert objects.names() == []
