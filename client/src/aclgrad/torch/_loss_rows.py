"""The rows of losses and of dropout: PyTorch's computation of their tensors, and the server's inputs."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.bridges.rows import Known
from aclgrad.operators.dropout_do_mask.spec import mask_bytes, packed
from aclgrad.torch._row import Operation
from aclgrad.torch._tensors import array_of, tensor_of

aten: Final = torch.ops.aten


def _pack(noise: Tensor) -> Tensor:
    """Returns a bit for each element that is kept."""
    return tensor_of(packed(array_of(noise))).to(noise.device)


def _packed_shape(noise: Tensor) -> Tensor:
    return noise.new_empty(mask_bytes(noise.numel()), dtype=torch.uint8)


def _packed_each(info: Any, in_dims: Sequence[int], noise: Tensor) -> tuple[Tensor, int]:
    masks = [PACKED_MASK(each) for each in noise.unbind(in_dims[0])] or [_packed_shape(noise)]
    return torch.stack(masks)[: info.batch_size], 0


# An operator, because torch.compile cannot trace it.
_packed = torch.library.custom_op("aclgrad::packed_mask", _pack, mutates_args=(), schema="(Tensor noise) -> Tensor")
_packed.register_fake(_packed_shape)
_packed.register_vmap(_packed_each)
PACKED_MASK: Final = torch.ops.aclgrad.packed_mask.default


def _mask_of(known: Known) -> Known:
    noise = known["noise"].expand(known["grad_output"].shape)
    return {"mask": _packed_shape(noise) if noise.is_meta else PACKED_MASK(noise)}


def _masked(grad_output: Tensor, mask: Tensor, prob: float) -> Tensor:
    bits = (mask[:, None] >> torch.arange(8, device=mask.device)) & 1
    kept = bits.reshape(-1)[: grad_output.numel()].reshape(grad_output.shape)
    return grad_output * kept / (1 - prob) if prob < 1 else grad_output * 0


def _of_nothing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of empty tensors."""
    return lambda *values: function(*[each.new_empty(0) if isinstance(each, Tensor) else each for each in values])


def _with_weights(known: Known) -> Known:
    weight, input = known["weight"], known["input"]
    if weight is not None:
        return {}
    # Not new_ones, which vmap makes for each element.
    return {"weight": torch.ones(input.shape[min(1, input.dim() - 1)], dtype=input.dtype, device=input.device)}


def _without_padding(known: Known) -> Known:
    """Returns targets with valid classes beyond their lengths, where PyTorch takes any value."""
    targets = known["targets"]
    if targets.dim() == 1:
        return {}
    lengths = torch.tensor(known["target_lengths"], device=targets.device)
    is_used = torch.arange(targets.shape[1], device=targets.device) < lengths[:, None]
    return {"targets": torch.where(is_used, targets, 0)}


def _ctc_loss(*values: Any) -> Any:
    kernel = "_ctc_loss"
    return getattr(aten, kernel)(*values)


def _ctc_loss_shapes(
    log_probs: Tensor, targets: Tensor, input_lengths: Sequence[int], target_lengths: Sequence[int], *_: object
) -> tuple[Tensor, Tensor]:
    steps, batch = log_probs.shape[:2]
    return log_probs.new_empty(batch), log_probs.new_empty(batch, steps, 2 * max(target_lengths, default=0) + 1)


def _absolute(input: Tensor, reduction: int) -> Tensor:
    absolute = aten.abs(input)
    result: Tensor = absolute if reduction == 0 else aten.mean(absolute) if reduction == 1 else aten.sum(absolute)
    return result


def _absolute_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: int) -> Tensor:
    return grad_output * input.sgn() / (input.numel() if reduction == 1 else 1)


def _divergence_backward(
    grad_output: Tensor, input: Tensor, target: Tensor, reduction: int, log_target: bool
) -> Tensor:
    share = target.exp() if log_target else target
    return -grad_output * share / (input.numel() if reduction == 1 else 1)


def _logits_backward(
    grad_output: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    slope = torch.sigmoid(input) - target
    if pos_weight is not None:
        positive = pos_weight * target
        slope = (positive + 1 - target) * torch.sigmoid(input) - positive
    gradient = grad_output * slope / (input.numel() if reduction == 1 else 1)
    return gradient if weight is None else gradient * weight


def _loss(name: str, parameters: str, forward: Callable[..., Any] | None = None, **options: Any) -> Operation:
    function = forward or getattr(aten, name)
    options = {
        "local": getattr(aten, f"{name}_backward", None),
        "saved": lambda _: ("input", "target"),
        "cast_by": _of_nothing(function),
        "other": "target",
        **options,
    }
    return Operation(name, f"Tensor input, {parameters}", function, **options)


def _of_classes(name: str, axes: int) -> Operation:
    return Operation(
        name,
        "Tensor input, Tensor target, Tensor? weight, int reduction, int ignore_index",
        getattr(aten, f"{name}_forward"),
        saved=lambda _: ("input", "target", "weight", "total_weight"),
        prepared=_with_weights,
        cast_by=lambda input, target, *_: functional.nll_loss(
            input.new_empty([0] * axes), target.new_empty([0] * (axes - 1)), reduction="none"
        ),
        returns="(Tensor, Tensor)",
    )


LOSSES: Final[Sequence[Operation]] = (
    _loss(
        "binary_cross_entropy",
        "Tensor target, Tensor? weight, int reduction",
        saved=lambda _: ("input", "target", "weight"),
    ),
    _loss(
        "binary_cross_entropy_with_logits",
        "Tensor target, Tensor? weight, Tensor? pos_weight, int reduction",
        saved=lambda _: ("pos_weight", "input", "target", "weight"),
        local=_logits_backward,
    ),
    Operation(
        "ctc_loss",
        "Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, bool zero_infinity",
        _ctc_loss,
        _ctc_loss_shapes,
        saved=lambda _: ("log_probs", "targets", "neg_log_likelihood", "log_alpha"),
        prepared=_without_padding,
        # The function itself casts.
        cast_by=lambda log_probs, *_: log_probs,
        returns="(Tensor, Tensor)",
    ),
    Operation(
        "dropout",
        "Tensor input, Tensor noise, float p",
        lambda input, noise, _: input * noise,
        saved=lambda _: ("noise",),
        prepared=_mask_of,
        local=_masked,
        cast_by=lambda input, *_: input,
    ),
    _loss(
        "kl_div",
        "Tensor target, int reduction, bool log_target",
        lambda input, target, reduction, log_target: aten.kl_div(input, target, reduction, log_target=log_target),
        saved=lambda _: ("target",),
        local=_divergence_backward,
    ),
    # The input is the difference, as in PyTorch's own computation.
    _loss(
        "l1_loss",
        "int reduction",
        _absolute,
        saved=lambda _: ("input",),
        prepared=lambda known: {"target": torch.zeros((), dtype=known["input"].dtype, device=known["input"].device)},
        local=_absolute_backward,
        cast_by=lambda input, _: functional.l1_loss(input.new_empty(0), input.new_empty(0)),
        other="",
    ),
    _loss("mse_loss", "Tensor target, int reduction", is_symmetric=True),
    _of_classes("nll_loss", 2),
    _of_classes("nll_loss2d", 4),
    _loss("smooth_l1_loss", "Tensor target, int reduction, float beta", is_symmetric=True),
)
"""In the order of their names."""
