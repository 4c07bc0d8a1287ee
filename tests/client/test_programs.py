"""Both clients: what a program sends, and what its run returns."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import reference
from aclgrad.outputs import LayerNormBackwardOutputs
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_programs import ScriptedPrograms, scripted_programs, sources_of

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.standard_normal((4, 6)).astype(np.float32) for _ in range(2))
POOLED = np.ones((1, 2, 2), np.float32)


@pytest.fixture
def programs() -> Iterator[ScriptedPrograms]:
    with scripted_programs() as scripted:
        yield scripted


def tanh(grad: Array, output: Array) -> Array:
    """Returns the step's output by its definition, in its dtype."""
    return np.asarray(reference.tanh_backward(grad, output)).astype(np.float32)


def norm_inputs() -> dict[str, Any]:
    mean, rstd = X.mean(1, keepdims=True), 1 / np.sqrt(X.var(1, keepdims=True) + 1e-5)
    weight = np.ones(6, np.float32)
    return {"grad_output": Y, "input": X, "mean": mean, "rstd": rstd, "normalized_shape": (6,), "weight": weight}


async def test_handles_have_shapes_and_dtypes_before_anything_is_sent(
    connect: Connect, programs: ScriptedPrograms
) -> None:
    program = connect(programs.address).program()
    gradient = program.tanh_backward(X.astype(np.float16), X.astype(np.float16))
    assert isinstance(gradient, aclgrad.Handle)
    assert (gradient.shape, gradient.dtype, gradient.ndim, gradient.size) == ((4, 6), np.float16, 2, 24)
    assert (gradient.step, gradient.output, len(program)) == (0, "grad_input", 1)
    several = program.layer_norm_backward(**norm_inputs(), outputs=["grad_weight", "grad_input"])
    assert [each and (each.step, each.shape) for each in several] == [(1, (4, 6)), (1, (6,)), None]
    assert type(several) is LayerNormBackwardOutputs
    assert programs.sent == []


async def test_only_what_is_wanted_is_sent_and_numbered_anew(connect: Connect, programs: ScriptedPrograms) -> None:
    """The outputs are right, whichever are wanted; a step that is not needed goes nowhere."""
    program = connect(programs.address).program()
    a = program.tanh_backward(X, Y)
    b = program.tanh_backward(Y, X)
    c = program.tanh_backward(b, a[:1].broadcast_to(4, 6))
    d = program.tanh_backward(a.T, a.reshape(6, 4))
    values = [tanh(X, Y), tanh(Y, X)]
    values.append(tanh(values[1], np.broadcast_to(values[0][:1], (4, 6))))
    values.append(tanh(values[0].T, values[0].reshape(6, 4)))
    needs = [{0}, {1}, {0, 1, 2}, {0, 3}]
    for count in range(1, 5):
        for chosen in combinations(range(4), count):
            found = await maybe_await(program.run(*[(a, b, c, d)[each] for each in chosen]))
            for each, array in zip(chosen, found, strict=True):
                np.testing.assert_allclose(array, values[each], 1e-5, 1e-6)
            sent = programs.sent[-1]
            steps = sorted(set().union(*(needs[each] for each in chosen)))
            assert len(sent.steps) == len(steps)
            returned = [steps[each.step] for each in sent.returned]
            assert returned == (list(chosen) if set(steps) != set(chosen) else [])
            numbers = {each: number for number, each in enumerate(steps)}
            if 2 in steps:
                assert sources_of(sent.steps[numbers[2]]) == {
                    "grad_output": (numbers[1], "grad_input"),
                    "output": (numbers[0], "grad_input"),
                }
            if 3 in steps:
                assert set(sources_of(sent.steps[numbers[3]]).values()) == {(numbers[0], "grad_input")}


async def test_shared_arrays_stand_in_the_table_in_the_order_of_their_first_use(
    connect: Connect, programs: ScriptedPrograms
) -> None:
    """An array that one input has stands there; every byte goes once."""
    program = connect(programs.address).program()
    z = X + 1
    unneeded = program.tanh_backward(z, X)
    a = program.tanh_backward(Y, X)
    b = program.tanh_backward(z, X.T.T)
    c = program.tanh_backward(Y[1:3], X[1:3])
    [found] = await maybe_await(program.run(c))
    np.testing.assert_allclose(found, tanh(Y[1:3], X[1:3]), 1e-5)
    await maybe_await(program.run(a, b, c))
    alone, sent = programs.sent
    assert [sources_of(step) for step in alone.steps] == [{"grad_output": "data", "output": "data"}]
    assert [bytes(each.data) for each in sent.tensors] == [Y.tobytes(), X.tobytes()]
    assert [sources_of(step) for step in sent.steps] == [
        {"grad_output": 0, "output": 1},
        {"grad_output": "data", "output": 1},
        {"grad_output": 0, "output": 1},
    ]
    assert [each.view.offset for each in sent.steps[2].inputs] == [6, 6]
    assert len(programs.service.requests[1][1]) < 3 * X.nbytes + 500
    assert unneeded.step == 0


async def test_several_outputs(connect: Connect, programs: ScriptedPrograms) -> None:
    """Each alone, views of them, and the tuple; what neither a later step uses nor the caller wants is not computed."""
    program = connect(programs.address).program()
    inputs = norm_inputs()
    grads = program.layer_norm_backward(**inputs)
    later = program.tanh_backward(grads.grad_input, X)
    truth = reference.layer_norm_backward(Y, X, inputs["mean"], inputs["rstd"], (6,), inputs["weight"])

    [whole] = await maybe_await(program.run(grads))
    assert type(whole) is type(grads)
    for found, expected in zip(whole, truth, strict=True):
        np.testing.assert_allclose(found, expected, 1e-3, 1e-4)
    assert list(programs.sent[-1].steps[0].outputs) == []

    last, column = await maybe_await(program.run(later, grads.grad_weight[1:4:2]))
    np.testing.assert_allclose(last, tanh(truth[0], X), 1e-3, 1e-4)
    np.testing.assert_allclose(column, truth[1][1:4:2], 1e-3, 1e-4)
    step = programs.sent[-1].steps[0]
    assert list(step.outputs) == ["grad_input", "grad_weight"]
    assert [(each.step, each.output) for each in programs.sent[-1].returned] == [(0, "grad_weight"), (1, "grad_input")]

    bias, again = await maybe_await(program.run(grads.grad_bias, grads))
    assert again.grad_bias is bias
    await maybe_await(program.run(later))
    assert list(programs.sent[-1].steps[0].outputs) == ["grad_input"]


async def test_outputs_that_are_not_wanted_have_no_handle(connect: Connect, programs: ScriptedPrograms) -> None:
    program = connect(programs.address).program()
    grads = program.layer_norm_backward(**norm_inputs(), outputs=["grad_bias"])
    assert grads[:2] == (None, None)
    [found] = await maybe_await(program.run(grads))
    assert found[:2] == (None, None)
    np.testing.assert_allclose(found.grad_bias, Y.sum(0), 1e-4)
    assert list(programs.sent[0].steps[0].outputs) == ["grad_bias"]


async def test_the_same_handle_twice_is_the_same_array(connect: Connect, programs: ScriptedPrograms) -> None:
    """A view is an array of its own, and so are the results of another run."""
    program = connect(programs.address).program()
    a = program.tanh_backward(X, Y)
    first, second, row, turned, whole_view = await maybe_await(program.run(a, a, a[1], a.T, a[...]))
    assert first is second
    np.testing.assert_array_equal(row, first[1])
    np.testing.assert_array_equal(turned, first.T)
    np.testing.assert_array_equal(whole_view, first)
    for each in (row, turned, whole_view):
        assert each.flags.owndata or each.base.base is None
        assert not np.shares_memory(each, first)
        assert each.flags.writeable
    [again] = await maybe_await(program.run(a))
    assert again is not first
    assert not np.shares_memory(again, first)


async def test_arrays_may_change_when_a_step_has_been_added(connect: Connect, programs: ScriptedPrograms) -> None:
    """Also between two steps that have them, and while the program runs."""
    program = connect(programs.address).program()
    x, y = X.copy(), Y.copy()
    a = program.tanh_backward(x, y)
    x += 1
    b = program.tanh_backward(x, y.T.T)
    x[...] = y[...] = np.nan
    answer = programs.service.answer

    def change_and_answer(context: Any) -> bytes:
        x[...] = 7
        return answer(context)

    programs.service.answer = change_and_answer
    for _ in range(2):
        found = await maybe_await(program.run(a, b))
        np.testing.assert_allclose(found[0], tanh(X, Y), 1e-5)
        np.testing.assert_allclose(found[1], tanh(X + 1, Y), 1e-5)
    sent = programs.sent[0]
    assert [sources_of(step)["output"] for step in sent.steps] == [0, 0]


async def test_attributes_are_sent_as_they_are(connect: Connect, programs: ScriptedPrograms) -> None:
    """Also those that Python takes for equal."""
    client = connect(programs.address)
    values = [1, True, 1.0, [1], [True], 0.0, -0.0, "1"]
    for caller in (client.program(), client.batch()):
        for value in values:
            caller.execute("tanh_backward", {"grad_output": X, "output": X}, {"odd": value})
        kinds = []
        for step in caller._steps:  # noqa: SLF001 - a server would refuse them
            odd = pb.ExecuteOperatorRequest.FromString(step.form.head).attributes["odd"]
            kind = odd.WhichOneof("value")
            kinds.append((kind, str(getattr(odd, kind)).split()[-1]))
        assert kinds == [
            ("int_value", "1"),
            ("bool_value", "True"),
            ("double_value", "1.0"),
            ("ints_value", "1"),
            ("bools_value", "true"),
            ("double_value", "0.0"),
            ("double_value", "-0.0"),
            ("text_value", "1"),
        ]
