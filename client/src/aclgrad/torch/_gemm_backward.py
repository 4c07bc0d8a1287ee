"""The gradients of `beta * addend + alpha * (mat1 @ mat2)` from a server, in one message, and their own gradients.

`torch.ops.aclgrad.gemm_backward` runs the matching composite; it is opaque to torch.compile, which traces the fake
kernel. The gradients of these gradients are gradients of products, so there are derivatives of any order.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from aclgrad.bridges.products import COMPOSITES
from aclgrad.errors import AclgradError
from aclgrad.torch._account import CallSite
from aclgrad.torch._gradients import note_sent
from aclgrad.torch._tensors import array_of, client_of, tensor_of

Shape = Sequence[int]


class Gemm(NamedTuple):
    """A product without its operands, which are matrices or broadcasting batches of them.

    `shape` is the addend's. If mat2 `is_transposed`, it is the transposed view of a row-major matrix, as the weight of
    a linear layer, and so is its gradient. `wanted` says which of the gradients of mat1, mat2 and the addend are
    wanted; `function` is the called function.
    """

    shape: Shape
    beta: float
    alpha: float
    is_transposed: bool
    wanted: Sequence[bool]
    function: str
    client: int


def is_transposed(matrix: Tensor) -> bool:
    """Returns whether a tensor is the transposed view of a single row-major matrix."""
    return matrix.dim() == 2 and bool(matrix.mT.is_contiguous())


def composite_of(mat1: Tensor, mat2: Tensor, gemm: Gemm) -> str:
    """Returns the name of the composite that computes the gradients."""
    is_plain = gemm.alpha == gemm.beta == 1 and (not gemm.wanted[2] or tuple(gemm.shape) == mat2.shape[1:])
    if is_plain and gemm.is_transposed and mat1.dim() == 2:
        return "linear_backward"
    return "addmm_backward" if gemm.wanted[2] or gemm.alpha != 1 else "matmul_backward"


def _execute(grad_output: Tensor, mat1: Tensor, mat2: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    gemm = Gemm(*rest)
    name = composite_of(mat1, mat2, gemm)
    composite, is_linear = COMPOSITES[name], name == "linear_backward"
    operands = (grad_output, mat1, mat2.mT if is_linear else mat2)
    inputs = dict(zip(("grad_output", *composite.mats), map(array_of, operands), strict=True))
    factors = {"shape": tuple(gemm.shape), "beta": gemm.beta, "alpha": gemm.alpha}
    attributes = factors if name == "addmm_backward" else {}
    wanted = dict(zip(composite.gradients, gemm.wanted, strict=False))
    names = [each for each in composite.outputs if wanted[each]]
    try:
        program = client_of(gemm.client).program()
        program.place = lambda: f"{name} of {gemm.function}"
        is_wanted = [wanted[each] for each in composite.outputs]
        handles = composite.add_steps(program, **inputs, **attributes, wanted=is_wanted)
        found = dict(zip(names, program.run(*[getattr(handles, each) for each in names]), strict=True))
    except AclgradError as error:
        error.operator = name
        raise
    note_sent(name, inputs, attributes, found)
    empty = grad_output.new_empty

    def gradient(name: str) -> Tensor:
        array = found.get(name)
        if array is None:
            return empty(0)
        return tensor_of(array).to(grad_output.device) if array.size else empty(array.shape)

    gradients = [*map(gradient, composite.gradients), empty(0)][:3]
    if is_linear and gemm.wanted[1]:
        gradients[1] = gradients[1].mT
    return tuple(gradients)


def _infer(grad_output: Tensor, mat1: Tensor, mat2: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    gemm = Gemm(*rest)
    is_linear = composite_of(mat1, mat2, gemm) == "linear_backward"
    shapes = zip((mat1.shape, mat2.mT.shape if is_linear else mat2.shape, gemm.shape), gemm.wanted, strict=True)
    gradients = [grad_output.new_empty(shape if is_wanted else 0) for shape, is_wanted in shapes]
    if is_linear and gemm.wanted[1]:
        gradients[1] = gradients[1].mT
    return tuple(gradients)


_SCHEMA: Final = (
    "(Tensor grad_output, Tensor mat1, Tensor mat2, SymInt[] shape, float beta, float alpha, bool is_transposed, "
    "bool[] wanted, str function, SymInt client) -> (Tensor, Tensor, Tensor)"
)
torch.library.custom_op("aclgrad::gemm_backward", _execute, mutates_args=(), schema=_SCHEMA).register_fake(_infer)
GEMM_BACKWARD: Final = torch.ops.aclgrad.gemm_backward.default


class GemmBackward(torch.autograd.Function):
    """The operator with its own gradients, those of its products."""

    @staticmethod
    def forward(*values: Any) -> Any:
        return GEMM_BACKWARD(*values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:3])
        ctx.gemm = gemm = Gemm(*inputs[3:])
        ctx.set_materialize_grads(False)
        unwanted = [each for each, is_wanted in zip(output, gemm.wanted, strict=True) if not is_wanted]
        ctx.mark_non_differentiable(*unwanted)
        ctx.call_site = CallSite(f"{gemm.function}_backward", "", None)
        needs = ctx.needs_input_grad
        products = gemm.wanted[0] * (needs[0] + needs[2]) + gemm.wanted[1] * (needs[0] + needs[1])
        ctx.flops = products * flops_of(inputs[0], inputs[1])

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> Any:
        grad_output, mat1, mat2 = ctx.saved_tensors
        gemm, needs = ctx.gemm, ctx.needs_input_grad
        of_mat1, of_mat2, of_addend = (
            each if is_wanted else None for each, is_wanted in zip(given, gemm.wanted, strict=True)
        )
        found: list[Any] = [None, None, None]
        if of_mat1 is not None:  # of grad_output @ mat2.mT
            once = gemm._replace(shape=(), beta=1.0, wanted=(needs[0], needs[2], False))
            grad, other = _again(of_mat1, grad_output, mat2.mT, once)
            found = [grad, None, other]
        if of_mat2 is not None:  # of mat1.mT @ grad_output
            once = gemm._replace(shape=(), beta=1.0, wanted=(needs[1], needs[0], False))
            other, grad = _again(of_mat2, mat1.mT, grad_output, once)
            found = [_sum(found[0], grad), other, found[2]]
        if of_addend is not None and needs[0]:
            found[0] = _sum(found[0], gemm.beta * of_addend.expand(grad_output.shape))
        transposed = [None if each is None else each.mT for each in found[1:]]
        return found[0], *transposed, *[None] * len(gemm)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
        """Makes one call: the elements become a batch, and common operands broadcast."""
        gemm, size = Gemm(*values[3:]), info.batch_size
        rank = values[0].dim() - (in_dims[0] is not None)

        has_own = (True, *gemm.wanted[:2])
        own = [
            each if dim is not None else each.expand(size, *each.shape) if needs_own else each
            for each, dim, needs_own in zip(values[:3], in_dims[:3], has_own, strict=True)
        ]
        dims = [0 if dim is None and needs_own else dim for dim, needs_own in zip(in_dims[:3], has_own, strict=True)]
        shape = (size, *[1] * (rank - len(gemm.shape)), *gemm.shape)
        grad, mat1, mat2 = (in_front(*each, rank) for each in zip(own, dims, strict=True))
        found = gemm_backward(grad, mat1, mat2, gemm._replace(shape=shape))
        shapes = [
            each.shape if dim is None else each.movedim(dim, 0).shape[1:]
            for each, dim in zip(own[1:], dims[1:], strict=True)
        ]
        gradients = [
            each.reshape(size, *shape) if is_wanted else each
            for each, shape, is_wanted in zip(found, [*shapes, gemm.shape], gemm.wanted, strict=True)
        ]
        return tuple(gradients), tuple(0 if is_wanted else None for is_wanted in gemm.wanted)


def gemm_backward(grad_output: Tensor, mat1: Tensor, mat2: Tensor, gemm: Gemm) -> Any:
    """Returns the wanted gradients of mat1, mat2 and the addend; empty tensors for the others."""
    if torch.compiler.is_compiling():
        return GEMM_BACKWARD(grad_output, mat1, mat2, *gemm)
    return GemmBackward.apply(grad_output, mat1, mat2, *gemm)


def in_front(tensor: Tensor, dim: int | None, rank: int) -> Tensor:
    """Returns a tensor with the mapped axis first and this many others; unchanged if it has no mapped axis."""
    if dim is None:
        return tensor
    own = tensor.movedim(dim, 0)
    return own.reshape(own.shape[0], *[1] * (rank + 1 - own.dim()), *own.shape[1:])


def flops_of(grad_output: Tensor, mat1: Tensor) -> int:
    """Returns the floating-point operations of one product of a gradient."""
    return 2 * int(grad_output.numel()) * int(mat1.shape[-1])


def _again(grad: Tensor, left: Tensor, right: Tensor, gemm: Gemm) -> list[Tensor | None]:
    """Returns the gradients of the operands of `left @ right`, given that of its sum over broadcast axes."""
    if True not in gemm.wanted:
        return [None, None]
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    gemm = gemm._replace(is_transposed=is_transposed(right))
    found = gemm_backward(grad.expand(*batch, *grad.shape[-2:]), left, right, gemm)
    return [each if is_wanted else None for each, is_wanted in zip(found[:2], gemm.wanted, strict=False)]


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other
