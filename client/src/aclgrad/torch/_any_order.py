"""Gradients that have derivatives of any order, because their own gradients are calls of the same operator.

All calls of one node of autograd's graph go in one message.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from aclgrad.torch._account import CallSite
from aclgrad.torch._gradients import CALLS
from aclgrad.torch._row import Derivative

Values = tuple[Any, ...]
Folded = Callable[[Callable[..., Any], int, Mapping[str, Any], Values], tuple[Values, Values]]


def of_any_order(
    operator: str, function: str, names: tuple[str, ...], derivative: Derivative, folded: Folded
) -> Callable[..., Any]:
    """Returns the function of the named arguments; for several calls, of all their arguments to all their outputs.

    `folded` folds the calls for the elements of vmap into one.
    """
    calls = CALLS[operator]
    inputs, outputs = len(calls.spec.inputs), len(calls.spec.outputs)
    site = CallSite(f"{function}_backward", "", None)

    def apart(values: Sequence[Any], width: int = len(names)) -> Iterator[Any]:
        return (values[first : first + width] for first in range(0, len(values), width))

    class Gradients(torch.autograd.Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            return tuple(chain(*calls.in_one_message(list(apart(values)), function)))

        @staticmethod
        def setup_context(ctx: Any, values: Values, output: Values) -> None:
            known = [dict(zip(names, each, strict=True)) for each in apart(values)]
            ctx.save_for_backward(*chain(*(each[:inputs] for each in apart(values))))
            ctx.rest = [each[inputs:] for each in apart(values)]
            ctx.set_materialize_grads(False)
            marked = zip(output, chain(*(each["wanted"] for each in known)), strict=True)
            ctx.mark_non_differentiable(*(each for each, is_wanted in marked if not is_wanted))
            ctx.call_site = site
            pairs = zip(known, apart(ctx.needs_input_grad), strict=True)
            ctx.flops = sum(derivative.flops(each, needed) for each, needed in pairs)

        @staticmethod
        def backward(ctx: Any, *given: Tensor | None) -> Any:
            made, again = [], []
            saved = zip(apart(ctx.saved_tensors, inputs), ctx.rest, strict=True)
            parts = zip(saved, apart(given, outputs), apart(ctx.needs_input_grad), strict=True)
            for (tensors, rest), of_outputs, needed in parts:
                known = dict(zip(names, (*tensors, *rest), strict=True))
                others, joined = derivative.gradients(known, of_outputs, needed)
                made.append((joined, len(others)))
                again += [{**known, **other}.values() for other in others]
            found = apart(Gradients.apply(*chain(*again)) if again else (), outputs)
            gradients = (joined([next(found) for _ in range(count)]) for joined, count in made)
            return tuple(chain(*((*each, *[None] * (len(names) - inputs)) for each in gradients)))

        @staticmethod
        def vmap(info: Any, in_dims: Values, *values: Any) -> Any:
            known = [dict(zip(names, each, strict=True)) for each in apart(values)]
            pairs = zip(known, apart(in_dims), strict=True)
            found = [folded(Gradients.apply, info.batch_size, each, dims) for each, dims in pairs]
            return tuple(chain(*(each for each, _ in found))), tuple(chain(*(dims for _, dims in found)))

    function_of: Callable[..., Any] = Gradients.apply
    return function_of
