"""Matrix products through a server: what broadcasts, what is empty, what is not finite, and what is too much."""

from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
import aclgrad.composites
from aclgrad.sources import in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View, view_of_array
from aclgrad.wire.messages import OperatorCall
from tests.e2e.fault_plans import write_config
from tools.raw_calls import error_of, execute, open_channel
from tools.serving import Server

Array = np.ndarray[Any, Any]
NAN, INF = np.float32(np.nan), np.float32(np.inf)


def drawn(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_what_is_not_finite_spreads_as_arithmetic_has_it(shared_server: Server) -> None:
    """0 times infinity is not a number, and no zero is skipped; a factor of 0 leaves its part out."""
    one, two = drawn(3, 70), drawn(70, 40)
    one[0, 5], one[1, :], two[7, 2], two[9, 3] = INF, 0, NAN, INF
    with np.errstate(invalid="ignore"):
        expected = one.astype(np.float64) @ two.astype(np.float64)
    with aclgrad.Client(shared_server.address) as client:
        found = client.mm(one, two)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
        assert np.isnan(found[1, 3]), "0 times infinity"
        addend = np.full((3, 40), NAN)
        assert np.isfinite(client.addmm(addend, drawn(3, 70), drawn(70, 40), beta=0.0)).all()
        np.testing.assert_array_equal(client.addmm(drawn(3, 40), one, two, alpha=0.0), drawn(3, 40))
        assert np.isnan(client.reduce_sum(one, (0,))[5]) == np.isnan(one.sum(0)[5])


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", ((0, 3), (3, 4))),
        ("mm", ((3, 0), (0, 4))),
        ("mm", ((3, 4), (4, 0))),
        ("mm", ((0, 0), (0, 0))),
        ("batch_mat_mul", ((0, 2, 3), (0, 3, 4))),
        ("batch_mat_mul", ((1, 2, 0), (5, 0, 4))),
        ("batch_mat_mul", ((5, 2, 0), (1, 0, 4))),
        ("matmul", ((0,), (0,))),
        ("matmul", ((0,), (0, 4))),
        ("matmul", ((2, 1, 3, 0), (5, 0, 4))),
        ("matmul", ((0, 1, 3, 2), (5, 2, 4))),
    ],
    ids=str,
)
def test_sums_of_nothing_are_zeros(shared_server: Server, name: str, shapes: Any) -> None:
    one, two = (np.full(shape, NAN) for shape in shapes)
    with aclgrad.Client(shared_server.address) as client:
        found = client.execute(name, {"self": one, "mat2": two})
    np.testing.assert_array_equal(found, np.zeros(np.matmul(one, two).shape, np.float32))


def test_of_a_product_of_nothing_the_addend_is_left(shared_server: Server) -> None:
    nothing = np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)
    with aclgrad.Client(shared_server.address) as client:
        for addend in (drawn(3, 4), drawn(4), drawn(3, 1), drawn(1)):
            found = client.addmm(addend, *nothing, beta=-2.5, alpha=3.0)
            np.testing.assert_array_equal(found, np.broadcast_to(np.float32(-2.5) * addend, (3, 4)))
        np.testing.assert_array_equal(client.addmm(np.full(4, NAN), *nothing, beta=0.0), np.zeros((3, 4)))
        assert client.addmm(drawn(1), np.zeros((0, 3), np.float32), drawn(3, 4)).shape == (0, 4)
        assert client.reduce_sum(np.zeros((3, 0), np.float32), (1,)).tolist() == [0, 0, 0]


def test_nothing_may_be_a_view_of_something(shared_server: Server) -> None:
    values = drawn(3, 4)
    with aclgrad.Client(shared_server.address) as client:
        program = client.program()
        made = program.tanh_backward(values, np.zeros_like(values))
        (found,) = program.run(program.addmm(values, made[:, :0], made[:0], beta=2.0))
        np.testing.assert_array_equal(found, 2 * values)
        np.testing.assert_array_equal(client.addmm(values, values[:, :0], values[:0], beta=2.0), 2 * values)
    nothing = view_of("mat1", (3, 0), (4, 1), 12), view_of("mat2", (0, 4), (4, 1), 12)
    with open_channel(shared_server) as channel:
        found = execute(channel, OperatorCall("addmm", (view_of_array("self", values), *nothing), {"beta": 2.0}))
    assert found == (2 * values).tobytes()


def test_a_million_tiny_products(shared_server: Server) -> None:
    one, two = (np.random.default_rng(seed).standard_normal((10**6, 2, 2), np.float32) for seed in (1, 2))
    with aclgrad.Client(shared_server.address) as client:
        found = client.batch_mat_mul(one, two)
    np.testing.assert_allclose(found, np.einsum("bij,bjk->bik", one, two), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(67, 129, 35), (67, 1, 35), (1, 129, 35), (67, 129, 1), (1, 1000, 1)], ids=str)
def test_operands_may_lie_in_any_order(shared_server: Server, sizes: tuple[int, int, int]) -> None:
    """Sums of matrices have one order; those of vectors follow the memory."""
    rows, terms, columns = sizes
    one, two = drawn(rows, terms), drawn(terms, columns)
    with aclgrad.Client(shared_server.address) as client:
        results = [client.mm(left, right) for left in both_orders(one) for right in both_orders(two)]
    for found in results:
        np.testing.assert_allclose(found, one.astype(np.float64) @ two, rtol=1e-5, atol=1e-4)
        assert min(rows, columns) == 1 or found.tobytes() == results[0].tobytes()


def both_orders(matrix: Array) -> list[Array]:
    return [matrix, np.asfortranarray(matrix)]


def view_of(name: str, shape: tuple[int, ...], strides: tuple[int, ...], count: int = 1) -> TensorView:
    data = np.zeros(count, np.float32).view(np.uint8).data
    return TensorView(name, TensorType(DTYPES["float32"], shape), in_message(data), View(0, strides))


@pytest.mark.parametrize(
    ("shapes", "strides", "kind", "problem"),
    [
        (((20000, 20000), (20000, 20000)), ((0, 0), (0, 0)), aclgrad.LimitExceededError, "operations of"),
        (((2**31, 0), (0, 2**33)), ((0, 0), (0, 0)), aclgrad.LimitExceededError, "whose size overflows 64 bits"),
        (((2, 2), (2, 2)), ((-2, 1), (0, 0)), aclgrad.InvalidFieldError, "of which one is negative; send a copy"),
        (((2, 2), (2, 2)), ((2, 1), (0, 0)), aclgrad.InvalidFieldError, "ends at element 4, and the bytes hold 1"),
    ],
)
def test_few_bytes_make_no_work_without_bounds(
    shared_server: Server, shapes: Any, strides: Any, kind: type[Exception], problem: str
) -> None:
    inputs = tuple(view_of(*each) for each in zip(("self", "mat2"), shapes, strides, strict=True))
    with open_channel(shared_server) as channel, pytest.raises(grpc.RpcError) as caught:
        execute(channel, OperatorCall("mm", inputs, {}))
    error = error_of(caught.value)
    assert isinstance(error, kind)
    assert problem in str(error)


def test_a_product_that_multiplies_in_float16_says_so(tmp_path: Path) -> None:
    config = write_config(tmp_path, strict=False, product="310P")
    with Server("--acl-config", config) as server, aclgrad.Client(server.address) as client:
        one, two = drawn(5, 7), drawn(7, 3)
        np.testing.assert_allclose(client.mm(one, two), one @ two, rtol=1e-2, atol=1e-2)
        with pytest.raises(aclgrad.InvalidFieldError, match="product 310P multiplies float32 in FLOAT16 alone"):
            client.mm(one, two, cube_math_type=0)
        described = {each.name: each for each in client.list_operators()}["mm"]
        (mode,) = described.attributes
        assert "but 1 on 310P and 910A" in mode.summary
        assert client.mm(one.astype(np.float16), two.astype(np.float16), cube_math_type=0).dtype == np.float16


def test_the_gradients_of_a_layer_take_one_message(shared_server: Server) -> None:
    with aclgrad.Client(shared_server.address) as client:
        x, weight, grad = drawn(4, 50, 64), drawn(32, 64), drawn(4, 50, 32)
        program = client.program()
        found = program.run(*aclgrad.composites.linear_backward(program, grad, x, weight))
        expected = aclgrad.composites.DEFINITIONS["linear_backward"](grad, x, weight)
    for gradient, truth in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, truth, rtol=1e-4, atol=1e-4)
