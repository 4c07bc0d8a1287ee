"""Products of matrices and vectors, and layers of products, under all their names.

They are decomposed into PyTorch's own products, so that results and saved tensors are the same.
"""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.torch._account import LocalError
from aclgrad.torch._gemm import HOOKED, gemm, has_hooks
from aclgrad.torch._operations import without_autocast
from aclgrad.torch._run import cast_alike


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, client: Client) -> Tensor:
    """Returns `input @ weight.T + bias`, as `torch.nn.functional.linear`.

    One call has the gradients of all three, and they have derivatives of any order. Raises InvalidFieldError if the
    server's product cannot compute it.
    """
    input, weight, bias = cast_alike(functional.linear, input, weight, bias)
    if weight.dim() != 2 or not input.dim():
        if bias is not None:
            raise LocalError("PyTorch takes no bias with a weight that is a vector")
        return _matmul(input, weight.t(), client=client, function="linear")
    if bias is None:
        return _matmul(input, weight.t(), client=client, function="linear")
    if input.dim() == 2:
        return gemm("addmm", client, input, weight.t(), bias, function="linear")
    is_fused = input.is_contiguous()
    if is_fused or _is_folded(input, weight.t()):
        form, operands = "addmm" if is_fused else "mm_add", (_rows(input), weight.t())
    else:
        form, operands = "bmm_add", _batches(input, weight.t(), input.shape[:-2])
    result = gemm(form, client, *operands, bias, function="linear")
    return result.view(*input.shape[:-1], result.shape[-1])


def matmul(input: Tensor, other: Tensor, *, client: Client) -> Tensor:
    """Multiplies matrices, vectors, or batches of matrices that broadcast, as `torch.matmul` and the operator `@`.

    As `linear`.
    """
    return _matmul(*cast_alike(torch.matmul, input, other), client=client)


def mm(input: Tensor, mat2: Tensor, *, client: Client) -> Tensor:
    """Multiplies two matrices, as `torch.mm`. As `linear`."""
    return gemm("mm", client, input, mat2, function="mm")


def bmm(input: Tensor, mat2: Tensor, *, client: Client) -> Tensor:
    """Multiplies the matrices of two batches (B, N, M) and (B, M, P), as `torch.bmm`. As `linear`."""
    return gemm("bmm", client, input, mat2, function="bmm")


def mv(input: Tensor, vec: Tensor, *, client: Client) -> Tensor:
    """Multiplies a matrix and a vector, as `torch.mv`. As `linear`."""
    return gemm("mv", client, input, vec, function="mv")


def dot(input: Tensor, tensor: Tensor, *, client: Client) -> Tensor:
    """Multiplies two vectors, as `torch.dot`. As `linear`."""
    return gemm("dot", client, input, tensor, function="dot")


def outer(input: Tensor, vec2: Tensor, *, client: Client) -> Tensor:
    """Returns the products of all elements of two vectors, as `torch.outer`. As `linear`."""
    if input.dim() != 1 or vec2.dim() != 1:
        raise LocalError("PyTorch refuses what are not vectors")
    return gemm("outer", client, input.reshape(-1, 1), vec2, function="outer")


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, client: Client) -> Tensor:
    """Returns `beta * input + alpha * (mat1 @ mat2)`, as `torch.addmm`. As `linear`."""
    return _added("addmm", input, mat1, mat2, beta, alpha, client)


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, client: Client
) -> Tensor:
    """Returns `beta * input + alpha * bmm(batch1, batch2)`, as `torch.baddbmm`. As `linear`."""
    return _added("baddbmm", input, batch1, batch2, beta, alpha, client)


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, client: Client
) -> Tensor:
    """Returns `beta * input + alpha * bmm(batch1, batch2).sum(0)`, as `torch.addbmm`. As `linear`."""
    return _added("addbmm", input, batch1, batch2, beta, alpha, client)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None, *, client: Client) -> Tensor:
    """Returns `input1 @ weight[k] @ input2 + bias[k]` for each k, as `torch.nn.functional.bilinear`.

    Two calls have the gradients. As `linear`, but that sums are in another order than PyTorch's.
    """
    input1, input2, weight, bias = cast_alike(functional.bilinear, input1, input2, weight, bias)
    sizes = input1.shape[-1:] + input2.shape[-1:]
    if weight.dim() != 3 or input1.shape[:-1] != input2.shape[:-1] or weight.shape[1:] != sizes:
        raise LocalError("PyTorch refuses inputs that do not have the sizes of the weight")
    if has_hooks():
        raise LocalError(HOOKED)
    if input1.numel() * input2.shape[-1] * input1.element_size() > _MOST_BYTES:
        raise LocalError(f"the products of all elements would take more than {_MOST_BYTES >> 20} MiB")
    one, other = (each.reshape(-1, each.shape[-1]) for each in (input1, input2))
    # The dtype of the whole.
    with without_autocast(input1.device.type):
        pairs = gemm("bmm", client, one.unsqueeze(2), other.unsqueeze(1), function="bilinear").flatten(1)
        matrix = weight.flatten(1).t()
        result = gemm("mm" if bias is None else "addmm", client, pairs, matrix, bias, function="bilinear")
    return result.view(*input1.shape[:-1], weight.shape[0])


def _added(form: str, input: Tensor, mat1: Tensor, mat2: Tensor, beta: float, alpha: float, client: Client) -> Tensor:
    return gemm(form, client, mat1, mat2, input, beta, alpha, function=form)


def _matmul(input: Tensor, other: Tensor, *, client: Client, function: str = "matmul") -> Tensor:
    ranks = input.dim(), other.dim()
    if 0 in ranks:
        raise LocalError("PyTorch refuses scalars")
    if max(ranks) > _MOST_AXES:
        raise LocalError(f"the operator takes {_MOST_AXES} axes at most")
    if max(ranks) < 3:
        row = input.unsqueeze(0) if ranks == (1, 2) else input
        form = {(1, 1): "dot", (2, 1): "mv"}.get(ranks, "mm")
        result = gemm(form, client, row, other, function=function)
        return result.squeeze(0) if ranks == (1, 2) else result
    if min(ranks) < 3 and _is_folded(input, other):
        return _folded(input, other, client, function)
    one, two = (input.unsqueeze(0) if ranks[0] == 1 else input), (other.unsqueeze(1) if ranks[1] == 1 else other)
    try:
        batch = torch.broadcast_shapes(one.shape[:-2], two.shape[:-2])
    except RuntimeError:
        raise LocalError("PyTorch refuses batches that do not broadcast") from None
    if min(ranks) < 3 or one.shape[:-2] == two.shape[:-2] or has_hooks():
        result = gemm("bmm", client, *_batches(one, two, batch), function=function)
        result = result.view(*batch, *result.shape[-2:])
    else:
        result = gemm("matmul", client, one, two, function=function)
    return result.squeeze(-2) if ranks[0] == 1 else result.squeeze(-1) if ranks[1] == 1 else result


def _batches(one: Tensor, two: Tensor, batch: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns the matrices of both in one batch each, the form that PyTorch saves."""
    count = math.prod(batch)
    batches = (each.expand(*batch, *each.shape[-2:]).reshape(count, *each.shape[-2:]) for each in (one, two))
    return next(batches), next(batches)


def _rows(tensor: Tensor) -> Tensor:
    # Not -1, which is undefined for a matrix without columns.
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def _is_folded(input: Tensor, other: Tensor) -> bool:
    """Returns whether PyTorch joins the rows of all batches to one matrix; else it repeats the smaller operand."""
    large, small = (input, other) if input.dim() >= other.dim() else (other.mT, input)
    if small.requires_grad:
        return True
    if input.dim() == 2:
        return False
    sizes, strides = large.shape[:-1], large.stride()[:-1]
    return not large.numel() or all(
        strides[axis] == strides[axis + 1] * sizes[axis + 1] for axis in range(len(sizes) - 1)
    )


def _folded(input: Tensor, other: Tensor, client: Client, function: str) -> Tensor:
    is_first = input.dim() >= other.dim()
    large, small = (input, other) if is_first else (other.mT, input.t())
    result = gemm("mm" if small.dim() == 2 else "mv", client, _rows(large), small, function=function)
    result = result.view(*large.shape[:-1], *small.shape[1:])
    return result if is_first or small.dim() == 1 else result.mT.contiguous()


def _method(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns the function that leaves arguments which only PyTorch takes to it: outputs, dtypes, an older order."""

    # Its parameters name the arguments in reports of a call.
    @wraps(function)
    def call(*args: Any, client: Client, out: Any = None, out_dtype: Any = None, **options: Any) -> Tensor:
        if out is not None or out_dtype is not None or not all(isinstance(each, Tensor | None) for each in args):
            raise LocalError("the operators take tensors alone, and return new ones")
        return function(*args, client=client, **options)

    return call


def _inplace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(function)
    def call(input: Tensor, *args: Any, **options: Any) -> Tensor:
        # Autocast does not change in-place forms.
        with without_autocast(input.device.type):
            result = function(input, *args, **options)
        if result.shape != input.shape:
            raise LocalError("PyTorch refuses a result of another shape than that of its tensor")
        return input.copy_(result)

    return call


def _reversed(input: Tensor, other: Tensor, *, client: Client) -> Tensor:
    return matmul(other, input, client=client)


def _vdot(input: Tensor, other: Tensor, *, client: Client) -> Tensor:
    return gemm("dot", client, input, other, function="vdot")


def _local(*args: Any, client: Client, **options: Any) -> Tensor:
    raise LocalError("it chooses an order of products; write them as `a @ b @ c`, or call einsum")


_MOST_AXES: Final = max(OPERATORS["matmul"].leading_input.ranks)
_MOST_BYTES: Final = 64 << 20
_FUNCTIONS: Final[Sequence[tuple[Callable[..., Tensor], tuple[Any, ...]]]] = (
    (mm, (torch.mm, Tensor.mm)),
    (bmm, (torch.bmm, Tensor.bmm)),
    (mv, (torch.mv, Tensor.mv)),
    (dot, (torch.dot, Tensor.dot)),
    (_vdot, (torch.vdot, Tensor.vdot)),
    (outer, (torch.outer, Tensor.outer, torch.ger, Tensor.ger)),
    (matmul, (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.linalg.matmul)),
    (_reversed, (Tensor.__rmatmul__,)),
    (addmm, (torch.addmm, Tensor.addmm)),
    (baddbmm, (torch.baddbmm, Tensor.baddbmm)),
    (addbmm, (torch.addbmm, Tensor.addbmm)),
    (_inplace(addmm), (Tensor.addmm_,)),
    (_inplace(baddbmm), (Tensor.baddbmm_,)),
    (_inplace(addbmm), (Tensor.addbmm_,)),
)
REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.linear: linear,
    functional.bilinear: bilinear,
    **dict.fromkeys((torch.chain_matmul, torch.linalg.multi_dot), _local),
    **{name: _method(function) for function, names in _FUNCTIONS for name in names},
}
"""Our functions by the functions of PyTorch that they replace."""
