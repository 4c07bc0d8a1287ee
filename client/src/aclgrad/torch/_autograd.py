"""Autograd functions from a forward pass to its operator, one for each row.

They are `torch.autograd.Function`s, and not formulas registered with a PyTorch operator, because `torch.func` takes
only those. The backward pass of a linear function is linear, too, and its backward pass is the forward pass again: that
gives derivatives of any order, as do the gradients of convolutions, which are convolutions again. Other functions have
only a first derivative.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.bridges.rows import Row
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.torch._account import CallSite, LocalError, served_site
from aclgrad.torch._any_order import of_any_order
from aclgrad.torch._gradients import GRADIENTS
from aclgrad.torch._operations import FORWARD, counted_by_node
from aclgrad.torch._row import Operation, cast, mapped
from aclgrad.torch._rows import OPERATIONS

Values = tuple[Any, ...]


def _differentiable(operation: Operation) -> type[torch.autograd.Function]:
    forward_op, row = FORWARD[operation.name], operation.row
    tensors = tuple(each.python_name for each in row.spec.inputs[1:])
    attributes = tuple(each.name for each in row.spec.attributes)
    gradient_of_row = gradient_of(operation, tensors + attributes, lambda *values: Forward.apply(*values))
    gradient_op = GRADIENTS[row.operator]
    names = (*operation.names, "client")
    # Separate from the row, which torch.compile cannot trace.
    known_of, saved_of, prepared_of, sent_of = row.known, operation.saved, operation.prepared, row.sent
    function, targets, is_several = row.function, operation.targets, len(row.targets) > 1
    flops_of = operation.flops
    other = operation.names.index(operation.other) if operation.other else -1
    is_symmetric, forward_here = operation.is_symmetric, operation.forward
    given = tuple(each.split()[1] for each in operation.parameters.split(", ") if each.startswith("Tensor"))

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
            if other >= 0 and not is_symmetric and ctx.needs_input_grad[other]:
                ctx.names = tuple(dict.fromkeys((*ctx.names, *given)))
            ctx.save_for_backward(*[known[name] for name in ctx.names])
            unsaved = [name for name in tensors if name not in ctx.names and known.get(name) is not None]
            ctx.shapes = {name: known[name].shape for name in unsaved}
            ctx.attributes = [known[name] for name in attributes]
            pairs = ((index, inputs[index]) for index in targets)
            ctx.types = [(index, None if each is None else (each.dtype, each.shape)) for index, each in pairs]
            ctx.client = inputs[-1]
            if isinstance(output, tuple):
                ctx.mark_non_differentiable(*output[1:])
            if not torch.compiler.is_compiling():
                ctx.call_site = served_site(function, sys._getframe(1))  # noqa: SLF001
                if flops_of is not None:
                    ctx.flops = flops_of(known, output, [ctx.needs_input_grad[index] for index in targets])

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor, *_: Any) -> Any:
            needs_other = other >= 0 and ctx.needs_input_grad[other]
            wanted = [ctx.needs_input_grad[index] or (needs_other and is_symmetric) for index in targets]
            saved = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
            # No operator needs the values of the others, but some servers require values.
            alone = {name: grad_output.new_zeros(()).expand(shape) for name, shape in ctx.shapes.items()}
            known = {**saved, **alone, **dict(zip(attributes, ctx.attributes, strict=True)), "grad_output": grad_output}
            gradients: list[Any] = [None] * len(names)
            if needs_other and not is_symmetric:
                arguments = [known[name] for name in names[:-1]]
                (gradients[other],) = _pulled(forward_here, arguments, [other], [grad_output])
            if True not in wanted:
                return tuple(gradients)
            known = sent_of(known if prepared_of is None else {**known, **prepared_of(known)}, cast)
            values = [grad_output, *[known.get(name) for name in tensors], *ctx.attributes]
            values += [wanted, ctx.client] if is_several else [ctx.client]
            if torch.compiler.is_compiling():
                found = gradient_op(*values)
            else:
                try:
                    found = gradient_of_row(*values)
                except AclgradError as error:
                    error.message = f"the gradient of {ctx.call_site}: {error.message}"
                    raise
            # The server's gradients of parameters may have a wider dtype than PyTorch's.
            found = found if is_several else (found,)
            for (index, type), gradient, is_wanted in zip(ctx.types, found, wanted, strict=True):
                if is_wanted:
                    gradients[index] = gradient.to(type[0]).reshape(type[1])
            if needs_other and is_symmetric:
                gradients[other] = -gradients[targets[0]]
            return tuple(gradients)

        @staticmethod
        def vmap(info: Any, in_dims: Values, *values: Any) -> Any:
            return _folded(row, Forward.apply, info.batch_size, dict(zip(names, values, strict=True)), in_dims)

    return Forward


def gradient_of(operation: Operation, taken: tuple[str, ...], forward: Any = None) -> Any:
    """Returns the function that calls the operator; `taken` names its arguments after the gradient of the output."""
    row, again, local = operation.row, operation.again or forward, operation.local
    gradient_op, function, is_linear = GRADIENTS[row.operator], row.function, row.is_linear
    is_several = len(row.targets) > 1
    more = ("wanted", "client") if is_several else ("client",)
    names = ("grad_output", *taken, *more)
    inputs_count = len(row.spec.inputs)
    if operation.derivative is not None:
        return of_any_order(row.operator, function, names, operation.derivative, partial(_folded, row))
    # The arguments of `again` after the gradient of the input.
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
                ctx.save_for_backward(*inputs[:inputs_count])
                ctx.rest = inputs[inputs_count:]
            if not is_linear:
                return
            known = {**operation.sizes(inputs[0].shape), **dict(zip(names, inputs, strict=True))}
            values = [known[name] for name in taken_again]
            ctx.values = [None if isinstance(each, Tensor) else each for each in values]
            ctx.save_for_backward(*[each for each in values if isinstance(each, Tensor)])
            ctx.client = inputs[-1]

        @staticmethod
        def backward(ctx: Any, grad_input: Tensor, *more: Any) -> Any:
            if local is not None:
                given, needs, found = ctx.saved_tensors, ctx.needs_input_grad, [None] * len(names)
                # It is linear in grad_output, element by element, with the same factors.
                is_own = not is_several and grad_input.shape == given[0].shape
                if is_own and needs[0]:
                    found[0] = Gradient.apply(grad_input, *given[1:], *ctx.rest)
                # No operator is its derivative by the other arguments.
                places = [place for place in range(int(is_own), inputs_count) if needs[place]]
                if places:
                    arguments = [*given, *ctx.rest[: len(row.spec.attributes)]]
                    wanted = ctx.rest[-2] if is_several else (True,)
                    pulled = _pulled(local, arguments, places, (grad_input, *more), wanted)
                    for place, each in zip(places, pulled, strict=True):
                        found[place] = each
                return tuple(found)
            if not is_linear:
                problem = "has no second derivative on a server"
                raise InvalidFieldError.at(function, problem, "call PyTorch's own function, outside of the block")
            saved = iter(ctx.saved_tensors)
            values = [next(saved) if each is None else each for each in ctx.values]
            found = again(grad_input, *values, ctx.client)
            return found[0] if isinstance(found, tuple) else found, *[None] * (len(names) - 1)

        @staticmethod
        def vmap(info: Any, in_dims: Values, *values: Any) -> Any:
            return _folded(row, Gradient.apply, info.batch_size, dict(zip(names, values, strict=True)), in_dims)

    return Gradient.apply


def _pulled(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    places: Sequence[int],
    given: Sequence[Tensor],
    wanted: Sequence[bool] = (True,),
) -> Sequence[Tensor]:
    """Returns PyTorch's gradients of the arguments at these places, given those of the function's wanted outputs."""

    def of_some(*some: Tensor) -> tuple[Tensor, ...]:
        changed = dict(zip(places, some, strict=True))
        output = function(*[changed.get(place, each) for place, each in enumerate(arguments)])
        outputs = output if isinstance(output, tuple) else (output,)
        return tuple(each for each, is_wanted in zip(outputs, wanted, strict=True) if is_wanted)

    _, pull = torch.func.vjp(of_some, *[arguments[place] for place in places])
    gradients: Sequence[Tensor] = pull(tuple(each for each, is_wanted in zip(given, wanted, strict=True) if is_wanted))
    return gradients


def _folded(
    row: Row, function: Callable[..., Any], size: int, values: Mapping[str, Any], in_dims: Values
) -> tuple[Any, Any]:
    """Returns the outputs of all elements, and their mapped axes: the first, or None if not wanted."""
    call = mapped(function, size, values, in_dims, max(row.ranks))
    if "running_mean" in call.common and "momentum" in values and values["training"]:
        raise LocalError("the elements of vmap have running statistics in common")
    output = row.fold(call)
    if not isinstance(output, tuple):
        return output, 0
    wanted = values.get("wanted", [True] * len(output))
    return output, tuple(0 if is_wanted else None for is_wanted in wanted)


FUNCTIONS: Final = {name: _differentiable(each) for name, each in OPERATIONS.items()}
"""The functions by the names of their rows; they take the row's arguments and a client's number."""
