"""The gradients of matrix products that bridges take from a server: composites of several operators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aclgrad import composites
from aclgrad.composites import AddmmGradients, LinearGradients, MatmulGradients


@dataclass(frozen=True, slots=True)
class Composite:
    """A function of `aclgrad.composites` that adds the steps of the gradients of `addend + mat1 @ mat2`.

    `mats` names its arguments for mat1 and mat2, `outputs` all fields of its result in order, and `gradients` the
    fields for mat1, mat2 and a possible addend. `operators` are the operators of its steps.
    """

    add_steps: Callable[..., Any]
    mats: tuple[str, str]
    outputs: tuple[str, ...]
    gradients: tuple[str, ...]
    operators: tuple[str, ...]


COMPOSITES: Final[Mapping[str, Composite]] = {
    "addmm_backward": Composite(
        composites.addmm_backward,
        ("mat1", "mat2"),
        AddmmGradients._fields,
        ("grad_mat1", "grad_mat2", "grad_input"),
        ("mm", "matmul", "addmm", "reduce_sum"),
    ),
    "linear_backward": Composite(
        composites.linear_backward,
        ("input", "weight"),
        LinearGradients._fields,
        ("grad_input", "grad_weight", "grad_bias"),
        ("mm", "reduce_sum"),
    ),
    "matmul_backward": Composite(
        composites.matmul_backward,
        ("input", "other"),
        MatmulGradients._fields,
        ("grad_input", "grad_other"),
        ("mm", "matmul", "reduce_sum"),
    ),
}
