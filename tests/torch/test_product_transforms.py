"""Products of matrices in transforms: derivatives of any order, vmap, torch.compile and autocast."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import product as combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aclgrad
import aclgrad.torch
from aclgrad.torch._tensors import number_of

from .conftest import RecordingClient
from .products import APART, EMPTY, PRODUCTS, Product, close, exact, gradients
from .table import random

ROWS, COLUMNS = random(5, 3, seed=1), random(3, 4, seed=2)


@pytest.mark.parametrize("product", [*PRODUCTS, *APART], ids=str)
def test_derivatives_of_any_order_come_from_the_server(client: RecordingClient, product: Product) -> None:
    def third(leaves: list[Tensor]) -> list[Tensor]:
        value = product.bound()(*leaves).pow(3).sum() / 100
        found: list[Tensor] = []
        for _ in range(3):
            each = torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
            found.extend(gradient.detach() for gradient in each)
            value = sum(gradient.square().sum() for gradient in each) / 100
        return found

    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        found = third(product.leaves())
    expected = third([each.detach().double().requires_grad_() for each in product.leaves()])
    torch.testing.assert_close(found, [each.float() for each in expected], rtol=1e-3, atol=1e-4)
    assert f"{product.function}_backward" in {site.function for site in remote.account.calls}


@pytest.mark.parametrize("product", [*PRODUCTS, *APART], ids=str)
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("mapped", ["first", "last", "all"])
def test_gradients_of_each_sample_are_one_call(client: RecordingClient, product: Product, mapped: str) -> None:
    count = len(product.shapes)
    dims: list[int | None] = [0 if mapped == "all" else None] * count
    dims[0 if mapped == "first" else -1] = 0
    leaves = [each.detach() for each in product.leaves()]
    given = [
        each if dim is None else torch.stack([each, each * 2, each - 1]) for each, dim in zip(leaves, dims, strict=True)
    ]

    def of_samples(function: Callable[..., Tensor], tensors: list[Tensor]) -> Any:
        each = torch.func.grad(lambda *every: function(*every).pow(2).sum(), tuple(range(count)))
        return torch.vmap(each, tuple(dims))(*tensors)

    function = product.bound(partial(getattr(aclgrad.torch, product.function), client=client))
    found = of_samples(function, given)
    expected = of_samples(product.bound(), [each.double() for each in given])
    assert len(client.called) == len(product.composites)
    torch.testing.assert_close(found, tuple(each.float() for each in expected), rtol=1e-4, atol=1e-4)


def test_jacobians_and_hessians(client: RecordingClient) -> None:
    def loss(weight: Tensor) -> Tensor:
        return (ROWS.to(weight.dtype) @ weight).pow(3).sum()

    jacobian = torch.func.jacrev(torch.func.grad(loss))
    expected = jacobian(COLUMNS.double())
    for vectorized in (False, True):
        hessian = partial(torch.autograd.functional.hessian, vectorize=vectorized)
        with aclgrad.torch.remote_backward(client, strict=True):
            torch.testing.assert_close(hessian(loss, COLUMNS).double(), expected, rtol=1e-4, atol=1e-4)
    with aclgrad.torch.remote_backward(client, strict=True):
        torch.testing.assert_close(jacobian(COLUMNS).double(), expected, rtol=1e-4, atol=1e-4)
    assert client.called


@pytest.mark.parametrize("product", [*PRODUCTS, *EMPTY], ids=str)
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_calls_in_a_compiled_function(client: RecordingClient, product: Product) -> None:
    compiled = torch.compile(product.bound(), backend="aot_eager", fullgraph=True)
    leaves = product.leaves()
    with aclgrad.torch.remote_backward(client, strict=True) as block:
        output, found = gradients(compiled, leaves)
    assert {(site.function, site.whose) for site in block.account.calls} == {(product.function, "remote")}
    assert tuple(client.called) == product.composites
    torch.testing.assert_close(output, product.bound()(*leaves).detach())
    close(found, exact(product, leaves))


def test_the_operators_pass_opcheck(client: RecordingClient) -> None:
    number, tests = number_of(client), ("test_schema", "test_faketensor")
    for columns in (COLUMNS, random(4, 3).mT):
        forward = "addmm", ROWS, columns, random(4), 1.0, 1.0, "addmm", number
        torch.library.opcheck(torch.ops.aclgrad.gemm, forward, test_utils=tests)
        for wanted in ([True, True, True], [False, True, False]):
            rest = [4], 1.0, 1.0, columns is not COLUMNS, wanted, "addmm", number
            torch.library.opcheck(
                torch.ops.aclgrad.gemm_backward, (random(5, 4), ROWS, columns, *rest), test_utils=tests
            )


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_autocast_is_pytorchs(client: RecordingClient, product: Product, half: torch.dtype) -> None:
    for dtypes in combinations((torch.float32, half, torch.float64), repeat=2):
        leaves = [each.detach().to(dtypes[index > 0]).requires_grad_() for index, each in enumerate(product.leaves())]
        found = []
        for block in (nullcontext(), aclgrad.torch.remote_backward(client)):
            with torch.autocast("cpu", half), block:
                found.append(outcome(product, leaves))
        expected, mine = found
        if isinstance(expected, str):
            assert mine == expected
            continue
        torch.testing.assert_close(mine[0], expected[0], rtol=0, atol=0)
        torch.testing.assert_close(mine[1], expected[1], rtol=5e-2, atol=5e-2)
    assert client.called


WHOLE: dict[str, Callable[..., Tensor]] = {
    "elements": lambda one, two: torch.einsum("ij,kj->ijk", one, two),
    "a pair of elements": lambda one, two: torch.einsum("ij,ij,kj->k", one, one, two),
    "three operands": lambda one, two: torch.einsum("ij,kj,kl->il", one, two, two),
    "one row": lambda one, two: torch.einsum("ij,j->i", one[:1], two[0]),
    "inner": torch.inner,
    "inner of one row": lambda one, two: torch.inner(one[:1], two[0]),
    "tensordot": lambda one, two: torch.tensordot(one, two, ([1], [1])),
    "tensordot of one row": lambda one, two: torch.tensordot(one[:1], two[:1].mT, 1),
    "addmm_": lambda one, two: (one[:, :1] * two[:1, :1].mT).expand(5, 4).clone().addmm_(one, two.mT),
    "baddbmm_": lambda one, two: one.new_ones(1, 5, 4).baddbmm_(one[None], two.mT[None]),
    "addbmm_": lambda one, two: one.new_ones(5, 4).addbmm_(one[None], two.mT[None], alpha=2),
}


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", WHOLE)
def test_autocast_of_what_is_made_of_products_is_pytorchs(
    client: RecordingClient, name: str, half: torch.dtype
) -> None:
    for dtypes in combinations((torch.float32, half), repeat=2):
        leaves = [each.to(dtype) * 300 for each, dtype in zip((ROWS, COLUMNS.mT), dtypes, strict=True)]
        found: list[Any] = []
        for block in (nullcontext(), aclgrad.torch.remote_backward(client)):
            with torch.autocast("cpu", half), block:
                try:
                    found.append(WHOLE[name](leaves[0].requires_grad_(), leaves[1]).detach())
                except RuntimeError as error:
                    found.append(str(error))
        expected, mine = found
        if isinstance(expected, str):
            assert mine == expected
        else:
            torch.testing.assert_close(mine, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_autocast_gives_bilinear_the_dtype_of_the_whole(client: RecordingClient, half: torch.dtype) -> None:
    product = APART[1]
    leaves = [(each * 100).detach().requires_grad_() for each in product.leaves()]
    with torch.autocast("cpu", half), aclgrad.torch.remote_backward(client, strict=True):
        output, found = gradients(product.bound(), leaves)
        assert output.dtype == product.bound()(*leaves).dtype
    close([each / 1e4 for each in found[:2]], [each / 1e4 for each in exact(product, leaves)[:2]])
    assert client.called


def outcome(product: Product, leaves: list[Tensor]) -> Any:
    """Returns output and gradients, or the text of the error."""
    try:
        return gradients(product.bound(), leaves)
    except RuntimeError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_sizes_may_change_between_calls_of_a_compiled_layer(client: RecordingClient) -> None:
    layer = nn.Linear(3, 4)
    compiled = torch.compile(layer, dynamic=True, backend="aot_eager", fullgraph=True)
    for rows in (5, 7):
        layer.zero_grad()
        with aclgrad.torch.remote_backward(client, strict=True):
            compiled(random(2, rows, 3)).pow(2).sum().backward()
        found = [each.grad.clone() for each in layer.parameters()]
        layer.zero_grad()
        layer(random(2, rows, 3)).pow(2).sum().backward()
        close(found, [each.grad for each in layer.parameters()])
    assert client.called == ["linear_backward"] * 2
