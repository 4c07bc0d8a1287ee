"""Both clients: where handles, arrays for outputs and programs may be used, and what is said elsewhere."""

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclgrad
from aclgrad.testing import TestServer, serve
from tools.calling import AnyClient, maybe_await

from .conftest import Connect
from .test_inputs import ByDlpack

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
Y = X * 2 + 1


@pytest.fixture
def fresh() -> Iterator[TestServer]:
    with serve() as running:
        yield running


def tanh(grad: Any, output: Any) -> Any:
    """Returns the definition: the slope of tanh is 1 - output**2."""
    return (grad * (1.0 - output.astype(np.float64) ** 2)).astype(np.float32)


HINT = r"has no values yet; give it to its program's run\(\), or to a step of that program"
USES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "numpy": (lambda client, handle: np.asarray(handle), rf"^array is <grad_input of step 0: .*>, which {HINT}"),
    "a view in numpy": (lambda client, handle: np.array(handle.T), rf"a view of grad_input of step 0.* which {HINT}"),
    "a batch": (lambda client, handle: client.batch().tanh_backward(X, handle), rf"^inputs\[output\] is .*{HINT}"),
    "another program": (
        lambda client, handle: client.program().tanh_backward(handle.T, X),
        r"^inputs\[grad_output\] is .* of another program; give what its run\(\) returned, or make it here",
    ),
    "a list of handles": (lambda client, handle: client.program().tanh_backward([handle, handle], X), HINT),
    "out": (lambda client, handle: client.program().tanh_backward(X, X, out=handle), rf"^out is .*{HINT}"),
}


@pytest.mark.parametrize(("use", "told"), USES.values(), ids=USES)
async def test_a_handle_is_no_array(client: AnyClient, use: Callable[[Any, Any], Any], told: str) -> None:
    handle = client.program().tanh_backward(X, Y)
    with pytest.raises(aclgrad.InvalidFieldError, match=told):
        use(client, handle)


async def test_a_handle_in_a_single_call(client: AnyClient) -> None:
    program = client.program()
    handle = program.tanh_backward(X, Y)
    with pytest.raises(aclgrad.InvalidFieldError, match=rf"^inputs\[output\] is .*{HINT}"):
        await maybe_await(client.tanh_backward(X, handle))
    for arithmetic in (lambda: handle + 1, lambda: X * handle, lambda: np.tanh(handle), lambda: float(handle)):
        with pytest.raises(TypeError):
            arithmetic()
    [found] = await maybe_await(program.run(handle))
    np.testing.assert_allclose(found, tanh(X, Y), 1e-5)


async def test_what_is_no_handle_of_the_program_is_not_returned(connect: Connect, fresh: TestServer) -> None:
    """Nothing is sent, and the program takes steps as before."""
    client = connect(fresh.target)
    program, other = client.program(), client.program()
    handle = program.tanh_backward(X, Y)
    theirs = other.tanh_backward(X, Y)
    for wanted in ([], [()], [((),)], [None], [X], [3], [[handle]], [theirs], [handle, theirs.T], [(handle, X)]):
        with pytest.raises(aclgrad.InvalidFieldError, match=r"^wanted (names no outputs|has )"):
            await maybe_await(program.run(*wanted))
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^wanted names no outputs; give run"):
        await maybe_await(client.program().run())
    assert fresh.calls == []
    again = program.tanh_backward(handle, Y)
    nested = await maybe_await(program.run((handle, (again,))))
    np.testing.assert_allclose(nested[0][0], tanh(X, Y), 1e-5)
    np.testing.assert_allclose(nested[0][1][0], tanh(tanh(X, Y), Y), 1e-5)


async def test_a_program_takes_no_steps_after_run(client: AnyClient) -> None:
    """Not after one that failed, either; it runs again."""
    program = client.program()
    handle, wrong = program.tanh_backward(X, Y), program.tanh_backward(X, Y[0])
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^step 1 "):
        await maybe_await(program.run(wrong))
    for _ in range(2):
        told = r"gets a step \(tanh_backward\), and has run; make a new program, and give it what run\(\) returned"
        with pytest.raises(aclgrad.InvalidFieldError, match=told):
            program.tanh_backward(handle, X)
        [found] = await maybe_await(program.run(handle))
        np.testing.assert_allclose(found, tanh(X, Y), 1e-5)
    assert len(program) == 2


REFUSED: dict[str, Callable[[Any], Any]] = {
    "text": lambda program: program.tanh_backward(np.array(["a"]), X),
    "no array": lambda program: program.tanh_backward(X, object()),
    "a name": lambda program: program.execute("tanh_backward", {"grad_output": X, 3: X}),
    "an attribute": lambda program: program.execute("tanh_backward", {"grad_output": X, "output": X}, {"a": 2**70}),
    "no such operator": lambda program: program.execute("no_such", {"a": X}),
    "no text": lambda program: program.execute(7, {"a": X}),
    "nothing follows": lambda program: program.execute("tanh_backward", {"grad_output": X}),
    "no input": lambda program: program.execute("tanh_backward", {}),
    "outputs": lambda program: program.execute("tanh_backward", {"grad_output": X, "output": X}, outputs=["no_such"]),
    "a time limit": lambda program: program.tanh_backward(X, X, timeout_s=1),
    "out of another shape": lambda program: program.tanh_backward(X, X, out=np.empty(3, np.float32)),
    "out of another dtype": lambda program: program.tanh_backward(X, X, out=np.empty(X.shape)),
    "read-only out": lambda program: program.tanh_backward(X, X, out=np.broadcast_to(np.float32(0), X.shape)),
    "out over an input": lambda program: (lambda x: program.tanh_backward(x, X, out=x))(X.copy()),
    "out over a view": lambda program: (lambda x: program.tanh_backward(x[:4], X, out=x[1:]))(np.zeros((5, 6), "f4")),
    "all shapes": lambda program: program.adaptive_avg_pool2d_backward((1, 2, 2), (1, 4, 4)),
}


@pytest.mark.parametrize("add", REFUSED.values(), ids=REFUSED)
async def test_a_step_that_is_refused_is_not_added(client: AnyClient, add: Callable[[Any], Any]) -> None:
    program = client.program()
    first = program.tanh_backward(X, Y)
    with pytest.raises(aclgrad.AclgradError):
        add(program)
    second = program.tanh_backward(first, X)
    assert (len(program), second.step) == (2, 1)
    [found] = await maybe_await(program.run(second))
    np.testing.assert_allclose(found, tanh(tanh(X, Y), X), 1e-5)


@pytest.mark.parametrize("name", [["grad_bias"], {}, X, None, 3, b"grad_bias"], ids=lambda each: type(each).__name__)
async def test_an_output_without_a_name(client: AnyClient, name: Any) -> None:
    ones = np.ones((4, 1), np.float32)
    for caller in (client, client.program(), client.batch()):
        with pytest.raises(aclgrad.InvalidFieldError, match=r"^outputs has the name"):
            await maybe_await(caller.layer_norm_backward(X, X, ones, ones, 6, outputs=[name]))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
async def test_out_is_where_an_output_goes_when_it_is_returned(client: AnyClient, dtype: Any) -> None:
    """In each run anew; views of it are arrays of their own, and a run that wants others leaves it alone."""
    x, y = X.astype(dtype), Y.astype(dtype)
    expected = await maybe_await(client.tanh_backward(x, y))
    arrays = [np.zeros(X.shape, dtype), np.zeros((4, 12), dtype)[:, ::2], np.zeros((6, 4), dtype).T]
    outs: list[tuple[Any, Any]] = [(each, each) for each in arrays]
    if dtype is np.float32:
        array = np.zeros(X.shape, dtype)
        outs += [(ByDlpack(array), array), (memoryview(array), array)]
    for out, array in outs:
        program = client.program()
        given = program.tanh_backward(x, y, out=out)
        later = program.tanh_backward(given, x)
        for wanted in (later, given, given.T, given):
            array[...] = 0
            [found] = await maybe_await(program.run(wanted))
            is_out = wanted is given
            assert (found is out) is is_out
            np.testing.assert_array_equal(array, expected if wanted is not later else 0 * x)
            if wanted is not later and not is_out:
                np.testing.assert_array_equal(found, expected.T)
                assert not np.may_share_memory(found, array)


async def test_out_of_several_outputs(client: AnyClient) -> None:
    """Only what is returned is written."""
    program = client.program()
    ones = np.ones((4, 1), np.float32)
    grad_input, grad_bias = np.zeros((4, 6), np.float32), np.zeros(6, np.float32)
    grads = program.layer_norm_backward(Y, X, 0 * ones, ones, 6, out=(grad_input, None, grad_bias))
    [found] = await maybe_await(program.run(grads.grad_bias))
    assert found is grad_bias
    np.testing.assert_allclose(grad_bias, Y.sum(0), 1e-4)
    assert not grad_input.any()
    [whole] = await maybe_await(program.run(grads))
    assert whole.grad_input is grad_input
    assert whole.grad_bias is grad_bias
    np.testing.assert_allclose(whole.grad_weight, (Y * X).sum(0), 1e-4, 1e-5)
    assert grad_input.any()
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^out\[grad_input\] is for an output that is not wanted"):
        client.program().layer_norm_backward(
            Y, X, 0 * ones, ones, 6, out=(grad_input, None, grad_bias), outputs=["grad_bias"]
        )
