"""Cross entropy of classes: PyTorch computes its parts, and one message gets the gradient of all."""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.bridges.folding import fold_classes
from aclgrad.bridges.likelihoods import OF_LOGITS, add_cross_entropy, of_classes
from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.torch._account import CallSite, layer_of
from aclgrad.torch._gradients import is_recorded, note_sent
from aclgrad.torch._operations import counted_by_node, note_compiled, tell_of, without_autocast
from aclgrad.torch._row import mapped
from aclgrad.torch._tensors import array_of, client_of, tensor_of, type_of

aten: Final = torch.ops.aten
_FUNCTION: Final = "cross_entropy"
_NAMES: Final = ("input", "target", "weight", "reduction", "ignore_index", "label_smoothing", "client")
_NAMES_AGAIN: Final = ("grad_output", "log_probs", "target", "weight", "total_weight", *_NAMES[3:])
_MOST: Final = max(OPERATORS[OF_LOGITS].leading_input.ranks)


def in_planes(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns PyTorch's views: (C) and (N, C) unchanged, all others as planes of pixels."""
    if input.dim() in (1, 2, 4):
        return input, target
    images, classes = input.shape[:2]
    plane = (1, math.prod(input.shape[2:])) if input.numel() else (0, 0)
    return input.reshape(images, classes, *plane), target.reshape(images, *plane)


def _along_classes(weight: Tensor, input: Tensor) -> Tensor:
    return weight.view([-1 if axis == min(1, input.dim() - 1) else 1 for axis in range(input.dim())])


def _compute(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, label_smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the loss, by PyTorch's steps, the log probabilities, and the weight of all targets."""
    axis = min(1, input.dim() - 1)
    log_softmax = "_log_softmax"
    log_probs = getattr(aten, log_softmax)(input, axis, False)
    rows, classes = in_planes(log_probs, target)
    likelihood = aten.nll_loss2d_forward if rows.dim() == 4 else aten.nll_loss_forward
    loss, total_weight = likelihood(rows, classes, weight, reduction, ignore_index)
    if not reduction:
        loss = loss.view(target.shape)
    if label_smoothing > 0:
        weighted = log_probs if weight is None else log_probs * _along_classes(weight, input)
        smooth = -weighted.sum(axis)
        is_ignored = target == ignore_index
        smooth.masked_fill_(is_ignored, 0.0)
        if reduction == 1 and weight is not None:
            smooth = smooth.sum() / weight.gather(0, target.masked_select(~is_ignored).flatten()).sum()
        elif reduction:
            smooth = smooth.sum() / (~is_ignored).sum() if reduction == 1 else smooth.sum()
        loss = (1 - label_smoothing) * loss + smooth * (label_smoothing / input.shape[axis])
    return loss, log_probs, total_weight


def _types(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: int, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    loss = input.new_empty(() if reduction else target.shape)
    return loss, torch.empty_like(input), input.new_empty(())


def _execute(*values: Any) -> Tensor:
    log_probs, target, weight, total_weight = values[1:5]
    reduction, ignore_index, label_smoothing, client = values[5:]
    grad_output = values[0]
    weights = log_probs.new_ones(log_probs.shape[min(1, log_probs.dim() - 1)]) if weight is None else weight
    tensors = {"self": log_probs, "target": target, "weight": weights, "total_weight": total_weight}
    of_likelihood = grad_output * (1 - label_smoothing) if label_smoothing else grad_output
    inputs = {name: array_of(each) for name, each in {"grad_output": of_likelihood, **tensors}.items()}
    attributes = {"reduction": reduction, "ignore_index": ignore_index}
    smoothing = _smoothing(grad_output, *values[1:4], *values[5:8]) if label_smoothing else None
    program = client_of(client).program()
    program.place = lambda: f"{_FUNCTION}_backward of {_FUNCTION}"
    try:
        steps = add_cross_entropy(program, inputs, attributes, None if smoothing is None else array_of(smoothing))
        found = [tensor_of(each).to(log_probs.device) for each in program.run(*steps)]
    except AclgradError as error:
        error.operator = of_classes(log_probs.dim())
        raise
    gradient: Tensor = sum(found[1:], found[0])
    if is_recorded():
        _note(of_likelihood, tensors, attributes, smoothing, gradient)
    return gradient


def _smoothing(
    grad_output: Tensor,
    log_probs: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """Returns the gradient of the log probabilities from label smoothing, as a broadcast view if possible.

    Its factors are multiplied in float32: 16 bits would round each product.
    """
    axis = min(1, log_probs.dim() - 1)
    share = grad_output.to(torch.promote_types(grad_output.dtype, torch.float32)) * (
        -label_smoothing / log_probs.shape[axis]
    )
    is_ignored = target == ignore_index
    if reduction == 1:
        # Not total_weight, which PyTorch sums in 16 bits, and only for the likelihood.
        used = target[~is_ignored]
        share = share / (used.numel() if weight is None else weight.to(share.dtype).gather(0, used.long()).sum())
    if is_ignored.any():
        share = torch.where(is_ignored, 0, share)
    if share.dim():
        share = share.unsqueeze(axis)
    weighted = share if weight is None else share * _along_classes(weight, log_probs)
    return weighted.to(log_probs.dtype).expand(log_probs.shape)


def _note(
    grad_output: Tensor,
    tensors: Mapping[str, Tensor],
    attributes: Mapping[str, int],
    smoothing: Tensor | None,
    gradient: Tensor,
) -> None:
    """Notes only the last step: its inputs are computed here, so that it shows whether all steps are right."""
    log_probs, target, weight, total_weight = tensors.values()
    kind = aten.nll_loss2d_backward if log_probs.dim() == 4 else aten.nll_loss_backward
    found = kind(grad_output, log_probs, target, weight, *attributes.values(), total_weight)
    given = found if smoothing is None else found + smoothing
    inputs = {"grad_output": array_of(given), "output": array_of(log_probs)}
    note_sent(OF_LOGITS, inputs, {"dim": min(1, log_probs.dim() - 1)}, {"out": array_of(gradient)})


def _check(loss: Tensor, values: Sequence[Any], log_probs: Tensor, total_weight: Tensor) -> None:
    """Raises InvalidFieldError or OperatorNotSupportedError if the server would refuse the gradient."""
    _, target, weight, reduction, ignore_index, _, client = values
    rows, classes = in_planes(log_probs, target)
    name, axis = of_classes(rows.dim()), min(1, rows.dim() - 1)
    weights = rows.new_empty(rows.shape[axis]) if weight is None else weight
    grad_output = loss if reduction else loss.reshape(classes.shape)
    tensors = {"grad_output": grad_output, "self": rows, "target": classes, "weight": weights}
    inputs = {each: type_of(tensor) for each, tensor in {**tensors, "total_weight": total_weight}.items()}
    try:
        served = served_by(client_of(client))
        served.check(name, inputs, {"reduction": reduction, "ignore_index": ignore_index})
        name = OF_LOGITS
        served.check(name, dict.fromkeys(("grad_output", "output"), inputs["self"]), {"dim": axis})
    except AclgradError as error:
        tell_of(error, name, _FUNCTION)
        raise


def _forward(*values: Any) -> tuple[Tensor, Tensor, Tensor]:
    with without_autocast(values[0].device.type):
        output = _compute(*values[:-1])
    _check(output[0], values, *output[1:])
    note_compiled(_FUNCTION, values[-1])
    return output


def _operator(name: str, function: Any, fake: Any, parameters: str, returns: str) -> Any:
    schema = f"({parameters}, int reduction, int ignore_index, float label_smoothing, SymInt client) -> {returns}"
    torch.library.custom_op(f"aclgrad::{name}", function, mutates_args=(), schema=schema).register_fake(fake)
    return getattr(torch.ops.aclgrad, name).default


FORWARD: Final = _operator(
    _FUNCTION, _forward, _types, "Tensor input, Tensor target, Tensor? weight", "(Tensor, Tensor, Tensor)"
)
BACKWARD: Final = _operator(
    f"{_FUNCTION}_backward",
    _execute,
    lambda grad_output, log_probs, *_: log_probs.new_empty(log_probs.shape),
    "Tensor grad_output, Tensor log_probs, Tensor target, Tensor? weight, Tensor total_weight",
    "Tensor",
)


class CrossEntropyBackward(torch.autograd.Function):
    """One message for all elements of vmap."""

    @staticmethod
    def forward(*values: Any) -> Any:
        return BACKWARD(*values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call_site = CallSite(f"{_FUNCTION}_backward", "", "its own gradient is only in part a call")

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        problem = "has no second derivative on a server"
        raise InvalidFieldError.at(_FUNCTION, problem, "call PyTorch's own function, outside of the block")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
        given = dict(zip(_NAMES_AGAIN, values, strict=True))
        return fold_classes(mapped(CrossEntropyBackward.apply, info.batch_size, given, in_dims, _MOST)), 0


class CrossEntropy(torch.autograd.Function):
    """The loss, the log probabilities and the weight of all targets; only the loss is differentiable."""

    @staticmethod
    def forward(*values: Any) -> Any:
        if torch.compiler.is_compiling():
            return FORWARD(*values)
        with counted_by_node():
            return FORWARD(*values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        input, target, weight, *ctx.rest = inputs
        reduction, ignore_index, label_smoothing = ctx.rest[:3]
        _, log_probs, total_weight = output
        # The tensors that PyTorch's parts save, in their order: a checkpoint may recompute without a block.
        saved = [log_probs, *in_planes(log_probs, target), weight, total_weight]
        if label_smoothing > 0:
            saved += [None if weight is None else _along_classes(weight, input), target == ignore_index]
            all_ = total_weight if weight is not None else (target != ignore_index).sum()
            saved += [all_] if reduction == 1 else []
        ctx.save_for_backward(*saved)
        ctx.mark_non_differentiable(log_probs, total_weight)
        if not torch.compiler.is_compiling():
            ctx.call_site = CallSite(_FUNCTION, layer_of(sys._getframe(1)), None)  # noqa: SLF001

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, *_: Any) -> Any:
        log_probs, *saved = ctx.saved_tensors[:5]
        if not ctx.rest[0]:
            grad_output = grad_output.reshape(saved[1].shape)
        if torch.compiler.is_compiling():
            gradient = BACKWARD(grad_output, *saved, *ctx.rest)
        else:
            try:
                gradient = CrossEntropyBackward.apply(grad_output, *saved, *ctx.rest)
            except AclgradError as error:
                error.message = f"the gradient of {ctx.call_site}: {error.message}"
                raise
        return gradient.reshape(log_probs.shape), *[None] * (len(_NAMES) - 1)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
        given = dict(zip(_NAMES, values, strict=True))
        return fold_classes(mapped(CrossEntropy.apply, info.batch_size, given, in_dims, _MOST)), (0, 0, 0)
