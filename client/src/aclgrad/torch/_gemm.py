"""Products of matrices and vectors, computed here by PyTorch and differentiated by a server.

A form is one of PyTorch's products, with the same bits and saved tensors. Its gradient is computed of matrices, which
are views of its operands.
"""

import sys
from collections.abc import Callable
from numbers import Real
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import AclgradError
from aclgrad.operators.rules import ZERO
from aclgrad.torch._account import LocalError, served_site
from aclgrad.torch._gemm_backward import Gemm, Shape, composite_of, flops_of, gemm_backward, in_front, is_transposed
from aclgrad.torch._operations import counted_by_node, note_compiled, tell_of, without_autocast
from aclgrad.torch._run import applied, cast_alike
from aclgrad.torch._tensors import client_of, type_of

aten: Final = torch.ops.aten
View = Callable[[Tensor], Tensor]


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _reshaped(tensor: Tensor, shape: Shape) -> Tensor:
    return tensor.reshape(shape)


class Form(NamedTuple):
    """One of PyTorch's products, of mat1 and mat2, an addend or None, beta and alpha.

    `rows` and `columns` are the operands as matrices, `matrix` is the result as a matrix, `squeezed` undoes that, and
    `of_rows` turns a gradient of the rows into mat1's. PyTorch saves mat2 first if it `saves_mat2_first`.
    """

    product: Callable[..., Tensor]
    saves_mat2_first: bool = False
    rows: View = _same
    columns: View = _same
    matrix: View = _same
    squeezed: View = _same
    of_rows: Callable[[Tensor, Shape], Tensor] = _reshaped


def _plain(function: Callable[..., Tensor], **views: Any) -> Form:
    return Form(lambda mat1, mat2, addend, beta, alpha: function(mat1, mat2), **views)


def _added(function: Callable[..., Tensor], **views: Any) -> Form:
    return Form(lambda mat1, mat2, addend, beta, alpha: function(addend, mat1, mat2, beta=beta, alpha=alpha), **views)


def _column(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(-1)


def _row(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(-2)


FORMS: Final = {
    "mm": _plain(aten.mm, saves_mat2_first=True),
    "bmm": _plain(aten.bmm, saves_mat2_first=True),
    "matmul": _plain(aten.matmul, saves_mat2_first=True),
    "outer": _plain(aten.mul, saves_mat2_first=True, columns=_row),
    "mv": _plain(aten.mv, columns=_column, matrix=_column, squeezed=lambda each: each[..., 0]),
    "dot": _plain(
        aten.dot,
        rows=_row,
        columns=_column,
        matrix=lambda each: each[..., None, None],
        squeezed=lambda each: each[..., 0, 0],
    ),
    "addmm": _added(aten.addmm),
    "baddbmm": _added(aten.baddbmm),
    "addbmm": _added(
        aten.addbmm,
        rows=lambda each: each.transpose(-3, -2).flatten(-2),
        columns=lambda each: each.flatten(-3, -2),
        of_rows=lambda each, shape: each.unflatten(-1, (shape[-3], shape[-1])).transpose(-3, -2),
    ),
    # Linear layers whose input is not contiguous.
    "mm_add": Form(lambda mat1, mat2, addend, beta, alpha: aten.mm(mat1, mat2) + addend, saves_mat2_first=True),
    "bmm_add": Form(lambda mat1, mat2, addend, beta, alpha: aten.bmm(mat1, mat2) + addend, saves_mat2_first=True),
}
"""Forms by name; outer takes a column and a vector."""


def _execute(
    form: str, mat1: Tensor, mat2: Tensor, addend: Tensor | None, beta: float, alpha: float, function: str, client: int
) -> Tensor:
    with without_autocast(mat1.device.type):
        output = FORMS[form].product(mat1, mat2, addend, beta, alpha)
    _check(FORMS[form], mat1, mat2, addend, beta, alpha, function, client)
    note_compiled(function, client)
    return output


def _infer(form: str, mat1: Tensor, mat2: Tensor, addend: Tensor | None, beta: float, alpha: float, *_: Any) -> Tensor:
    with without_autocast(mat1.device.type):
        return FORMS[form].product(mat1, mat2, addend, beta, alpha)


def _check(
    form: Form, mat1: Tensor, mat2: Tensor, addend: Tensor | None, beta: float, alpha: float, function: str, client: int
) -> None:
    """Raises InvalidFieldError or OperatorNotSupportedError if the server would refuse the gradient."""
    rows, columns, wanted = form.rows(mat1), form.columns(mat2), (True, True, addend is not None)
    shape = () if addend is None else addend.shape
    name = composite_of(rows, columns, Gemm(shape, beta, alpha, is_transposed(columns), wanted, function, client))
    try:
        served_by(client_of(client)).check_composite(name, type_of(mat1).dtype)
    except AclgradError as error:
        tell_of(error, name, function)
        raise


_SCHEMA: Final = (
    "(str form, Tensor mat1, Tensor mat2, Tensor? addend, float beta, float alpha, str function, SymInt client) "
    "-> Tensor"
)
torch.library.custom_op("aclgrad::gemm", _execute, mutates_args=(), schema=_SCHEMA).register_fake(_infer)
GEMM: Final = torch.ops.aclgrad.gemm.default


class GemmForward(torch.autograd.Function):
    """Takes the operator's arguments."""

    @staticmethod
    def forward(*values: Any) -> Any:
        if torch.compiler.is_compiling():
            return GEMM(*values)
        with counted_by_node():
            return GEMM(*values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        form, mat1, mat2, addend, beta, alpha, function, client = inputs
        ctx.shapes = mat1.shape, mat2.shape
        ctx.form, ctx.saved = form, [True, True]
        needs = ctx.needs_input_grad
        if not torch.compiler.is_compiling():
            ctx.saved = [needs[2], needs[1]]
            ctx.call_site = served_site(function, sys._getframe(1))  # noqa: SLF001
            ctx.flops = (needs[1] + needs[2]) * flops_of(output, FORMS[form].rows(mat1))
        saved = [each for each, is_saved in zip((mat1, mat2), ctx.saved, strict=True) if is_saved]
        ctx.save_for_backward(*(saved[::-1] if FORMS[form].saves_mat2_first else saved))
        shape = () if addend is None else addend.shape
        ctx.gemm = Gemm(shape, beta, alpha, is_transposed(mat2), (), function, client)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        form, wanted = FORMS[ctx.form], ctx.needs_input_grad[1:4]
        saved = iter(ctx.saved_tensors[:: -1 if form.saves_mat2_first else 1])
        # The gradient of an operand needs only its shape.
        mats = [
            next(saved) if is_saved else grad_output.new_zeros(()).expand(shape)
            for shape, is_saved in zip(ctx.shapes, ctx.saved, strict=True)
        ]
        gemm = ctx.gemm._replace(wanted=list(wanted))
        operands = form.matrix(grad_output), form.rows(mats[0]), form.columns(mats[1])
        if torch.compiler.is_compiling():
            found = gemm_backward(*operands, gemm)
        else:
            try:
                found = gemm_backward(*operands, gemm)
            except AclgradError as error:
                error.message = f"the gradient of {ctx.call_site}: {error.message}"
                raise
        of_mat1 = form.of_rows(found[0], ctx.shapes[0]) if wanted[0] else None
        of_mat2 = found[1].reshape(ctx.shapes[1]) if wanted[1] else None
        return None, of_mat1, of_mat2, found[2] if wanted[2] else None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
        """Makes one product of batches; a common operand of the elements broadcasts."""
        name, mat1, mat2, addend, beta, alpha, function, client = values
        form, dims = FORMS[name], [None if dim is None else 0 for dim in in_dims[1:3]]
        # All views concern the last axes.
        first = [
            each if dim is None else each.movedim(dim, 0) for each, dim in zip((mat1, mat2), in_dims[1:3], strict=True)
        ]
        mats = form.rows(first[0]), form.columns(first[1])
        rank = max(each.dim() - (dim is not None) for each, dim in zip(mats, dims, strict=True))
        mats = tuple(in_front(each, dim, rank) for each, dim in zip(mats, dims, strict=True))
        product = GemmForward.apply("matmul", *mats, None, 1.0, 1.0, function, client)
        if alpha != 1:
            product = alpha * product
        if addend is not None and beta:
            product = product + beta * in_front(addend, in_dims[3], rank)
        if product.dim() == rank:
            product = product.expand(info.batch_size, *product.shape)
        return form.squeezed(product), 0


def gemm(
    form: str,
    client: Client | None,
    mat1: Tensor,
    mat2: Tensor,
    addend: Tensor | None = None,
    beta: float = 1.0,
    alpha: float = 1.0,
    *,
    function: str,
) -> Tensor:
    """Returns a product with gradients from the client's server; raises LocalError if it would have none."""
    operands = (mat1, mat2) if addend is None else (mat1, mat2, addend)
    operands = cast_alike(lambda *each: FORMS[form].product(*each, *[None] * (3 - len(each)), 1.0, 1.0), *operands)
    if operands[0].dtype not in _DTYPES:
        raise LocalError(f"no product takes {str(operands[0].dtype).removeprefix('torch.')}")
    beta, alpha = _number(beta), _number(alpha)
    if any(0 < abs(each) <= ZERO or each - each for each in (beta, alpha)):
        raise LocalError(f"devices do not take beta or alpha of {beta} and {alpha}")
    if not alpha:
        raise LocalError("devices leave out what is multiplied by 0, which PyTorch makes NaN if it is infinite")
    mat1, mat2, *rest = operands
    if torch.compiler.is_compiling() and not any(each.requires_grad for each in operands):
        return FORMS[form].product(mat1, mat2, *(rest or [None]), beta, alpha)
    result: Tensor = applied(GemmForward, client, form, mat1, mat2, *(rest or [None]), beta, alpha, function)
    return result


def _number(factor: Any) -> float:
    """Returns beta or alpha as a number; raises LocalError if PyTorch refuses it."""
    is_number = isinstance(factor, float | int | Real | Tensor)
    if not is_number or (isinstance(factor, int) and not -(2**63) <= factor < 2**63):
        raise LocalError(f"PyTorch refuses a beta or alpha of {factor}")
    try:
        return float(factor)
    except (RuntimeError, ValueError):
        raise LocalError("PyTorch refuses a beta or alpha that is no single number") from None


def has_hooks() -> bool:
    """Returns whether saved tensors are counted, as in a checkpoint, which may be recomputed without the block."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None  # noqa: SLF001 - nothing else tells


HOOKED: Final = "it saves other tensors than PyTorch's own, and a checkpoint may compute it again without the block"
_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
