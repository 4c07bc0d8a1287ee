"""Random programs of both clients: by the definitions, and bit by bit as single steps, whichever way they go."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.judge.findings.steps import judge_steps
from aclgrad.judge.programs.drawing import draw_program
from aclgrad.judge.programs.program import Given, Program, Result
from aclgrad.judge.programs.sending import add_steps
from aclgrad.products import Product
from aclgrad.wire import service
from tests.bounds import bits_of
from tests.e2e.shared_objects import Objects
from tools.calling import AnyClient, maybe_await, wait_until
from tools.random_programs.sending import execute, program_bytes
from tools.raw_calls import open_channel
from tools.serving import Server

# Options of the client, the listen address, and the method that the log tells.
WAYS: dict[str, tuple[dict[str, Any], int, str]] = {
    "message": ({}, 1, "ExecuteProgram of "),
    "chunks": ({"max_message_bytes": 20_000}, 1, "ExecuteProgramChunked of "),
    "shared": ({"shared_memory": True}, 0, "ExecuteProgram of "),
}
SEEDS = (4, 10, 17, 19, 23, 26)
"""Of programs of which most exceed the messages of the chunked way."""


def draw(seed: int) -> Program:
    generator = np.random.default_rng(seed)
    return draw_program(
        lambda first, last: int(generator.integers(first, last, endpoint=True)), Product.ATLAS_A2, 25, faults=False
    )


def run_alone(channel: grpc.Channel, program: Program) -> list[Result]:
    """Returns the results of steps sent one by one, each with the values of those before it.

    Views remain, which a client would copy, because sums may be in the order of the memory.
    """
    results: list[Result] = []
    for step in program.steps:
        inputs = [Given(each.name, each.type, program.whole_of(each, results), view=each.view) for each in step.inputs]
        results += execute(channel, program_bytes(Program([replace(step, inputs=inputs)])))
    return results


@pytest.fixture(scope="module")
def alone(shared_server: Server) -> list[tuple[Program, list[Result]]]:
    """Programs, and the results of their steps, which are right."""
    with open_channel(shared_server) as channel:
        programs = [draw(seed) for seed in SEEDS]
        expected = [(program, run_alone(channel, program)) for program in programs]
    assert sum(len(program.steps) for program in programs) > 40
    assert sum(each.step is not None for program in programs for step in program.steps for each in step.inputs) > 20
    for program, results in expected:
        assert judge_steps(program, results, Product.ATLAS_A2).failed == []
    return expected


@pytest.mark.parametrize("way", WAYS)
async def test_random_programs(
    connect: Callable[..., AnyClient],
    shared_server: Server,
    alone: list[tuple[Program, list[Result]]],
    objects: Objects,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """All outputs, and then a few of them, or views of them, from the same program."""
    monkeypatch.setattr(service, "SHARED_ABOVE_BYTES", 1)
    options, address, method = WAYS[way]
    client = connect(shared_server.addresses[address], **options)
    generator = np.random.default_rng(7)
    name = f"{type(client).__name__}-programs-{way}"
    with aclgrad.request_id(name):
        for program, results in alone:
            sent = client.program()
            handles = add_steps(program, sent, program.outputs)
            expected = [results[number][output] for number, output in program.outputs]  # type: ignore[index]
            for handle, value in zip(handles, expected, strict=True):
                assert (handle.shape, handle.dtype) == (value.shape, value.dtype)
            for found, value in zip(await maybe_await(sent.run(*handles)), expected, strict=True):
                assert bits_of(found) == bits_of(value)
            for chosen in generator.integers(0, len(handles), (3, 2)):
                one, other = await maybe_await(sent.run(handles[chosen[0]], handles[chosen[1]].T[..., None]))
                assert bits_of(one) == bits_of(expected[chosen[0]])
                assert bits_of(other) == bits_of(expected[chosen[1]].T[..., None])
            del found, one, other
    assert bool(objects.names()) is (way == "shared")
    wait_until(lambda: shared_server.log.count(f"{name} {method}") >= len(alone))
    await maybe_await(client.close())
    assert objects.names() == []


@pytest.mark.parametrize("way", WAYS)
async def test_steps_that_fail_beside_others(
    connect: Callable[..., AnyClient],
    shared_server: Server,
    objects: Objects,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """By values that only the device's process sees; the others' outputs are right, and no memory stays lent."""
    monkeypatch.setattr(service, "SHARED_ABOVE_BYTES", 1)
    options, address, _ = WAYS[way]
    client = connect(shared_server.addresses[address], **options)
    x = np.random.default_rng(0).standard_normal((100, 100)).astype(np.float32)
    program = client.program()
    good = program.tanh_backward(x, x)
    bad = program.embedding_dense_backward(good, np.full(100, 99), num_weights=5)
    after = program.tanh_backward(bad[:1].broadcast_to(100, 100), x)
    last = program.tanh_backward(good.T, x)
    found = await maybe_await(program.run(good, bad, after, last, return_errors=True))
    first = (x * (1 - x.astype(np.float64) ** 2)).astype(np.float32)
    np.testing.assert_allclose(found[0], first, 1e-5, 1e-6)
    np.testing.assert_allclose(found[3], first.T * (1 - x.astype(np.float64) ** 2), 1e-4, 1e-5)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 1 \(embedding_dense_backward, test_.*\): "):
        raise found[1]
    with pytest.raises(aclgrad.InputFailedError, match=r"^step 2 \(tanh_backward, .*\): step 1 \(embedding_dense_back"):
        raise found[2]
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 1 \(embedding_dense_backward, test_.*\): "):
        await maybe_await(program.run(after, last))
    [again] = await maybe_await(program.run(last))
    np.testing.assert_array_equal(again, found[3])
    await maybe_await(client.close())
    assert objects.names() == []


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    """Lets one call take 5 MiB at once."""
    with Server("--max-call-bytes", str(5 * 2**20)) as server:
        yield server


async def test_a_program_that_takes_too_much_is_told_where_to_cut_it(
    connect: Callable[..., AnyClient], small_server: Server
) -> None:
    """The two parts run; the client does not cut by itself."""
    arrays = [np.full((256, 1024), 0.5 + number, np.float32) for number in range(4)]
    program = connect(small_server.address).program()
    handles = [program.tanh_backward(each, each) for each in arrays]
    with pytest.raises(aclgrad.LimitExceededError, match=r"; cut it before step 2 .*, where 0 B more would be sent$"):
        await maybe_await(program.run(*handles))
    for part, given in ((handles[:2], arrays[:2]), (handles[2:], arrays[2:])):
        for array, found in zip(given, await maybe_await(program.run(*part)), strict=True):
            np.testing.assert_allclose(found, array * (1 - array**2), 1e-5)
