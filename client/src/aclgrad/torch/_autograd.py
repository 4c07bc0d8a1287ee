"""The functions of autograd that lead from a forward pass to its operator, one for each of the rows.

They are `torch.autograd.Function`s and not formulas registered with an operator of PyTorch, because `torch.func` takes
those alone. The backward pass of a linear function is linear too, and its own backward pass is the forward pass again:
that gives derivatives of any order, as do the gradients of convolutions, which are convolutions again. Of another
function there is the first derivative alone.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.bridges.folding import Mapped
from aclgrad.bridges.rows import Row
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.torch._account import CallSite, LocalError, layer_of
from aclgrad.torch._any_order import of_any_order
from aclgrad.torch._gradients import GRADIENTS
from aclgrad.torch._operations import FORWARD, counted_by_node
from aclgrad.torch._rows import OPERATIONS, Operation, cast

Values = tuple[Any, ...]


def _differentiable(operation: Operation) -> type[torch.autograd.Function]:
    forward_op, row = FORWARD[operation.name], operation.row
    tensors = tuple(each.python_name for each in row.spec.inputs[1:])
    attributes = tuple(each.name for each in row.spec.attributes)
    gradient_of = _gradient(operation, tensors + attributes, lambda *values: Forward.apply(*values))
    gradient_op = GRADIENTS[row.operator]
    names = (*operation.names, "client")
    # Apart from the row, which torch.compile cannot trace.
    known_of, saved_of, sent_of = row.known, operation.saved, row.sent
    function, targets, is_several = row.function, operation.targets, len(row.targets) > 1
    flops_of = operation.flops

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            if torch.compiler.is_compiling():
                return forward_op(*values)
            with counted_by_node():
                return forward_op(*values)

        @staticmethod
        def setup_context(ctx: Any, inputs: Values, output: Any) -> None:
            known = known_of(dict(zip(names, inputs, strict=True)), output)
            ctx.names = saved_of(known)
            ctx.save_for_backward(*[known[name] for name in ctx.names])
            ctx.shapes = {name: known[name].shape for name in tensors if name not in ctx.names}
            ctx.attributes = [known[name] for name in attributes]
            ctx.dtypes = [None if inputs[index] is None else inputs[index].dtype for index in targets]
            ctx.client = inputs[-1]
            if isinstance(output, tuple):
                ctx.mark_non_differentiable(*output[1:])
            if not torch.compiler.is_compiling():
                ctx.call_site = CallSite(function, layer_of(sys._getframe(1)), None)  # noqa: SLF001
                if flops_of is not None:
                    ctx.flops = flops_of(known, output, [ctx.needs_input_grad[index] for index in targets])

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor, *_: Any) -> Any:
            wanted = [ctx.needs_input_grad[index] for index in targets]
            saved = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
            # No operator needs the values of the others, but some servers want any.
            alone = {name: grad_output.new_zeros(()).expand(shape) for name, shape in ctx.shapes.items()}
            known = sent_of({**saved, **alone, **dict(zip(attributes, ctx.attributes, strict=True))}, cast)
            values = [grad_output, *[known[name] for name in tensors], *ctx.attributes]
            values += [wanted, ctx.client] if is_several else [ctx.client]
            gradients: list[Any] = [None] * len(names)
            if True not in wanted:
                return tuple(gradients)
            if torch.compiler.is_compiling():
                found = gradient_op(*values)
            else:
                try:
                    found = gradient_of(*values)
                except AclgradError as error:
                    error.message = f"the gradient of {ctx.call_site}: {error.message}"
                    raise
            # A server may return more precise gradients of parameters than PyTorch keeps.
            found = found if is_several else (found,)
            for index, dtype, gradient, is_wanted in zip(targets, ctx.dtypes, found, wanted, strict=True):
                if is_wanted:
                    gradients[index] = gradient.to(dtype)
            return tuple(gradients)

        @staticmethod
        def vmap(info: Any, in_dims: Values, *values: Any) -> Any:
            return _folded(row, Forward.apply, info.batch_size, dict(zip(names, values, strict=True)), in_dims)

    return Forward


def _gradient(operation: Operation, taken: tuple[str, ...], forward: Any) -> Any:
    """Returns the function that calls the operator; `taken` is what it takes after the gradient of the output."""
    row, again, local = operation.row, operation.again or forward, operation.local
    gradient_op, function, is_linear = GRADIENTS[row.operator], row.function, row.is_linear
    more = ("wanted", "client") if len(row.targets) > 1 else ("client",)
    names = ("grad_output", *taken, *more)
    if operation.derivative is not None:
        return of_any_order(row.operator, function, names, operation.derivative, partial(_folded, row))
    # What the function that is `again` takes after the gradient of the input.
    taken_again = operation.names[1:] if operation.again is None else ("indices",)
    reason = "the forward pass, which runs here" if is_linear else "only in part a call"
    site = CallSite(f"{function}_backward", "", f"its own gradient is {reason}")

    class Gradient(torch.autograd.Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            return gradient_op(*values)

        @staticmethod
        def setup_context(ctx: Any, inputs: Values, output: Any) -> None:
            ctx.call_site = site
            if local is not None:
                ctx.save_for_backward(*inputs[:2])
                ctx.rest = inputs[2:]
            if not is_linear:
                return
            known = {**operation.sizes(inputs[0].shape), **dict(zip(names, inputs, strict=True))}
            values = [known[name] for name in taken_again]
            ctx.values = [None if isinstance(each, Tensor) else each for each in values]
            ctx.save_for_backward(*[each for each in values if isinstance(each, Tensor)])
            ctx.client = inputs[-1]

        @staticmethod
        def backward(ctx: Any, grad_input: Tensor, *_: Any) -> Any:
            if local is not None:
                grad_output, saved = ctx.saved_tensors
                # By grad_output it is linear; by the saved tensor no operator is its derivative.
                _, pull = torch.func.vjp(lambda each: local(grad_output, each, *ctx.rest[:-1]), saved)
                return Gradient.apply(grad_input, saved, *ctx.rest), *pull(grad_input), *[None] * len(ctx.rest)
            if not is_linear:
                problem = "has no second derivative on a server"
                raise InvalidFieldError.at(function, problem, "call PyTorch's own function, outside of the block")
            saved = iter(ctx.saved_tensors)
            values = [next(saved) if each is None else each for each in ctx.values]
            return again(grad_input, *values, ctx.client), *[None] * (len(names) - 1)

        @staticmethod
        def vmap(info: Any, in_dims: Values, *values: Any) -> Any:
            return _folded(row, Gradient.apply, info.batch_size, dict(zip(names, values, strict=True)), in_dims)

    return Gradient.apply


def _folded(
    row: Row, function: Callable[..., Any], size: int, values: Mapping[str, Any], in_dims: Values
) -> tuple[Any, Any]:
    """Returns the outputs of all elements, and the mapped axis of each: the first, or None if it is not wanted."""
    dims = dict(zip(values, in_dims, strict=True))
    tensors = {name: each for name, each in values.items() if isinstance(each, Tensor)}
    common = {name: each for name, each in tensors.items() if dims[name] is None}
    if "running_mean" in common and "momentum" in values and values["training"]:
        raise LocalError("the elements of vmap have running statistics in common")
    whole = {
        name: each.expand(size, *each.shape) if name in common else each.movedim(dims[name], 0)
        for name, each in tensors.items()
    }
    most = max(row.spec.leading_input.ranks)
    output = row.fold(Mapped(function, size, {**values, **whole}, common, most, torch))
    if not isinstance(output, tuple):
        return output, 0
    wanted = values.get("wanted", [True] * len(output))
    return output, tuple(0 if is_wanted else None for is_wanted in wanted)


FUNCTIONS: Final = {name: _differentiable(each) for name, each in OPERATIONS.items()}
"""The functions by the names of their rows; they take the row's arguments and the number of a client."""
