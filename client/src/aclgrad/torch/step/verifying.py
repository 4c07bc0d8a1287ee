"""Compares a step with PyTorch's own, from the same random numbers: tracing freezes everything that is not a tensor."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from aclgrad.errors import ServerFaultError, StepDiffersError
from aclgrad.torch.step.called import Batch, Called
from aclgrad.torch.step.computing import as_traced, computed
from aclgrad.torch.step.plan import Plan
from aclgrad.torch.step.tracing import Trace

_TOLERANCES: Final = {torch.float32: 1e-3, torch.float64: 1e-3, torch.bfloat16: 5e-2, torch.float16: 5e-2}
"""Norm of a difference over that of the values: two orders of summation differ by this after a hundred layers."""
_OF_GRADIENTS: Final = 50.0
"""Factor for gradients: between nearly equal values, rounding decides which one gets a gradient."""
_OF_MODULES: Final = 10.0
"""Factor for the results of modules."""
_OF_NOISE: Final = 20.0
"""Factor for the effect of changing all parameters in their last bit."""
_SHARE: Final = 1e-2
"""Share of the gradients' mean size: smaller ones are rounding errors of 0."""


@dataclass(slots=True)
class Own:
    """PyTorch's results of a step, by the outputs of its trace."""

    loss: Tensor
    gradients: list[Tensor | None]
    buffers: list[Tensor]
    results: list[Tensor]
    modules: list[tuple[str, list[Tensor]]] = field(default_factory=list)

    def of(self, trace: Trace) -> dict[fx.Node, Tensor]:
        found = {trace.loss: self.loss}
        found |= {node: each for node, each in zip(trace.gradients, self.gradients, strict=True) if node is not None}
        found |= {node: self.buffers[number] for number, node in trace.buffers.items()}
        return found | dict(zip(trace.results, self.results, strict=True))


@contextmanager
def drawing_again(state: Tensor) -> Iterator[None]:
    """Sets the state of PyTorch's generator within the block, and restores it afterwards."""
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(after)


def by_pytorch(
    called: Called,
    batch: Batch,
    gradient: Tensor | None,
    *,
    is_backward: bool,
    with_modules: bool = False,
) -> Own:
    """Computes a step here; parameters and buffers stay as they are."""
    parameters = [each.detach().requires_grad_(each.requires_grad) for each in called.parameters()]
    buffers = [each.detach().clone() for each in called.buffers()]
    modules: list[tuple[str, list[Tensor]]] = []

    def note(path: str, tensors: list[Tensor]) -> None:
        modules.append((path, [each.detach().clone() for each in tensors]))

    with torch.set_grad_enabled(is_backward):
        noted = note if with_modules else None
        values = called.computed(parameters, buffers, batch, gradient, is_backward=is_backward, note=noted)
    results = [each.detach() for each in pytree.tree_leaves(values.result) if isinstance(each, Tensor)]
    return Own(values.loss.detach(), values.gradients, [each.detach() for each in values.buffers], results, modules)


def difference(
    trace: Trace,
    found: Mapping[fx.Node, Tensor],
    own: Mapping[fx.Node, Tensor],
    noise: Mapping[fx.Node, float] | None = None,
) -> str:
    """Returns the output that differs from PyTorch's by more than rounding and a multiple of the `noise`.

    Returns an empty text if none does.
    """
    gradients = [own[each] for each in trace.gradients if each is not None and each in own]
    mean = math.sqrt(
        sum(float(each.double().square().sum()) for each in gradients) / max(sum(each.numel() for each in gradients), 1)
    )
    precision = trace.precision
    for node, expected in own.items():
        is_gradient = node in trace.gradients
        least, factor = (mean * _SHARE, _OF_GRADIENTS) if is_gradient else (0.0, 1.0)
        most = 0.0 if noise is None else _OF_NOISE * noise.get(node, 0.0)
        if not is_near(found[node], expected, precision, least, factor, most):
            return _name(trace, node)
    return ""


def is_near(
    found: Tensor, expected: Tensor, precision: torch.dtype, least: float = 0.0, factor: float = 1.0, noise: float = 0.0
) -> bool:
    """Returns whether values differ only by rounding of a data type.

    Elements are small below `least`, and errors may be `factor` times as large as usual. A distance of `noise` is
    always rounding.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if not expected.is_floating_point():
        return bool(torch.equal(found, expected))
    if not torch.equal(found.isfinite(), expected.isfinite()):
        return False
    size = max(float(_finite(expected).norm()), least * math.sqrt(expected.numel()))
    return _distance(found, expected) <= max(factor * _TOLERANCES.get(precision, 1e-3) * size, noise)


def _distance(one: Tensor, other: Tensor) -> float:
    return float((_finite(one) - _finite(other)).norm())


def _finite(tensor: Tensor) -> Tensor:
    return torch.nan_to_num(tensor.double(), 0.0, 0.0, 0.0)


def _name(trace: Trace, node: fx.Node) -> str:
    if node is trace.loss:
        return "the loss"
    if node in trace.gradients:
        return f"the gradient of {trace.parameter_names[trace.gradients.index(node)]}"
    for number, each in trace.buffers.items():
        if each is node:
            return f"the new value of {trace.buffer_names[number]}"
    return "a result of the loss function"


def raise_difference(
    called: Called,
    batch: Batch,
    gradient: Tensor | None,
    plan: Plan,
    inputs: Sequence[Tensor],
    state: Tensor,
    noise: Mapping[fx.Node, float],
    what: str,
) -> None:
    """Raises StepDiffersError, which names the first differing module, if a step differs from PyTorch's.

    Raises ServerFaultError if the trace by PyTorch does not differ: then a server has computed something wrong.
    """
    is_backward = any(plan.trace.gradients)
    with drawing_again(state):
        outputs = [node for _, nodes in plan.trace.modules for node in nodes]
        values = _by_trace(plan, inputs, [*plan.trace.outputs, *outputs])
    with drawing_again(state):
        own = by_pytorch(called, batch, gradient, is_backward=is_backward, with_modules=True)
    place = _first_other(plan.trace, values, own.modules)
    if not place and not difference(plan.trace, values, own.of(plan.trace), noise):
        problem = f"{what} is not what PyTorch computes from the same trace"
        raise ServerFaultError(f"{problem}; aclgrad.torch.compare_step finds the operator that is wrong")
    where = f"{place} is the first module that differs" if place else "no module differs, but the loss function"
    problem = f"the step is not what PyTorch computes: {what} differs, and {where}"
    remedy = "a trace keeps Python state as it was: have what changes in buffers or the batch, or call reset()"
    raise StepDiffersError(problem, field="step", remedy=remedy)


def noise_of(plan: Plan, inputs: Sequence[Tensor], state: Tensor) -> dict[fx.Node, float]:
    """Returns how much outputs change if all parameters change in their last bit.

    Where rounding decides, such as between equal values, PyTorch's own steps differ by as much. Other inputs stay as
    they are: a mask of large numbers would hide other keys. Computed by the trace, because the model's Python state
    may change with each call.
    """
    eps, outputs = torch.finfo(plan.trace.precision).eps, plan.trace.outputs
    with drawing_again(state):
        plain = _by_trace(plan, inputs, outputs)
    with drawing_again(state):
        count = len(plan.trace.gradients)
        moved = _by_trace(plan, [*(_moved(each, eps) for each in inputs[:count]), *inputs[count:]], outputs)
    return {each: _distance(moved[each], plain[each]) for each in outputs if plain[each].is_floating_point()}


def _moved(tensor: Tensor, share: float) -> Tensor:
    """Returns a copy whose numbers are changed by a share."""
    if not tensor.is_floating_point():
        return tensor
    signs = torch.empty(tensor.shape).bernoulli_(generator=torch.Generator().manual_seed(0)) * 2 - 1
    return tensor.detach() * (1 + signs.to(tensor.dtype) * share)


def _by_trace(plan: Plan, inputs: Sequence[Tensor], wanted: Iterable[fx.Node]) -> dict[fx.Node, Any]:
    """Computes a trace here, and returns the wanted values."""
    nodes = [each for each in plan.trace.graph.graph.nodes if each.op == "call_function"]
    last = {each: node for node in nodes for each in node.all_input_nodes}
    kept = set(wanted)
    values: dict[fx.Node, Any] = {**dict(zip(plan.trace.inputs, inputs, strict=True)), **plan.constants}
    with as_traced():
        for node in nodes:
            if node not in values:
                values[node] = computed(node, values)
            for each in node.all_input_nodes:
                if last[each] is node and each not in kept:
                    values.pop(each, None)
    return values


def _first_other(trace: Trace, values: Mapping[fx.Node, Any], own: Sequence[tuple[str, list[Tensor]]]) -> str:
    """Returns the path of the first module whose results differ in the trace, or whose calls it lacks."""
    precision = trace.precision
    for number, (path, tensors) in enumerate(own):
        if number >= len(trace.modules) or trace.modules[number][0] != path:
            return path
        nodes = trace.modules[number][1]
        if len(nodes) != len(tensors):
            return path
        pairs = [(values[node], tensor) for node, tensor in zip(nodes, tensors, strict=True) if node in values]
        if not all(is_near(one, other, precision, factor=_OF_MODULES) for one, other in pairs):
            return path
    return "" if len(own) == len(trace.modules) else trace.modules[len(own)][0]
