"""Composites: definitions by the functions that they are the gradients of, and programs by the definitions."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from aclgrad import composites
from aclgrad.composites.contraction import einsum
from aclgrad.composites.subscripts import Subscripts

Array = np.ndarray[Any, Any]


class InNumpy:
    """Has the steps of einsum computed at once."""

    def batch_mat_mul(self, input: Array, mat2: Array) -> Array:
        return np.matmul(input, mat2)

    def reduce_sum(self, input: Array, dims: tuple[int, ...]) -> Array:
        return np.asarray(input.sum(dims))


EQUATIONS = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)),
    "ij,jk": ((2, 3), (3, 4)),
    "i,i->": ((5,), (5,)),
    "i,j->ij": ((2,), (3,)),
    "ij->ji": ((2, 3),),
    "ij->": ((2, 3),),
    "ijk,jl,kl->il": ((2, 3, 4), (3, 5), (4, 5)),
    "bqhd,bkhd->bhqk": ((2, 3, 4, 5), (2, 6, 4, 5)),
    "...,...->...": ((2, 3), (3,)),
    "a...b,bc...->ac...": ((2, 3, 4), (4, 5, 3)),
    "ab,bc->ac ": ((2, 1), (3, 4)),
    "ab,b->": ((2, 3), (1,)),
    "xa,xb,xc->abc": ((2, 3), (2, 4), (2, 1)),
    "ab,cd->abcd": ((2, 1), (3, 2)),
}
PRODUCTS = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 5, 2, 3), (3,)),
    ((3,), (2, 5, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 1, 3, 4)),
    ((2, 2, 3), (2, 3, 4)),
    ((2, 1, 1, 2, 1, 2, 3), (2, 1, 1, 1, 1, 3, 4)),
    ((3,), (2, 1, 1, 1, 1, 2, 3, 4)),
]


@pytest.fixture(scope="module")
def client() -> Iterator[aclgrad.Client]:
    with aclgrad.testing.serve() as server, aclgrad.Client(server.target) as found:
        yield found


def drawn(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape) + 7 * len(shape)).standard_normal(shape).astype(dtype)


def assert_gradients(forward: Callable[..., Array], operands: list[Array], found: Any) -> None:
    """A function that is linear in each operand maps a direction to a product with the gradient."""
    grad = drawn(*forward(*operands).shape, dtype=np.float64)
    for index, (operand, gradient) in enumerate(zip(operands, found(grad), strict=True)):
        assert gradient.shape == operand.shape
        for seed in range(3):
            direction = np.random.default_rng(seed).standard_normal(operand.shape)
            moved = forward(*operands[:index], direction, *operands[index + 1 :])
            np.testing.assert_allclose((gradient * direction).sum(), (grad * moved).sum(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_the_definition_of_products_is_their_gradient(shapes: Any) -> None:
    operands = [drawn(*shape, dtype=np.float64) for shape in shapes]
    assert_gradients(np.matmul, operands, lambda grad: composites.DEFINITIONS["matmul_backward"](grad, *operands))


@pytest.mark.parametrize("weight", [(4, 3), (3,)])
@pytest.mark.parametrize("batch", [(), (5,), (2, 5)])
def test_the_definition_of_linear_is_its_gradient(batch: tuple[int, ...], weight: tuple[int, ...]) -> None:
    operands = [drawn(*shape, dtype=np.float64) for shape in ((*batch, 3), weight)]
    found = composites.DEFINITIONS["linear_backward"]
    assert_gradients(lambda x, w: np.asarray(x @ w.T), operands, lambda grad: found(grad, *operands)[:2])
    grad = drawn(*batch, *weight[:-1], dtype=np.float64)
    np.testing.assert_allclose(found(grad, *operands)[2], grad.reshape(-1, *weight[:-1]).sum(0))


def explicit(equation: str) -> str:
    return equation.replace(" ", "")


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_and_its_definition_are_numpys(equation: str) -> None:
    operands = [drawn(*shape, dtype=np.float64) for shape in EQUATIONS[equation]]
    subscripts = Subscripts.of(equation, [each.shape for each in operands])

    def forward(*given: Array) -> Array:
        return np.asarray(np.einsum(explicit(equation), *given))

    np.testing.assert_allclose(einsum(InNumpy(), subscripts, operands), forward(*operands), rtol=1e-12)
    found = composites.DEFINITIONS["einsum_backward"]
    assert_gradients(forward, operands, lambda grad: found(equation, grad, *operands))


def assert_near(found: Any, expected: Any) -> None:
    for gradient, truth in zip(found, expected, strict=True):
        assert (gradient.shape, gradient.dtype) == (truth.shape, np.float32)
        np.testing.assert_allclose(gradient, truth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
@pytest.mark.parametrize("lay", [np.ascontiguousarray, np.asfortranarray])
def test_gradients_of_products(client: aclgrad.Client, shapes: Any, lay: Callable[[Array], Array]) -> None:
    one, two = (lay(drawn(*shape)) for shape in shapes)
    grad = drawn(*np.matmul(one, two).shape)
    program = client.program()
    found = program.run(*composites.matmul_backward(program, grad, one, two))
    assert_near(found, composites.DEFINITIONS["matmul_backward"](grad, one, two))


@pytest.mark.parametrize("shape", [(2, 4), (4,), (2, 1), (1,), ()])
@pytest.mark.parametrize(("beta", "alpha"), [(1.0, 1.0), (0.5, -2.0), (0.0, 0.0)])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_gradients_of_products_with_an_addend(
    client: aclgrad.Client, shape: tuple[int, ...], beta: float, alpha: float, batch: tuple[int, ...]
) -> None:
    one, two, grad = drawn(*batch, 2, 5), drawn(*batch, 5, 4), drawn(*batch, 2, 4)
    program = client.program()
    found = composites.addmm_backward(program, grad, shape, one, two, beta=beta, alpha=alpha)
    assert_near(program.run(*found), composites.DEFINITIONS["addmm_backward"](grad, shape, one, two, beta, alpha))


@pytest.mark.parametrize("equation", EQUATIONS)
def test_gradients_of_einsum(client: aclgrad.Client, equation: str) -> None:
    operands = [drawn(*shape) for shape in EQUATIONS[equation]]
    grad = drawn(*np.einsum(explicit(equation), *operands).shape)
    program = client.program()
    found = program.run(*composites.einsum_backward(program, equation, grad, *operands))
    assert_near(found, composites.DEFINITIONS["einsum_backward"](equation, grad, *operands))


def test_what_is_not_wanted_has_no_step(client: aclgrad.Client) -> None:
    program = client.program()
    found = composites.linear_backward(program, drawn(2, 4), drawn(2, 3), drawn(4, 3), wanted=(False, True, False))
    assert (found.grad_input, found.grad_bias, len(program)) == (None, None, 1)
    (of_weight,) = program.run(found.grad_weight)
    np.testing.assert_allclose(of_weight, drawn(2, 4).T @ drawn(2, 3), rtol=1e-5, atol=1e-6)


def test_each_operand_travels_once(client: aclgrad.Client) -> None:
    """Its transposed view lies over the same bytes."""
    grad, input, weight = drawn(50, 4, 40), drawn(50, 4, 30), drawn(40, 30)
    program = client.program()
    found = composites.linear_backward(program, grad, input, weight)
    program.run(*found)
    total = sum(each.nbytes for each in (grad, input, weight)) / 1024
    assert f"{total:.3g} KiB to the server" in str(program)


def test_operands_may_be_outputs_of_the_program_in_any_view(client: aclgrad.Client) -> None:
    """Where there is no view of a shape, the server makes a copy."""
    values, weight = drawn(3, 2, 4), drawn(5, 4)
    program = client.program()
    made = program.tanh_backward(values, np.zeros_like(values)).transpose(1, 0, 2)
    grad = program.tanh_backward(drawn(2, 3, 5), np.zeros((2, 3, 5), np.float32))
    found = program.run(*composites.linear_backward(program, grad, made, weight))
    assert_near(found, composites.DEFINITIONS["linear_backward"](drawn(2, 3, 5), values.transpose(1, 0, 2), weight))


@pytest.mark.parametrize(
    ("function", "arguments", "problem"),
    [
        (composites.matmul_backward, ((2, 4), (2, 3), (5, 4)), "other is (5, 4), which does not multiply (2, 3)"),
        (composites.matmul_backward, ((2, 5), (2, 3), (3, 4)), "grad_output is (2, 5); give (2, 4)"),
        (composites.matmul_backward, ((), (2, 3), ()), "other has 0 axes; give at least 1"),
        (composites.bmm_backward, ((2, 4), (2, 3), (3, 4)), "input has 2 axes; give 3"),
        (composites.linear_backward, ((2, 4), (2, 3), (4, 5)), "weight is (4, 5); give (out, 3), or (3,)"),
        (composites.linear_backward, ((2, 5), (2, 3), (4, 3)), "grad_output is (2, 5); give (2, 4)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    client: aclgrad.Client, function: Any, arguments: tuple[tuple[int, ...], ...], problem: str
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        function(client.program(), *(drawn(*shape) for shape in arguments))
    assert problem in str(caught.value)


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (1, 1), (2,), (2, 4, 1)])
def test_a_gradient_of_another_shape_than_the_result_is_refused(client: aclgrad.Client, shape: tuple[int, ...]) -> None:
    for made in (
        lambda program: composites.einsum_backward(program, "ij,jk->ik", drawn(*shape), drawn(2, 3), drawn(3, 4)),
        lambda program: composites.addmm_backward(program, drawn(*shape), (4,), drawn(2, 3), drawn(3, 4)),
    ):
        with pytest.raises(aclgrad.InvalidFieldError, match=r"grad_output is .*; give \(2, 4\)"):
            made(client.program())


@pytest.mark.parametrize("wanted", [(), (True,), (True,) * 4])
def test_what_is_wanted_is_said_of_each_gradient(client: aclgrad.Client, wanted: tuple[bool, ...]) -> None:
    one, two, grad = drawn(2, 3), drawn(3, 4), drawn(2, 4)
    for function, arguments in (
        (composites.matmul_backward, (grad, one, two)),
        (composites.linear_backward, (grad, one, two.T)),
        (composites.addmm_backward, (grad, (4,), one, two)),
        (composites.einsum_backward, ("ij,jk->ik", grad, one, two)),
    ):
        with pytest.raises(aclgrad.InvalidFieldError, match=r"wanted has . values; give ., one for each gradient"):
            function(client.program(), *arguments, wanted=wanted)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("equation", "problem"),
    [
        ("ij->i", "has 1 operands, and there are 2"),
        ("ij,jk->iz", "has 'iz', whose letters are not each once among the operands'"),
        ("ij,jk->ii", "has 'ii'"),
        ("i1,jk->ik", "has 'i1', which is not made of letters"),
        ("ijx,jk->ik", "has 'ijx' for operand 0, of shape (2, 3)"),
        ("i,jk->ik", "has 'i' for operand 0, of shape (2, 3)"),
        ("ij,kj->ik", "has 'j' for sizes of 3 and 4"),
        ("ii,jk->ik", "has 'i' twice in an operand, for sizes of 2 and 3"),
    ],
)
def test_equations_that_do_not_fit_are_refused(client: aclgrad.Client, equation: str, problem: str) -> None:
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        composites.einsum_backward(client.program(), equation, drawn(2, 4), drawn(2, 3), drawn(3, 4))
    assert problem in str(caught.value)
    with pytest.raises(aclgrad.InvalidFieldError, match="twice in an operand; take the diagonal before"):
        composites.einsum_backward(client.program(), "ii->i", drawn(3), drawn(3, 3))
