"""Both clients: what comes of a program whose steps fail, and which of its steps are sent again."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad.errors import InputFailedError
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_programs import ScriptedPrograms, scripted_programs, sources_of
from .scripted_service import abort_with

X = np.full((1, 4, 4), 0.5, np.float32)
POOLED = np.ones((1, 2, 2), np.float32)
BAD = aclgrad.InvalidFieldError("wrong", field="inputs[output]")
BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.001)
LATER = aclgrad.DeviceMemoryError("full", retry_after_s=1000.0)
VALUES = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "backoff_s", lambda *_: 0.001)


@pytest.fixture
def programs() -> Iterator[ScriptedPrograms]:
    with scripted_programs() as scripted:
        yield scripted


def add_chain(program: Any) -> list[aclgrad.Handle]:
    """Adds tanh, gelu of it, silu of that; sigmoid by itself, and leaky_relu of sigmoid and silu."""
    first = program.tanh_backward(X, X)
    second = program.gelu_backward(first, X)
    third = program.silu_backward(second, X)
    alone = program.sigmoid_backward(X, X)
    return [first, second, third, alone, program.hardswish_backward(alone, third)]


def line_here() -> int:
    return sys._getframe(1).f_lineno  # noqa: SLF001 - as the client finds it


async def test_an_error_names_the_step_and_its_line(connect: Connect, programs: ScriptedPrograms) -> None:
    """By its position among all steps, though some were not sent, and by the line in a function of the caller."""
    program = connect(programs.address).program()
    program.tanh_backward(X, X)
    program.tanh_backward(X, X)
    wanted = program.gelu_backward(X, X)
    line = line_here() - 1
    programs.fail({0: BAD})
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        await maybe_await(program.run(wanted))
    assert caught.value.message == f"step 2 (gelu_backward, test_program_errors.py:{line}): wrong"
    assert str(caught.value).startswith(caught.value.message)
    assert (caught.value.field, caught.value.request_id, caught.value.is_from_server) == (
        "inputs[output]",
        "5f0c",
        True,
    )
    assert programs.operators_sent() == [["gelu"]]


async def test_a_line_is_that_of_the_callers_function(connect: Connect, programs: ScriptedPrograms) -> None:
    program = connect(programs.address).program()
    handles = add_chain(program)
    programs.fail({1: BAD})
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        await maybe_await(program.run(handles[4]))
    line = add_chain.__code__.co_firstlineno + 3
    assert caught.value.message == f"step 1 (gelu_backward, test_program_errors.py:{line}): wrong"


async def test_the_first_steps_error_is_raised_and_the_others_are_returned(
    connect: Connect, programs: ScriptedPrograms
) -> None:
    """Those of which an input failed name the step that failed first, by its position and line."""
    program = connect(programs.address).program()
    handles = add_chain(program)
    program_of_four = [handles[0], handles[2], handles[3], handles[4], handles[2].T, handles[3][0]]
    programs.fail({1: BAD, 3: aclgrad.ServerFaultError("oops")})
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 1 \(gelu_backward, .*\): wrong"):
        await maybe_await(program.run(*program_of_four))
    found = await maybe_await(program.run(*program_of_four, return_errors=True))
    assert isinstance(found[0], np.ndarray)
    kinds = [type(each) for each in found[1:]]
    assert kinds == [
        InputFailedError,
        aclgrad.ServerFaultError,
        InputFailedError,
        InputFailedError,
        aclgrad.ServerFaultError,
    ]
    assert found[1].metadata["step"] == "1"
    told = r"step 2 \(silu_backward, .*\): step 1 \(gelu_backward, .*\) failed, whose output this one needs"
    with pytest.raises(InputFailedError, match=told):
        raise found[1]
    assert found[1] is found[4]
    assert len(programs.sent) == 2


async def test_a_tuple_that_lacks_an_output_is_an_error(connect: Connect, programs: ScriptedPrograms) -> None:
    program = connect(programs.address).program()
    x = X[0]
    ones = np.ones((4, 1), np.float32)
    grads = program.layer_norm_backward(x, x, 0 * ones, ones, 4)
    programs.fail({0: BAD})
    found = await maybe_await(program.run(grads, grads.grad_bias, return_errors=True))
    assert [type(each) for each in found] == [aclgrad.InvalidFieldError] * 2


async def test_steps_that_nothing_connects_are_sent_again_alone(connect: Connect, programs: ScriptedPrograms) -> None:
    """Connected ones with all that they need, but what is there is not asked for again."""
    program = connect(programs.address, retries=5).program()
    handles = add_chain(program)
    programs.fail({3: BUSY}, {0: BUSY}, {})
    found = await maybe_await(program.run(*handles[:4]))
    whole = ["tanh", "gelu", "silu", "sigmoid"]
    assert programs.operators_sent() == [whole, ["sigmoid"], ["sigmoid"]]
    programs.fail({2: BUSY, 3: BUSY}, {0: BUSY}, {2: BUSY}, {})
    again = await maybe_await(program.run(*handles))
    # silu and sigmoid fail, and hardswish with them; then everything by tanh, but for sigmoid.
    needs = [*whole, "hardswish"]
    assert programs.operators_sent() == [needs, needs, ["tanh", "gelu", "silu", "sigmoid", "hardswish"], needs]
    returned = [[(each.step, each.output) for each in sent.returned] for sent in programs.sent]
    silu, sigmoid, hardswish = (2, "grad_input"), (3, "grad_input"), (4, "out")
    assert returned == [[], [silu, sigmoid, hardswish], [silu, hardswish], [silu, hardswish]]
    for one, other in zip(found, again, strict=False):
        np.testing.assert_array_equal(one, other)


async def test_what_is_needed_for_nothing_any_more_is_not_sent_again(
    connect: Connect, programs: ScriptedPrograms
) -> None:
    """gelu can never succeed, so nobody needs tanh."""
    program = connect(programs.address).program()
    handles = add_chain(program)
    programs.fail({0: BUSY, 1: BAD}, {})
    found = await maybe_await(program.run(handles[1], handles[3], return_errors=True))
    assert type(found[0]) is aclgrad.InvalidFieldError
    assert isinstance(found[1], np.ndarray)
    assert len(programs.sent) == 1
    programs.fail({0: BUSY, 1: BAD}, {})
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 1 \(gelu_backward"):
        await maybe_await(program.run(handles[2]))
    assert len(programs.sent) == 1


async def test_a_step_that_is_made_again_and_fails_tells_its_error(
    connect: Connect, programs: ScriptedPrograms
) -> None:
    """It had succeeded before: its error is that of the step that needs it."""
    program = connect(programs.address).program()
    first, second, *_ = add_chain(program)
    programs.fail({1: BUSY}, {0: BAD})
    found = await maybe_await(program.run(first, second, return_errors=True))
    assert isinstance(found[0], np.ndarray)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 0 \(tanh_backward, .*\): wrong"):
        raise found[1]
    programs.fail({1: BUSY}, {0: BAD})
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 0 \(tanh_backward, .*\): wrong"):
        await maybe_await(program.run(first, second))
    programs.fail({1: BUSY}, {0: BUSY}, {})
    assert len(await maybe_await(program.run(first, second))) == 2


async def test_the_longest_wait_counts(connect: Connect, programs: ScriptedPrograms) -> None:
    program = connect(programs.address).program()
    handles = add_chain(program)
    programs.fail({2: LATER, 3: BUSY})
    found = await maybe_await(program.run(*handles, return_errors=True, timeout_s=60))
    kinds = [type(each) for each in found[2:]]
    assert kinds == [aclgrad.DeviceMemoryError, aclgrad.ServerBusyError, InputFailedError]
    assert len(programs.sent) == 1


@pytest.mark.parametrize("retries", [0, 2])
async def test_retries_that_are_used_up_leave_what_is_there(
    connect: Connect, programs: ScriptedPrograms, retries: int
) -> None:
    program = connect(programs.address, retries=retries).program()
    handles = add_chain(program)
    programs.fail({1: BUSY})
    found = await maybe_await(program.run(*handles, return_errors=True))
    kinds = [type(each) for each in found]
    assert kinds == [np.ndarray, aclgrad.ServerBusyError, InputFailedError, np.ndarray, InputFailedError]
    assert len(programs.sent) == 1 + retries
    with pytest.raises(aclgrad.ServerBusyError, match=r"^step 1 \(gelu_backward"):
        await maybe_await(program.run(*handles))


async def test_a_lost_connection_repeats_the_whole(connect: Connect, programs: ScriptedPrograms) -> None:
    lost, answer = abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed"), programs.service.answer
    programs.service.answer = lambda context: (lost if len(programs.sent) == 1 else answer)(context)
    program = connect(programs.address).program()
    assert len(await maybe_await(program.run(*add_chain(program)))) == 5
    assert len(programs.operators_sent()[1]) == 5
    first, second = programs.service.requests
    assert first == second


async def test_shapes_alone_are_sent_until_a_server_asks_for_values(connect: Connect) -> None:
    """Of arrays and of handles; a handle whose values are not read makes nobody compute them."""
    with scripted_programs(shape_only=True) as knows, scripted_programs(shape_only=False) as asks:
        for programs, is_asked in ((knows, False), (asks, True)):
            program = connect(programs.address, retries=0).program()
            made = program.tanh_backward(X, X)
            pools = [program.adaptive_avg_pool2d_backward(POOLED, each) for each in (X, made, made[:, 1:, 1:])]
            found = await maybe_await(program.run(*pools))
            assert [each.shape for each in found] == [(1, 4, 4), (1, 4, 4), (1, 3, 3)]
            pool = "adaptive_avg_pool2d"
            assert programs.operators_sent() == [[pool] * 3, ["tanh", *[pool] * 3]][: 1 + is_asked]
            own = [sources_of(step)["self"] for step in programs.sent[0].steps]
            assert own == ["shape"] * 3
            again = [sources_of(step)["self"] for step in programs.sent[-1].steps[1:]]
            assert again == ([0, (0, "grad_input"), (0, "grad_input")] if is_asked else ["shape"] * 2)
            # From then on the client sends them.
            await maybe_await(program.run(*pools))
            assert programs.operators_sent()[1 + is_asked :] == [programs.operators_sent()[-1]]
            np.testing.assert_allclose(found[1], np.full((1, 4, 4), 0.25))


async def test_a_step_that_is_only_needed_for_its_values_tells_its_error(
    connect: Connect, programs: ScriptedPrograms
) -> None:
    """Nobody had asked for it before."""
    program = connect(programs.address, retries=0).program()
    made = program.tanh_backward(X, X)
    pooled = program.adaptive_avg_pool2d_backward(POOLED, made)
    programs.fail({0: VALUES}, {0: BAD})
    for return_errors in (True, False):
        with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 0 \(tanh_backward, .*\): wrong"):
            raise (await maybe_await(program.run(pooled, return_errors=return_errors)))[0]
    assert programs.operators_sent() == [["adaptive_avg_pool2d"], *[["tanh", "adaptive_avg_pool2d"]] * 2]


async def test_values_are_sent_for_a_step_that_is_made_again(connect: Connect, programs: ScriptedPrograms) -> None:
    """The first server did not need them; the one that gets the step again does."""
    program = connect(programs.address).program()
    pooled = program.adaptive_avg_pool2d_backward(POOLED, X)
    last = program.tanh_backward(pooled, X)
    programs.fail({1: BUSY}, {0: VALUES}, {})
    assert len(await maybe_await(program.run(pooled, last))) == 2
    assert [sources_of(sent.steps[0])["self"] for sent in programs.sent] == ["shape", "shape", 0]


async def test_a_shape_has_no_values_to_send(connect: Connect, programs: ScriptedPrograms) -> None:
    program = connect(programs.address).program()
    pooled = program.adaptive_avg_pool2d_backward(POOLED, (1, 4, 4))
    programs.fail({0: VALUES})
    with pytest.raises(aclgrad.InputValuesRequiredError, match=r"^step 0 \(adaptive"):
        await maybe_await(program.run(pooled))
    assert len(programs.sent) == 1


WRONG_STEPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sizes": (lambda p: p.add(X, np.ones(7, np.float32)), r"inputs\[other\].shape is \(7,\)"),
    "rank": (lambda p: p.cat([np.float32(1)]), r"inputs\[tensors_0\].shape has 0 dimensions"),
    "attribute": (lambda p: p.convolution(X[None], X[None], stride=0), r"attributes\[stride\] is 0"),
}


@pytest.mark.parametrize(("add", "why"), WRONG_STEPS.values(), ids=WRONG_STEPS.keys())
def test_a_step_without_a_result_says_why(add: Callable[[Any], Any], why: str) -> None:
    told = pytest.raises(aclgrad.InvalidFieldError, match=rf"^step 0 \(\w+\) is not legal: {why}")
    with aclgrad.Client("127.0.0.1:1") as client, told:
        add(client.program())
