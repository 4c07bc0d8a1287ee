"""Both clients: programs that run again with other arrays, and which of these are refused."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.judge.programs.recording import Recorder
from aclgrad.testing import TestServer
from tools.calling import AnyClient, maybe_await

from .conftest import Connect

LIMIT = 4096
"""Bytes of a message: what is larger goes in chunks."""
F32 = "float32"
WAYS: dict[str, Mapping[str, Any]] = {"message": {}, "chunks": {"max_message_bytes": LIMIT}}


def type_of(*shape: int, dtype: str = F32) -> aclgrad.TensorType:
    return aclgrad.TensorType.of(dtype, shape)


class Product:
    """A program of placeholders of many kinds, and what it is to return."""

    def __init__(self, client: AnyClient) -> None:
        self.program = client.program()
        shapes = {"weight": (40, 30), "bias": (30,), "scale": (), "nothing": (0, 30)}
        self.handles = {name: self.program.placeholder(type_of(*shape)) for name, shape in shapes.items()}
        self.handles["rows"] = self.program.placeholder(type_of(6, 2, dtype="int64"))
        weight, bias, scale, nothing, rows = self.handles.values()
        total = self.program.add(weight, bias)
        scaled = self.program.mul(self.program.add(total, weight), scale)
        self.wanted = (
            scaled,
            self.program.relu(weight.T[3:7, ::2]),
            self.program.add(nothing, bias),
            # Values that the server checks, and a view of them.
            self.program.embedding(total, rows.T[1:]),
        )

    def values(self, seed: int) -> dict[aclgrad.Handle, Any]:
        generator = np.random.default_rng(seed)
        drawn = [np.asarray(generator.standard_normal(each.shape), F32) for each in list(self.handles.values())[:4]]
        return dict(zip(self.handles.values(), [*drawn, generator.integers(0, 40, (6, 2))], strict=True))

    @staticmethod
    def expected(values: Mapping[aclgrad.Handle, Any]) -> list[Any]:
        weight, bias, scale, nothing, rows = values.values()
        total = weight + bias
        return [(total + weight) * scale, np.maximum(weight.T[3:7, ::2], 0), nothing, total[rows.T[1:]]]


@pytest.mark.parametrize("way", WAYS)
async def test_each_run_has_its_own_values(connect: Connect, server: TestServer, way: str) -> None:
    product = Product(connect(server.target, **WAYS[way]))
    for seed in (1, 2, 1):
        values = product.values(seed)
        found = await maybe_await(product.program.run(*product.wanted, values=values))
        for each, expected in zip(found, product.expected(values), strict=True):
            np.testing.assert_array_equal(each, expected)
        # Less is needed for less.
        needed = {handle: values[handle] for handle in list(product.handles.values())[:1]}
        [found] = await maybe_await(product.program.run(product.wanted[1], values=needed))
        np.testing.assert_array_equal(found, product.expected(values)[1])


@pytest.mark.parametrize("way", WAYS)
async def test_runs_at_once_do_not_mix_their_values(connect: Connect, server: TestServer, way: str) -> None:
    product = Product(connect(server.target, **WAYS[way]))
    given = [product.values(seed) for seed in range(24)]
    # Some want less, so that runs differ in what they send, too.
    wanted = [product.wanted[: 1 + seed % 4] for seed in range(24)]

    def run(number: int) -> Any:
        return product.program.run(*wanted[number], values=given[number])

    if isinstance(product.program, aclgrad.Program):
        with ThreadPoolExecutor(6) as threads:
            results = list(threads.map(run, range(24)))
    else:
        results = await asyncio.gather(*map(run, range(24)))
    for values, found in zip(given, results, strict=True):
        for each, expected in zip(found, product.expected(values), strict=False):
            np.testing.assert_array_equal(each, expected)


@pytest.mark.parametrize("way", WAYS)
async def test_arrays_of_any_layout_are_read_as_they_are(connect: Connect, server: TestServer, way: str) -> None:
    program = connect(server.target, **WAYS[way]).program()
    handle = program.placeholder(type_of(30, 40))
    doubled = program.add(handle, handle)
    array = np.random.default_rng(0).standard_normal((40, 60)).astype(F32)
    for each in (
        array.T[::2],
        array[:30, :40].astype(">f4"),
        array[29::-1, :40],
        np.broadcast_to(array[0, :40], (30, 40)),
    ):
        [found] = await maybe_await(program.run(doubled, values={handle: each}))
        np.testing.assert_array_equal(found, each.astype(F32) * 2)
    whole = np.ascontiguousarray(array[:30, :40])
    [found] = await maybe_await(program.run(doubled, values={handle: memoryview(whole)}))
    np.testing.assert_array_equal(found, whole * 2)


WRONG_VALUES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "nothing": (lambda a, b: {}, r"^values lacks placeholder 0, float32\[3\] of .*py:\d+; placeholder 1, .*; give an"),
    "one missing": (lambda a, b: {a: np.ones(3, F32)}, r"^values lacks placeholder 1, float32\[2, 3\] of .*; give an"),
    "a shape": (
        lambda a, b: {a: np.ones((3, 1), F32), b: np.ones((2, 3), F32)},
        r"^values\[placeholder 0\] is float32\[3, 1\], and this is placeholder 0, float32\[3\] of .*; give an array",
    ),
    "a dtype": (
        lambda a, b: {a: np.ones(3, F32), b: np.ones((2, 3))},
        r"^values\[placeholder 1\] is float64\[2, 3\], and this is placeholder 1, float32\[2, 3\]",
    ),
    "a dtype that the wire has not": (
        lambda a, b: {a: np.ones(3, "U1"), b: np.ones((2, 3))},
        r"^values\[placeholder 0\] is <U1\[3\], and this is placeholder 0",
    ),
    "no array": (lambda a, b: {a: object(), b: np.ones((2, 3))}, r"^values\[placeholder 0\] is a object, which numpy"),
    "a view": (lambda a, b: {a: np.ones(3, F32), b.T: np.ones((3, 2), F32)}, r"^values has the key <a view of placeh"),
    "a slice": (lambda a, b: {a[:]: np.ones(3, F32)}, r"^values has the key <a view .*give what its placeholder\(\)"),
    "no handle": (lambda a, b: {"a": np.ones(3, F32)}, r"^values has the key 'a', which is no placeholder of this"),
}


@pytest.mark.parametrize(("give", "told"), WRONG_VALUES.values(), ids=WRONG_VALUES)
async def test_values_that_do_not_fit(
    connect: Connect, server: TestServer, give: Callable[[Any, Any], Any], told: str
) -> None:
    program = connect(server.target).program()
    first, second = program.placeholder(type_of(3)), program.placeholder(type_of(2, 3))
    total = program.add(first, second)
    with pytest.raises(aclgrad.InvalidFieldError, match=told):
        await maybe_await(program.run(total, values=give(first, second)))
    # It has not run.
    total = program.add(total, first)
    [found] = await maybe_await(program.run(total, values={first: np.ones(3, F32), second: np.ones((2, 3), F32)}))
    assert (found == 3).all()


async def test_a_long_list_of_missing_values_is_cut_short(client: AnyClient) -> None:
    program = client.program()
    total = program.cat([program.placeholder(type_of(3)) for _ in range(9)], 0)
    with pytest.raises(
        aclgrad.InvalidFieldError, match=r"^values lacks placeholder 0, .* placeholder 2, .* and 6 more;"
    ):
        await maybe_await(program.run(total))


async def test_where_placeholders_are_none(client: AnyClient) -> None:
    program = client.program()
    handle = program.placeholder(type_of(2, 3))
    assert (handle.shape, handle.dtype, handle.ndim, handle.size) == ((2, 3), np.float32, 2, 6)
    assert (repr(handle), repr(handle.T)) == (
        "<placeholder 0: float32[2, 3]>",
        "<a view of placeholder 0: float32[3, 2]>",
    )
    with pytest.raises(
        aclgrad.InvalidFieldError, match=r"^wanted has <placeholder 0: .*, which no step makes; use the"
    ):
        await maybe_await(program.run(handle))
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^inputs\[self\].* is <placeholder 0: .* of another program"):
        client.program().relu(handle)
    with pytest.raises(aclgrad.InvalidFieldError, match="has no values yet"):
        np.asarray(handle)
    for wrong in (np.ones(3), (2, 3), type_of(2, -1)):
        with pytest.raises(
            aclgrad.InvalidFieldError, match=r"^type is .*, which is no type of a tensor; give aclgrad.T"
        ):
            program.placeholder(wrong)
    active = program.relu(handle)
    await maybe_await(program.run(active, values={handle: np.ones((2, 3), F32)}))
    with pytest.raises(
        aclgrad.InvalidFieldError, match=r"^program gets a placeholder, and has run; make a new program"
    ):
        program.placeholder(type_of(3))
    with pytest.raises(NotImplementedError):
        Recorder().placeholder(type_of(3))


async def test_an_out_is_no_value(client: AnyClient) -> None:
    """A repeated call would send what the first attempt has written."""
    program = client.program()
    handle, out = program.placeholder(type_of(4)), np.zeros(8, F32)
    active = program.relu(handle, out=out[:4])
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^values\[placeholder 0\] shares memory with .*\(`out`\)"):
        await maybe_await(program.run(active, values={handle: out[2:6]}))
    out[4:] = 3
    await maybe_await(program.run(active, values={handle: out[4:]}))
    assert (out == 3).all()


async def test_what_a_program_with_placeholders_costs(client: AnyClient) -> None:
    program = client.program()
    handle = program.placeholder(type_of(256, 4))
    program.add(handle, handle.T.reshape(4, 256).T)
    told = str(program)
    assert told.startswith("program of 1 steps: 4 KiB to the server, 4 KiB back, at least 8 KiB on the device at once")
    assert "add(self = placeholder 0 float32[256, 4], other = placeholder 0 (view) float32[256, 4]) -> out" in told


async def test_more_kinds_of_runs_than_are_kept(client: AnyClient) -> None:
    program = client.program()
    handle = program.placeholder(type_of(3))
    made = [program.muls(handle, float(number)) for number in range(6)]
    for number in (*range(6), 0, 5, 1):
        [found] = await maybe_await(program.run(made[number], values={handle: np.full(3, 2, F32)}))
        assert found.tolist() == [2.0 * number] * 3
