"""The gradients of einsum: each is an einsum of the gradient with the other operands."""

from collections.abc import Sequence

from aclgrad._client.calls.handles import Handle
from aclgrad.composites.contraction import einsum
from aclgrad.composites.operands import (
    Operand,
    OperandLike,
    Program,
    check_shape,
    check_wanted,
    copied,
    operand,
    summed_to,
)
from aclgrad.composites.subscripts import Labels, Subscripts
from aclgrad.errors import InvalidFieldError


def einsum_backward(
    program: Program,
    equation: str,
    grad_output: OperandLike,
    *operands: OperandLike,
    wanted: Sequence[bool] | None = None,
) -> tuple[Handle | None, ...]:
    """Adds the steps of the gradients of `einsum(equation, *operands)`, as PyTorch reads the equation.

    `grad_output` is shaped as the result. Raises InvalidFieldError if the equation does not fit the operands, or has a
    letter twice in an operand (take its diagonal first).
    """
    grad = operand("grad_output", grad_output)
    given = [operand(f"operands[{index}]", each) for index, each in enumerate(operands)]
    subscripts = Subscripts.of(equation, [each.shape for each in given])
    if subscripts.repeats:
        problem = f"{equation!r} has a letter twice in an operand"
        raise InvalidFieldError.at("equation", problem, "take the diagonal before, as a view")
    check_shape("grad_output", grad.shape, subscripts.output_shape([each.shape for each in given]))
    check_wanted(wanted, len(given))
    terms = list(zip([subscripts.output, *subscripts.inputs], [grad, *given], strict=True))
    is_wanted = wanted or [True] * len(given)
    return tuple(_of_operand(program, terms, index) if wants else None for index, wants in enumerate(is_wanted, 1))


def _of_operand(program: Program, terms: Sequence[tuple[Labels, Operand]], index: int) -> Handle:
    labels, own = terms[index]
    others = [term for number, term in enumerate(terms) if number != index]
    known = {label for some, _ in others for label in some}
    found_labels = tuple(label for label in labels if label in known)
    subscripts = Subscripts(tuple(some for some, _ in others), found_labels)
    found = einsum(program, subscripts, [each for _, each in others])
    found = found[tuple(slice(None) if label in known else None for label in labels)]
    # The gradient repeats along axes that the other operands lack, or have with one element.
    spread = [size if each == 1 else each for size, each in zip(own.shape, found.shape, strict=True)]
    if found.shape != tuple(spread):
        found = (found if isinstance(found, Handle) else copied(program, found)).broadcast_to(spread)
    return summed_to(program, found, own.shape)
