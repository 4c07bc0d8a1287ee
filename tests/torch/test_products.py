"""Products of matrices, by name and in a block: results are PyTorch's to the bit, gradients those of float64."""

from collections.abc import Callable
from itertools import product as combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.backends import opt_einsum
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.products import Product as Card
from aclgrad.torch._account import CallSite
from aclgrad.torch.calls import record_sent_calls
from tools.serving import Server, write_host_config

from .conftest import RecordingClient
from .products import ALL, APART, PRODUCTS, TOLERANCES, Product, close, exact, gradients
from .table import random

ROWS, COLUMNS = random(5, 3, seed=1), random(3, 4, seed=2)


@pytest.mark.parametrize("product", ALL, ids=str)
def test_a_function_takes_a_client(client: RecordingClient, product: Product) -> None:
    leaves, function = product.leaves(), getattr(aclgrad.torch, product.function)
    output, found = gradients(product.bound(function, client=client), leaves)
    assert tuple(client.called) == product.composites
    torch.testing.assert_close(output, product.bound()(*leaves).detach())
    close(found, exact(product, leaves))


def recorded(product: Product, leaves: list[Tensor]) -> tuple[list[Tensor], list[Any]]:
    """Returns output and gradients of PyTorch's function, and what its forward pass saves for them."""
    saved: list[Any] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append((tuple(tensor.shape), tensor.dtype))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output, found = gradients(product.bound(), leaves)
    return [output, *found], saved


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_a_call_in_a_block_saves_what_pytorch_saves(
    client: RecordingClient, product: Product, dtype: torch.dtype
) -> None:
    """So a checkpoint that computes it again outside of the block finds the same tensors."""

    expected, theirs = recorded(product, product.leaves(dtype))
    with aclgrad.torch.remote_backward(client, strict=True):
        (output, *found), mine = recorded(product, product.leaves(dtype))
    assert tuple(client.called) == product.composites
    torch.testing.assert_close(output, expected[0], rtol=0, atol=0)
    assert output.stride() == expected[0].stride()
    assert mine == theirs
    close(found, exact(product, product.leaves(dtype)), dtype)
    if product.composites == ("linear_backward",) and product.function == "linear":
        assert found[1].is_contiguous()


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bi,oij,bj->bo", ((2, 3), (4, 3, 5), (2, 5))),
        ("ij,jk,kl->il", ((5, 3), (3, 4), (4, 2))),
        ("a,ab,cb,c->c", ((3,), (3, 4), (1, 4), (5,))),
        ("...d,dc,b->c...b", ((2, 3), (3, 3), (2,))),
        ("ij,,jk->ki", ((2, 3), (), (3, 4))),
    ],
)
def test_einsum_takes_many_operands_in_the_order_of_pytorch(
    client: RecordingClient, equation: str, shapes: tuple[tuple[int, ...], ...], is_ordered: bool
) -> None:
    product = Product("einsum", shapes, (), (equation,))
    with opt_einsum.flags(enabled=is_ordered and opt_einsum.is_available()):
        expected, theirs = recorded(product, product.leaves())
        with aclgrad.torch.remote_backward(client, strict=True):
            (output, *found), mine = recorded(product, product.leaves())
    torch.testing.assert_close(output, expected[0], rtol=0, atol=0)
    assert output.stride() == expected[0].stride()
    assert mine == theirs
    close(found, exact(product, product.leaves()))
    assert client.called


@pytest.mark.parametrize("product", APART, ids=str)
def test_what_saves_other_tensors_stays_local_where_they_are_counted(client: RecordingClient, product: Product) -> None:
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        _, found = gradients(product.bound(), product.leaves())
    assert {(site.function, site.whose) for site in remote.account.calls} == {(product.function, "remote")}
    close(found, exact(product, product.leaves()))
    with aclgrad.torch.remote_backward(client), saved_tensors_hooks(lambda each: each, lambda each: each):
        _, found = gradients(product.bound(), product.leaves())
    close(found, exact(product, product.leaves()))


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_only_what_is_needed_is_saved_and_computed(client: RecordingClient, product: Product) -> None:
    for needed in combinations([True, False], repeat=len(product.shapes)):
        if not any(needed):
            continue
        leaves = product.leaves(needed=needed)
        _, theirs = recorded(product, leaves)
        with aclgrad.torch.remote_backward(client, strict=True), record_sent_calls() as sent:
            (_, *found), mine = recorded(product, leaves)
        close(found, exact(product, leaves))
        assert mine == theirs
        if product.function != "einsum" or len(product.shapes) == 2:
            assert [len(each.gradients) for each in sent] == [sum(needed)]


ALIASES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str]] = {
    "@": (lambda one, two: one @ two, "matmul"),
    "method": (lambda one, two: one.matmul(two), "matmul"),
    "rmatmul": (lambda one, two: two.__rmatmul__(one), "matmul"),
    "linalg": (torch.linalg.matmul, "matmul"),
    "mm": (lambda one, two: one.mm(mat2=two), "mm"),
    "bmm": (lambda one, two: one[None].bmm(two[None]), "bmm"),
    "mv": (lambda one, two: one.mv(two[:, 0]), "mv"),
    "dot": (lambda one, two: one[0].dot(two[:, 0]), "dot"),
    "vdot": (lambda one, two: torch.vdot(one[0], two[:, 0]), "vdot"),
    "ger": (lambda one, two: torch.ger(one[0], two[:, 0]), "outer"),
    "outer": (lambda one, two: one[0].outer(two[0]), "outer"),
    "addmm": (lambda one, two: one.new_ones(4).addmm(one, two, beta=2), "addmm"),
    "addmm_": (lambda one, two: (one[:, :1] * two[:1]).addmm_(one, two, alpha=2), "addmm"),
    "baddbmm_": (lambda one, two: (one[:, :1] * two[:1])[None].baddbmm_(one[None], two[None]), "baddbmm"),
    "addbmm_": (lambda one, two: (one[:, :1] * two[:1]).addbmm_(one[None], two[None]), "addbmm"),
    "inner": (lambda one, two: torch.inner(one, two.mT), "inner"),
    "tensordot": (lambda one, two: torch.tensordot(one, two, 1), "tensordot"),
    "tensordot of axes": (lambda one, two: torch.tensordot(one, two, ([-1], [0])), "tensordot"),
    "einsum of axes": (lambda one, two: torch.einsum(one, [0, 1], two, [1, 2], [0, 2]), "einsum"),
    "with itself": (lambda one, two: one.mT @ one, "matmul"),
    "squared": (lambda one, two: one[:3] @ one[:3], "matmul"),
}


@pytest.mark.parametrize("name", ALIASES)
def test_other_names_of_products_are_the_servers_too(client: RecordingClient, name: str) -> None:
    function, told = ALIASES[name]
    leaves = [each.clone().requires_grad_() for each in (ROWS, COLUMNS)]

    def step(*tensors: Tensor) -> list[Tensor | None]:
        output = function(*tensors)
        return [output.detach(), *torch.autograd.grad(output.pow(2).sum(), tensors, allow_unused=True)]

    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        found = step(*leaves)
    assert remote.account.calls == {CallSite(told, "", None): 1}
    expected = step(*[each.detach().double().requires_grad_() for each in leaves])
    torch.testing.assert_close(
        found, [None if each is None else each.float() for each in expected], rtol=1e-4, atol=1e-4
    )


LOCAL: dict[str, tuple[Callable[[], Tensor], str, str]] = {
    "float64": (lambda: torch.mm(ROWS.double().requires_grad_(), COLUMNS.double()), "mm", "no product takes float64"),
    "complex": (lambda: ROWS.cfloat().requires_grad_() @ COLUMNS.cfloat(), "matmul", "no product takes complex64"),
    "multi_dot": (
        lambda: torch.linalg.multi_dot([ROWS.clone().requires_grad_(), COLUMNS]),
        "linalg_multi_dot",
        "chooses an or",
    ),
    "chain_matmul": (
        lambda: torch.chain_matmul(ROWS.clone().requires_grad_(), COLUMNS),
        "chain_matmul",
        "chooses an order",
    ),
    "diagonal": (lambda: torch.einsum("ii,ij", ROWS[:3].requires_grad_(), ROWS[:3]), "einsum", "letter twice"),
    "one operand": (lambda: torch.einsum("ij->i", ROWS.clone().requires_grad_()), "einsum", "no product of tensors"),
    "axes of one": (lambda: torch.tensordot(ROWS[:, :1].requires_grad_(), COLUMNS, 1), "tensordot", "one element"),
    "elements": (lambda: torch.einsum("i,j->ji", ROWS[0].requires_grad_(), ROWS[1]), "einsum", "multiplies elements"),
    "sums": (
        lambda: torch.einsum("bi,jc->bc", ROWS.clone().requires_grad_(), COLUMNS),
        "einsum",
        "multiplies elements",
    ),
    "alpha of 0": (
        lambda: torch.addmm(ROWS[:, :1].requires_grad_(), ROWS / 0, COLUMNS, alpha=0),
        "addmm",
        "leave out what is multiplied by 0",
    ),
    "large": (
        lambda: functional.bilinear(
            random(2048, 128).requires_grad_(), random(2048, 128, seed=1), random(1, 128, 128, seed=2)
        ),
        "bilinear",
        "more than 64 MiB",
    ),
    "tiny": (lambda: torch.addmm(ROWS[:, :1].requires_grad_(), ROWS, COLUMNS, alpha=1e-9), "addmm", "do not take beta"),
    "scalars": (lambda: torch.inner(ROWS[0, 0].requires_grad_(), ROWS), "inner", "product of elements"),
    "axes": (lambda: ROWS.expand(1, 1, 1, 1, 1, 5, 3).requires_grad_() @ COLUMNS, "matmul", "6 axes at most"),
}


@pytest.mark.filterwarnings("ignore:.*chain_matmul:UserWarning")
@pytest.mark.parametrize("name", LOCAL)
def test_what_no_operator_computes_stays_local(client: RecordingClient, name: str) -> None:
    function, told, because = LOCAL[name]
    with aclgrad.torch.remote_backward(client) as remote:
        output = function()
    assert [site.function for site in remote.account.calls if because in (site.because or "")] == [told]
    torch.testing.assert_close(output, function(), equal_nan=True)
    assert client.called == []
    with aclgrad.torch.remote_backward(client, strict=True), pytest.raises(aclgrad.InvalidFieldError, match=because):
        function()


def test_pytorchs_own_errors_are_told_in_its_words(client: RecordingClient) -> None:
    leaf = ROWS.clone().requires_grad_()
    for function in (
        lambda: torch.mm(leaf, ROWS),
        lambda: leaf @ ROWS,
        lambda: functional.linear(leaf, COLUMNS),
        lambda: functional.linear(leaf, COLUMNS.mT, random(3)),
        lambda: leaf.expand(2, 5, 3) @ COLUMNS.expand(3, 3, 4),
        lambda: leaf @ COLUMNS.half(),
        lambda: leaf @ torch.tensor(1.0),
        lambda: torch.mm(leaf, COLUMNS, out=torch.empty(5, 4)),
        lambda: functional.bilinear(leaf, ROWS, random(2, 3, 4)),
        lambda: torch.outer(leaf, ROWS),
        lambda: torch.einsum("ij,kl->z", leaf, COLUMNS),
        lambda: leaf.addmm_(ROWS, torch.ones(3, 3)),
        lambda: torch.ones(4).addmm_(leaf, COLUMNS),
        lambda: torch.ones(5, 4).addbmm_(leaf[None], COLUMNS.half()[None]),
        lambda: torch.addmm(leaf, leaf, torch.ones(3, 3), alpha=2j),
        lambda: torch.addmm(leaf, leaf, torch.ones(3, 3), beta=10**30),
        lambda: torch.addmm(leaf, leaf, torch.ones(3, 3), alpha="2"),
        lambda: torch.addmm(leaf, leaf, torch.ones(3, 3), alpha=torch.ones(2)),
        lambda: torch.tensordot(leaf, COLUMNS.half(), 1),
        lambda: torch.tensordot(leaf, COLUMNS, ([3], [0])),
        lambda: torch.inner(leaf, COLUMNS),
        lambda: functional.bilinear(leaf[:, :0], leaf, torch.ones(2, 0, 3)),
    ):
        with pytest.raises((RuntimeError, ValueError, TypeError, IndexError, OverflowError)) as expected:
            function()
        with aclgrad.torch.remote_backward(client), pytest.raises(expected.type) as caught:
            function()
        assert str(caught.value) == str(expected.value)


def test_any_layout_will_do(client: RecordingClient) -> None:
    for rows in (
        random(3, 5, seed=1).mT, random(5, 6, seed=1)[:, ::2], random(1, 3, seed=1).expand(5, 3),
        random(5, 1, seed=1).expand(5, 3), random(5, 3, seed=1).to_sparse().to_dense(),
        torch.view_as_complex(random(5, 3, 2, seed=1)).conj().imag,
    ):  # fmt: skip
        for grad_output in (random(5, 4), random(4, 5).mT, random(1).expand(5, 4)):
            one, two = rows.detach().requires_grad_(), COLUMNS.clone().requires_grad_()
            with aclgrad.torch.remote_backward(client, strict=True):
                found = torch.autograd.grad(one @ two, (one, two), grad_output)
            wide = grad_output.double()
            close(found, (wide @ COLUMNS.double().mT, rows.double().mT @ wide))


def test_an_error_names_function_layer_and_composite(server: Server) -> None:
    network = nn.Sequential(nn.Identity(), nn.Linear(3, 4))
    with aclgrad.Client(server.address) as client, aclgrad.torch.remote_backward(client):
        output = network(ROWS)
    with pytest.raises(aclgrad.CallCancelledError, match=r"the gradient of linear of Sequential\.1: ") as caught:
        output.sum().backward()
    assert caught.value.operator == "linear_backward"


def test_the_rules_are_those_of_the_servers_product(tmp_path: Path) -> None:
    """The product 310P has no bfloat16, and multiplies float32 in float16."""
    config = write_host_config(tmp_path, product=Card.ATLAS_INFERENCE)
    leaf = COLUMNS.clone().requires_grad_()
    with (
        Server("--acl-config", config) as server,
        aclgrad.Client(server.address) as other,
        aclgrad.torch.remote_backward(other) as remote,
    ):
        (found,) = torch.autograd.grad((ROWS @ leaf).sum(), leaf)
        functional.linear(ROWS.bfloat16(), COLUMNS.mT.bfloat16().requires_grad_()).sum().backward()
    reasons = {site.function: site.because for site in remote.account.calls}
    assert reasons["matmul"] is None
    assert "310P" in str(reasons["linear"])
    torch.testing.assert_close(found, ROWS.sum(0)[:, None].expand(3, 4), rtol=1e-2, atol=1e-2)
