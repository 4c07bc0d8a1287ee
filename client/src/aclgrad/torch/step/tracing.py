"""Traces a step into a functional graph of ATen: forward pass, loss and gradients.

PyTorch traces it twice: as it runs, and again through `functionalize`, which refuses tensors with gradients. Batch norm
changes its running statistics without declaring it in its schema, so it is traced as a function that does.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.torch.aten import OF_SHAPES, ROWS, VIEWS
from aclgrad.torch.step.called import Batch, Called
from aclgrad.torch.step.cleaning import drop_aliases, drop_strides, drop_unused
from aclgrad.torch.step.computing import as_traced
from aclgrad.torch.step.places import Placing, Replaced, place_of, place_of_error

aten: Final = torch.ops.aten


@dataclass(slots=True)
class Trace:
    """The graph of a step. Its inputs are parameters, buffers, the batch's tensors and the gradient of the loss."""

    graph: fx.GraphModule
    inputs: list[fx.Node]
    loss: fx.Node
    gradients: list[fx.Node | None]
    """Gradients by parameter; None if nothing depends on it."""
    buffers: dict[int, fx.Node]
    """The changed buffers, by number."""
    results: list[fx.Node]
    """The tensors in what the loss function returned, in their order there."""
    result: Any
    """The loss function's result, with placeholders for tensors."""
    parameter_names: list[str]
    buffer_names: list[str]
    modules: list[tuple[str, list[fx.Node]]] = field(default_factory=list)
    """The calls of modules in order, by path, with the returned tensors."""

    @property
    def precision(self) -> torch.dtype:
        """The data type of least precision in the computation."""
        values = (each for node in self.graph.graph.nodes for each in pytree.tree_leaves(node.meta.get("val")))
        found = {each.dtype for each in values if isinstance(each, Tensor) and each.is_floating_point()}
        return max(found, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)

    @property
    def outputs(self) -> list[fx.Node]:
        found = [self.loss, *(each for each in self.gradients if each), *self.buffers.values(), *self.results]
        return list(dict.fromkeys(found))


_TRACING: Final = threading.Lock()
"""PyTorch traces in one thread at a time."""


@dataclass(slots=True)
class _Found:
    """The results of a traced call beside its tensors."""

    has_gradient: list[bool] = field(default_factory=list)
    result: Any = None
    buffer_count: int = 0
    modules: list[tuple[str, int]] = field(default_factory=list)


def trace(called: Called, batch: Batch, gradient: Tensor | None, *, is_backward: bool = True) -> Trace:
    """Traces a step for tensors like these; the default gradient of the loss is 1.

    Raises InvalidFieldError, with module and line, if the step reads values or has shapes that depend on them.
    """
    parameters, buffers = list(called.parameters()), list(called.buffers())
    found = _Found()

    def step(
        parameters: list[Tensor], buffers: list[Tensor], tensors: list[Tensor], gradient: list[Tensor]
    ) -> list[Tensor]:
        found.modules.clear()
        outputs: list[Tensor] = []

        def note(path: str, tensors: list[Tensor]) -> None:
            found.modules.append((path, len(tensors)))
            with torch.no_grad():
                # The current values: a later function may change them in place.
                outputs.extend(each.detach().clone() for each in tensors)

        with Placing(called.model):
            clones, seed = [each.clone() for each in buffers], gradient[0] if gradient else None
            given = batch.replaced(tensors)
            values = called.computed(parameters, clones, given, seed, is_backward=is_backward, note=note)
        found.has_gradient = [each is not None for each in values.gradients]
        gradients = [each for each in values.gradients if each is not None]
        results = [each for each in pytree.tree_leaves(values.result) if isinstance(each, Tensor)]
        found.result, found.buffer_count = values.result, len(values.buffers)
        return [each.detach() for each in (values.loss, *gradients, *values.buffers, *results, *outputs)]

    args = (parameters, buffers, batch.tensors, [] if gradient is None else [gradient])
    how: dict[str, Any] = {"tracing_mode": "fake", "_allow_non_fake_inputs": True}
    try:
        with _TRACING, _traceable(), called.unchanged():
            with torch.set_grad_enabled(is_backward):
                first = make_fx(step, _TRACED_AS, **how)(*args)
            _check_shapes(first.graph)
            with as_traced():
                flat = [each.detach() for each in pytree.tree_leaves(args)]
                pure = make_fx(functionalize(Replaced(first).run), _decompositions(), **how)(*flat)
    except AclgradError:
        raise
    except Exception as error:
        raise _refusal(called.model, error) from error
    return _trace_of(called, pure, found)


@contextmanager
def _traceable() -> Iterator[None]:
    """Makes the trace decompose recurrent layers, whose fused functions have no operators.

    The random generator does not change.
    """
    # The context manager of torch.backends.mkldnn warns about its other settings.
    is_on, state = torch._C._get_mkldnn_enabled(), torch.get_rng_state()  # noqa: SLF001
    torch._C._set_mkldnn_enabled(False)  # noqa: SLF001
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(is_on)  # noqa: SLF001
        torch.set_rng_state(state)


def _batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if not training or running_mean is None or running_var is None:
        return NotImplemented
    arguments = weight, bias, running_mean, running_var, training, momentum, eps
    return aten._native_batch_norm_legit.default(input, *arguments)  # noqa: SLF001 - ATen's name


_SAME_FOR_ALL: Final = "a traced step is the same for all values: use torch.where, or compute that part outside"


def _group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Any:
    """For parameters of a wider data type, where PyTorch's fake results differ from its kernel's."""
    if weight is None or weight.dtype == input.dtype:
        return NotImplemented
    output, mean, rstd = aten.native_group_norm.default(input.to(weight.dtype), weight, bias, *rest)
    return output.to(input.dtype), mean, rstd


def _group_norm_backward(
    grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, *rest: Any
) -> Any:
    if weight is None or weight.dtype == input.dtype:
        return NotImplemented
    wide = grad_out.to(weight.dtype), input.to(weight.dtype)
    grad, *others = aten.native_group_norm_backward.default(*wide, mean, rstd, weight, *rest)
    return None if grad is None else grad.to(input.dtype), *others


_TRACED_AS: Final = {
    aten.native_batch_norm.default: _batch_norm,
    aten.native_group_norm.default: _group_norm,
    aten.native_group_norm_backward.default: _group_norm_backward,
}


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns the decompositions of PyTorch's core for functions without a row."""
    core = torch._decomp.core_aten_decompositions()  # noqa: SLF001 - there is no public name
    kept = {*ROWS, *VIEWS, _DECOMPOSED_WRONGLY}
    return {each: core[each] for each in core if each not in kept and _packet(each) not in OF_SHAPES}


_DECOMPOSED_WRONGLY: Final = aten.multilabel_margin_loss_forward.default
"""As in PyTorch 2.13 and 2.14, if classes beyond a row's length follow."""


def _packet(function: Any) -> Any:
    return getattr(function, "overloadpacket", None)


def _trace_of(called: Called, pure: fx.GraphModule, found: _Found) -> Trace:
    graph = pure.graph
    drop_aliases(graph)
    drop_strides(graph)
    (end,) = graph.find_nodes(op="output")
    returned = iter([*end.args[0]])
    inputs = list(graph.find_nodes(op="placeholder"))
    loss = next(returned)
    gradients = [next(returned) if has else None for has in found.has_gradient]
    buffers = [next(returned) for _ in range(found.buffer_count)]
    changed = {
        number: node for number, node in enumerate(buffers) if node is not inputs[len(found.has_gradient) + number]
    }
    leaves = pytree.tree_leaves(found.result)
    results = [next(returned) for each in leaves if isinstance(each, Tensor)]
    modules = [(path, [next(returned) for _ in range(count)]) for path, count in found.modules]
    names = called.parameter_names, called.buffer_names
    made = Trace(pure, inputs, loss, gradients, changed, results, found.result, *names)
    with graph.inserting_before(end):
        graph.output(tuple(made.outputs))
    graph.erase_node(end)
    drop_unused(graph)
    alive = set(graph.nodes)
    made.modules = [(path, [each for each in nodes if each in alive]) for path, nodes in modules]
    return made


def _check_shapes(graph: fx.Graph) -> None:
    """Raises InvalidFieldError if a number was read from a tensor, or a shape depends on values."""
    for node in graph.nodes:
        for each in pytree.tree_leaves(node.meta.get("val")):
            what = "reads a value"
            if isinstance(each, Tensor) and not all(isinstance(size, int) for size in each.shape):
                what = "has a tensor whose shape depends on values"
            elif not isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool):
                continue
            problem = f"{what}, by {node.target} in {place_of(node)}"
            raise InvalidFieldError.at("step", problem, _SAME_FOR_ALL)


def _refusal(model: nn.Module, error: Exception) -> InvalidFieldError:
    """Returns the error of a step that cannot be traced."""
    place = place_of_error(model, error.__traceback__)
    name = type(error).__name__
    if any(each in name for each in ("DataDependent", "DynamicOutputShape")):
        problem = f"depends on values of tensors in {place}"
        return InvalidFieldError.at("step", problem, _SAME_FOR_ALL)
    problem = f"fails while it is traced, in {place}: {name}: {_first_line(error)}"
    remedy = "see the error before this one; the loss function is called with the model and the batch"
    return InvalidFieldError.at("step", problem, remedy)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
