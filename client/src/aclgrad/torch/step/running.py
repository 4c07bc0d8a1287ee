"""One run of a plan: its local nodes, and its programs with this run's values."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx

from aclgrad._client.calls.handles import Handle
from aclgrad.torch.calls import Array, tensor_of
from aclgrad.torch.step.computing import as_traced, computed
from aclgrad.torch.step.plan import Part, Plan


def run(plan: Plan, tensors: Sequence[Tensor]) -> dict[fx.Node, Tensor]:
    """Runs a plan for the inputs of its trace, and returns the outputs."""
    values: dict[fx.Node, Any] = {**dict(zip(plan.trace.inputs, tensors, strict=True)), **plan.constants}
    with as_traced():
        for part in plan.parts:
            for node in part.local:
                values[node] = computed(node, values)
            values.update(sent(part, values))
    return {node: values[node] for node in plan.trace.outputs}


def sent(part: Part, values: Mapping[fx.Node, Any]) -> dict[fx.Node, Tensor]:
    """Runs the program of a part, and returns the values for later parts and the step's outputs."""
    if not part.wanted:
        return {}
    arrays = part.program.run(*part.wanted.values(), values=given(part, values))
    return dict(zip(part.wanted, map(tensor_of, arrays), strict=True))


def given(part: Part, values: Mapping[fx.Node, Any]) -> dict[Handle, Array]:
    """Returns the arrays for the placeholders of a part's program."""
    return {handle: each.form(values[each.node].detach()) for each, handle in part.sent.values()}
