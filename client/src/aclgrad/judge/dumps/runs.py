"""Runs of a recorded call by PyTorch, in float64 and other dtypes, with the gradients that its last step returns.

msprobe hooks the autograd node that made the call's first output, and records its inputs and results in the backward
pass. For most functions that is the whole backward pass; a run reads the same node. A dump does not name nodes, and on
the device that made it, the last step of a function may differ from PyTorch's here.
"""

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.judge.dumps.apis import Api
from aclgrad.judge.dumps.recorded import Recorded, Result, mapped, nested, tensors_of

Cast = Callable[[Tensor], Tensor]

WIDE: Final = {
    **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex64,
}
HALVES: Final = (torch.float16, torch.bfloat16)
NARROW: Final = {torch.float64: torch.float32, torch.complex128: torch.complex64}
SINGLE: Final = dict.fromkeys(HALVES, torch.float32)
_STATUS: Final = Path("/proc/self/status")
_MEMORY: Final = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The results of a call in one dtype. Tensors are detached."""

    outputs: tuple[Tensor, ...]
    gradients: tuple[Tensor | None, ...] = ()
    """The gradients that the last step returns, in the order of its inputs."""
    owners: tuple[int | None, ...] = ()
    """For each of them, the index of its tensor among the arguments' tensors; None for an inner value."""
    of_arguments: tuple[Tensor | None, ...] = ()
    """The gradients of all tensors among the arguments; None if not needed."""


@dataclass(frozen=True, slots=True)
class Dtypes:
    """A change of dtypes: of tensors, and of the dtypes among the arguments."""

    of: dict[torch.dtype, torch.dtype]
    first: torch.dtype | None = None
    """The dtype to which autocast has rounded tensors first."""
    after: Cast = lambda each: each
    """A final change of floats."""

    def tensor(self, tensor: Tensor) -> Tensor:
        if self.first is not None and tensor.is_floating_point():
            tensor = tensor.to(self.first)
        cast = tensor.to(self.of.get(tensor.dtype, tensor.dtype))
        return self.after(cast) if cast.is_floating_point() or cast.is_complex() else cast

    def argument(self, value: Any) -> Any:
        return nested(lambda each: self.of.get(each, each) if isinstance(each, torch.dtype) else each, value)


def run(
    api: Api,
    call: Recorded,
    dtypes: Dtypes,
    *,
    function: Callable[..., Any] | None = None,
    within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    number: Callable[[Any], Any] = lambda each: each,
) -> Run:
    """Returns the results of the call; raises PyTorch's errors.

    `within` makes the context of both passes, and `number` changes plain numbers among the arguments.
    """
    leaves: list[Tensor] = []
    indices: list[int] = []
    count = 0

    def argument(tensor: Tensor) -> Tensor:
        nonlocal count
        count += 1
        leaf = dtypes.tensor(tensor.detach())
        if wants and tensor.requires_grad and (leaf.is_floating_point() or leaf.is_complex()):
            # A new tensor if the cast returned its argument.
            leaf = leaf.detach().requires_grad_()
            leaves.append(leaf)
            indices.append(count - 1)
        return leaf.clone() if api.is_in_place else leaf

    wants = call.has_backward and not call.backward_fault
    with torch.set_grad_enabled(wants), within():
        args, kwargs = (mapped(argument, dtypes.argument(each)) for each in (call.args, call.kwargs))
        args, kwargs = (nested(lambda one: number(one) if _is_number(one) else one, each) for each in (args, kwargs))
        result = (function or api.function)(*args, **kwargs)
        outputs = tensors_of(args[0] if result is None and args else result)
        gradients, owners, found = _backward(outputs, leaves, call.grad_outputs) if wants else ((), (), ())
        detached = tuple(each.detach() for each in outputs)
    of_arguments: list[Tensor | None] = [None] * count
    for index, gradient in zip(indices, found, strict=False):
        of_arguments[index] = gradient
    owned = tuple(None if each is None else indices[each] for each in owners)
    return Run(detached, gradients, owned, tuple(of_arguments))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Backward = tuple[tuple[Tensor | None, ...], tuple[int | None, ...], tuple[Tensor | None, ...]]


def _backward(outputs: Sequence[Tensor], leaves: Sequence[Tensor], grad_outputs: Sequence[Tensor | None]) -> Backward:
    node = outputs[0].grad_fn if outputs else None
    if node is None:
        return (), (), ()
    returned: list[tuple[Tensor | None, ...]] = []
    handle = node.register_hook(lambda gradients, _: returned.append(gradients))
    pairs = [
        (output, given.to(output.dtype))
        for output in outputs
        if output.grad_fn is node and (given := _given(output, grad_outputs)) is not None
    ]
    try:
        found = torch.autograd.grad(
            [output for output, _ in pairs], leaves, [given for _, given in pairs], allow_unused=True
        )
    finally:
        handle.remove()
    indices = {id(leaf): index for index, leaf in enumerate(leaves)}
    owners = tuple(indices.get(id(_variable(step))) for step, _ in node.next_functions)
    gradients = returned[0] if returned else ()
    return tuple(None if each is None else each.detach() for each in gradients), owners, tuple(found)


def _variable(step: Any) -> Tensor | None:
    """Returns the leaf that gets a step's gradient, or None."""
    # A call in place changes a copy of its argument.
    if type(step).__name__ == "CloneBackward0":
        ((step, _),) = step.next_functions
    return getattr(step, "variable", None)


def _given(output: Tensor, grad_outputs: Sequence[Tensor | None]) -> Tensor | None:
    index = output.output_nr
    given = grad_outputs[index] if index < len(grad_outputs) else None
    return given if given is not None and given.shape == output.shape else None


@dataclass(frozen=True, slots=True)
class TensorIndex:
    """A tensor of a run: an output, a gradient that its last step returns, or an argument's gradient."""

    output: int | None = None
    gradient: int | None = None
    argument: int | None = None
    """Counts the tensors among the arguments."""

    def of(self, run: Run) -> Tensor | None:
        """Returns the tensor, or None if the run lacks it."""
        if self.output is not None:
            return _at(run.outputs, self.output)
        if self.gradient is not None:
            return _at(run.gradients, self.gradient)
        return None if self.argument is None else _at(run.of_arguments, self.argument)

    def owner(self, run: Run) -> int | None:
        """Returns the argument's tensor whose gradient this is; None if it is that of no tensor, or of a part."""
        if self.gradient is None:
            return self.argument
        owner, own = run.owners[self.gradient], self.of(run)
        whole = None if owner is None else run.of_arguments[owner]
        return owner if own is not None and whole is not None and torch.equal(own, whole) else None


def matches(
    recorded: tuple[Result | None, ...], run: Run, *, is_module: bool = False
) -> Iterator[list[tuple[Result, TensorIndex]]]:
    """Yields the ways in which all recorded gradients match tensors of the run in shape.

    A module's recorded gradients are only its inputs'; its parameters are further arguments.
    """
    by_step = [TensorIndex(gradient=each) for each in range(len(run.gradients))]
    if len(by_step) == len(recorded) and (found := _matched(recorded, by_step, run)) is not None:
        yield found
    by_argument = [TensorIndex(argument=each) for each in range(len(run.of_arguments))]
    wanted = [each for each in by_argument if each.of(run) is not None]
    inputs = by_argument[: len(recorded)] if is_module else by_argument
    if len(inputs) == len(recorded) and (found := _matched(recorded, inputs, run)) is not None:
        yield found
    results = [each for each in recorded if each is not None]
    if len(wanted) == len(results) and (found := _matched(results, wanted, run)) is not None:
        yield found


def mismatch(recorded: Sequence[Result | None], run: Run) -> str:
    """Returns why recorded gradients match no tensors of the run: missing gradients, or different shapes."""
    by = [each for each in (run.gradients, run.of_arguments) if len(each) == len(recorded)]
    expected = by[0] if by else run.gradients
    if by:
        parts = [
            part for number, pair in enumerate(zip(recorded, expected, strict=True)) for part in _apart(number, *pair)
        ]
    else:
        own = Counter(_shown(each.info.shape) for each in recorded if each is not None)
        due = Counter(_shown(each.shape) for each in expected if each is not None)
        parts = [f"it lacks a gradient of shape {each}" for each in (due - own).elements()]
        parts += [f"it has one of shape {each} more" for each in (own - due).elements()]
    told = "; ".join(parts) or "their order is another"
    return f"the gradients in the dump are not those that a step of the function returns here: {told}"


def _apart(number: int, result: Result | None, tensor: Tensor | None) -> Iterator[str]:
    """Yields the differences between recorded gradients and those of the same index in a run."""
    if result is None and tensor is not None:
        yield f"the dump lacks gradient.{number}, of shape {_shown(tensor.shape)}"
    elif result is not None and tensor is None:
        yield f"there is no {result.name} here"
    elif result is not None and tensor is not None and result.info.shape != tuple(tensor.shape):
        yield f"{result.name} has shape {_shown(result.info.shape)} instead of {_shown(tensor.shape)}"


def _shown(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _matched(
    recorded: Sequence[Result | None], indices: Sequence[TensorIndex], run: Run
) -> list[tuple[Result, TensorIndex]] | None:
    """Returns the results with their tensors; None if a shape differs, or only one side has a gradient."""
    pairs = []
    for result, index in zip(recorded, indices, strict=True):
        tensor = index.of(run)
        if result is None and tensor is None:
            continue
        if result is None or tensor is None or result.info.shape != tuple(tensor.shape):
            return None
        pairs.append((result, index))
    return pairs


def _at(tensors: Sequence[Tensor | None], index: int) -> Tensor | None:
    return tensors[index] if index < len(tensors) else None


@contextmanager
def within_memory() -> Iterator[None]:
    """Limits allocations within the block to the memory that is free now, if the system reports it.

    PyTorch then raises an error for one call; otherwise the system would kill the process. It limits data, not
    addresses, because threads reserve many addresses that they never use.
    """
    limit = _free_bytes()
    if limit is None:
        yield
        return
    resource = importlib.import_module("resource")  # not on every system
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY and soft <= limit:
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _free_bytes() -> int | None:
    """Returns the limit of the process's data: the present size plus free memory. None if Linux does not report it."""
    try:
        used = _kibibytes(_STATUS, "VmData")
        return (used + _kibibytes(_MEMORY, "MemAvailable")) * 1024
    except (OSError, LookupError, ValueError):
        return None


def _kibibytes(path: Path, name: str) -> int:
    lines = dict(line.split(":", 1) for line in path.read_text("utf-8").splitlines() if ":" in line)
    return int(lines[name].split()[0])
