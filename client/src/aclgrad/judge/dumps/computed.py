"""PyTorch's results of a recorded call: in float64, in PyTorch's own dtypes, and only their types."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from aclgrad.judge.dumps.apis import Api, find_apis
from aclgrad.judge.dumps.choices import DROPOUTS, NotJudgedError, as_recorded, probability_of, wrong_share
from aclgrad.judge.dumps.products import (
    ROUNDINGS,
    TERMS_OF_OUTPUTS,
    RoundedProducts,
    absolute_number,
    function_of_terms,
    is_product,
)
from aclgrad.judge.dumps.recorded import Recorded, mapped, tensors_of
from aclgrad.judge.dumps.runs import HALVES, NARROW, SINGLE, WIDE, Dtypes, Run, run
from aclgrad.judge.msprobe.dump import EntryError

_SAME: Final[dict[torch.dtype, torch.dtype]] = {}
_SHARES: Final = ("softmax", "softmin")
"""Functions whose results are shares of a sum, with errors in proportion to each."""
_ATTENTION: Final = "scaled_dot_product_attention"
_DATA_DEPENDENT: Final = ("meta", "Meta", "data-independent", "data-dependent")
"""Words of PyTorch's messages if a function needs the values of its arguments."""


class Watch(TorchDispatchMode):
    """Counts floating-point operations of products, and detects random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.is_random = False
        self.is_pointwise = True

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        result = function(*args, **options)
        count = flop_registry.get(function.overloadpacket)
        if count is not None:
            self.operations += count(*args, **options, out_val=result)
        self.is_pointwise &= torch.Tag.pointwise in function.tags or function.is_view
        self.is_random |= torch.Tag.nondeterministic_seeded in function.tags and not _has_no_dropout(
            function, args, options
        )
        return result


def _has_no_dropout(function: Any, args: Sequence[Any], options: dict[str, Any]) -> bool:
    """Returns whether an operator draws no numbers because its dropout is 0."""
    names = [each.name for each in function._schema.arguments]  # noqa: SLF001
    for name in ("dropout_p", "dropout", "training"):
        if name in names:
            number = names.index(name)
            return not (args[number] if number < len(args) else options.get(name, 0.0))
    return False


@dataclass(frozen=True, slots=True)
class Seen:
    """The properties of a call."""

    outputs: tuple[tuple[torch.dtype, tuple[int, ...]], ...] | None
    """The types of its results; None if they depend on values."""
    operations: int = 0
    is_random: bool = False
    is_pointwise: bool = False
    returns_argument: bool = False
    """Whether the result is an unchanged argument, so that nothing is computed."""
    problem: str = ""
    """Why PyTorch refuses the call, perhaps only without values."""


def watch(api: Api, call: Recorded, dtype: torch.dtype | None = None) -> Seen:
    """Returns the properties of the call in its arguments' dtypes, or with floats in another dtype."""

    def without_numbers(tensor: Tensor) -> Tensor:
        own = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        return torch.empty_like(tensor, device="meta", dtype=own, requires_grad=False)

    args, kwargs = (mapped(without_numbers, each) for each in (call.args, call.kwargs))
    if "device" in kwargs:
        kwargs["device"] = "meta"
    mode = Watch()
    try:
        with torch.no_grad(), torch.device("meta"), mode:
            result = api.function(*args, **kwargs)
    except NotJudgedError:
        raise
    except Exception as error:  # PyTorch has many errors for arguments, and some operators need values
        return Seen(None, mode.operations, mode.is_random, problem=str(error))
    outputs = tensors_of(args[0] if result is None and args else result)
    is_argument = any(outputs[0] is each for each in tensors_of((args, kwargs))) if outputs else False
    types = tuple((each.dtype, tuple(each.shape)) for each in outputs)
    return Seen(types, mode.operations, mode.is_random, mode.is_pointwise, is_argument)


class Computed:
    """The runs of one call, each made on first use and kept.

    Raises NotJudgedError if the call cannot be repeated.
    """

    def __init__(self, call: Recorded) -> None:
        self.call = call
        self.api, self.seen, self.first = _chosen(call)
        """The last one is autocast's dtype of the arguments, or None."""
        if _has_inplace(self.api.function, call):
            self.api = replace(self.api, is_in_place=True)
        if self.seen.is_random:
            self.api = _repeatable(self.api, call)

    def rounded_dtype(self, recorded: Tensor) -> torch.dtype:
        """Returns the dtype to which a result was rounded: its own, or a narrower one of autocast."""
        return self.first if self.first in HALVES and self.first is not None else recorded.dtype

    @property
    def has_halves(self) -> bool:
        """Whether the call computes in a dtype of 16 bits."""
        return self.first in HALVES or any(
            each.dtype in HALVES for each in tensors_of((self.call.args, self.call.kwargs))
        )

    def has_own_sizes(self, result: Tensor, *, is_output: bool) -> bool:
        """Returns whether each element's error is in proportion to the element, because no sum has made it small."""
        if is_output and self.api.name.rpartition(".")[2] in _SHARES:
            return True
        return self.seen.is_pointwise and result.shape == self.wide.outputs[0].shape

    def terms_of(self, result: Tensor) -> float:
        """Returns how many terms are summed in an element of the result, at most and on average."""
        sizes = [each.numel() for each in (*tensors_of((self.call.args, self.call.kwargs)), *self.wide.outputs)]
        terms = float(max(self.seen.operations / 2, *sizes, 1))
        return max(terms / max(int(result.numel()), 1), 1.0)

    @property
    def is_overwritten(self) -> bool:
        """Whether the recorded argument that the call changes in place already has the result's elements."""
        arguments, output = tensors_of(self.call.args), self.call.outputs[0]
        return bool(arguments) and output is not None and torch.equal(arguments[0].detach(), output.tensor)

    @property
    def is_last_step_alone(self) -> bool:
        """Whether the last step of the function returns the gradient of an inner value, and not of an argument."""
        run = self.wide
        pairs = zip(run.gradients, run.owners, strict=False)
        return not self.api.is_in_place and not any(owner is not None for each, owner in pairs if each is not None)

    def wrong_share(self) -> str:
        """Returns the problem of a dropout's dropped share; empty if there is none."""
        output = self.call.outputs[0]
        assert output is not None
        probability = probability_of(*self.call.args, **self.call.kwargs)
        return wrong_share(tensors_of(self.call.args)[0].detach(), output.tensor, probability)

    @cached_property
    def wide(self) -> Run:
        """The run in float64, or complex128."""
        return self._run(Dtypes(WIDE, self.first))

    @cached_property
    def single(self) -> Run:
        """The run in float32, or in the dtype of the arguments if that is wider."""
        return self._run(Dtypes(SINGLE, self.first))

    @cached_property
    def own(self) -> Run:
        """The run in the dtype of the arguments after autocast."""
        return self._run(Dtypes(_SAME, self.first))

    @cached_property
    def narrow(self) -> Run:
        """The run in float32 of a call in float64: its errors are float64's, scaled."""
        return self._run(Dtypes(NARROW, self.first))

    @cached_property
    def terms(self) -> Run | None:
        """The sums of |terms| of all results, or None if they are unknown."""
        name = self.api.name.rpartition(".")[2]
        if (of_loss := TERMS_OF_OUTPUTS.get(name)) is not None:
            forward = replace(self.call, entry=replace(self.call.entry, backward=None))
            return run(self.api, forward, Dtypes(WIDE, self.first), function=of_loss)
        function = function_of_terms(name, self.api.function)
        if function is None:
            return None
        gradients = tuple(None if each is None else each.abs() for each in self.call.grad_outputs)
        call = replace(self.call, grad_outputs=gradients)
        absolute = Dtypes(WIDE, self.first, torch.abs)
        return run(self.api, call, absolute, function=function, number=absolute_number(name))

    def layouts(self) -> Iterator["Computed"]:
        """Yields the call itself, and the same with its first argument transposed in memory.

        A dump has no strides, and PyTorch computes a linear layer of a transposed input differently.
        """
        yield self
        if self.api.name.rpartition(".")[2] != "linear" or not self.call.args or self.call.args[0].dim() < 3:
            return
        input, *rest = self.call.args
        transposed = input.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_(input.requires_grad)
        yield Computed(replace(self.call, args=(transposed, *rest)))

    @cached_property
    def with_rounded_mask(self) -> "Computed | None":
        """The same attention with its mask in the query's dtype: whether autocast rounded it, a dump does not show."""
        if self.api.name.rpartition(".")[2] != _ATTENTION or not self.has_halves:
            return None
        call, dtype = self.call, self.seen.outputs[0][0] if self.seen.outputs else torch.float32

        def rounded(value: Any) -> Any:
            return value.to(dtype).to(value.dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

        options = {name: rounded(each) if name == "attn_mask" else each for name, each in call.kwargs.items()}
        return Computed(replace(call, args=(*call.args[:3], *map(rounded, call.args[3:])), kwargs=options))

    def rounded(self, precision: str) -> Run:
        """Returns the run in float64 with rounded operands of products."""

        @contextmanager
        def within() -> Iterator[None]:
            with sdpa_kernel(SDPBackend.MATH), RoundedProducts(ROUNDINGS[precision]):
                yield

        return run(self.api, self.call, Dtypes(WIDE, self.first), within=within)

    def _run(self, dtypes: Dtypes) -> Run:
        try:
            return run(self.api, self.call, dtypes)
        except NotJudgedError:
            raise
        except Exception as error:  # PyTorch has many errors for arguments
            raise NotJudgedError(f"PyTorch refuses the call: {error}") from error


def _chosen(call: Recorded) -> tuple[Api, Seen, torch.dtype | None]:
    """Returns the first function of the call's name that fits the dump, and its properties.

    Raises NotJudgedError if none does.
    """
    reasons = []
    for api in find_apis(call.entry.name.rpartition(".")[0]):
        try:
            seen, first = _seen(api, call)
        except NotJudgedError as reason:
            reasons.append(reason)
            continue
        if seen.outputs is not None or not seen.problem or _needs_numbers(seen):
            return api, seen, first
        reasons.append(NotJudgedError(f"PyTorch refuses the call: {seen.problem}"))
    raise reasons[0]


def _needs_numbers(seen: Seen) -> bool:
    return any(word in seen.problem for word in _DATA_DEPENDENT)


def _has_inplace(function: Callable[..., Any], call: Recorded) -> bool:
    """Returns whether the function has an argument `inplace` that is true."""
    try:
        arguments = inspect.signature(function).bind(*call.args, **call.kwargs).arguments
    except (TypeError, ValueError):  # builtin functions have no signature
        return False
    return arguments.get("inplace", False) is True


def _seen(api: Api, call: Recorded) -> tuple[Seen, torch.dtype | None]:
    """Returns the properties of the call, and autocast's dtype of its arguments.

    A dump has the arguments before autocast, so only the dtypes of results show it. Raises NotJudgedError if the
    function's results have other types.
    """
    recorded = next((each.info for each in call.outputs if each is not None), None)
    if recorded is None:
        returns = (
            "returns no tensor" if call.entry.outputs else "was computed again in a backward pass, or raised an error"
        )
        raise NotJudgedError(f"the dump has no result of it: it {returns}")
    dtype = getattr(torch, recorded.dtype)
    seen, first = watch(api, call), None
    natural = seen.outputs[0][0] if seen.outputs else None
    name = api.name.rpartition(".")[2]
    # Attention adds a mask of float32 to scores of any dtype.
    operands = (call.args[:3], {**call.kwargs, "attn_mask": None}) if name == _ATTENTION else (call.args, call.kwargs)
    floats = [each for each in tensors_of(operands) if each.is_floating_point() and each.dim()]
    mixes = len({each.dtype for each in floats}) > 1
    is_refused = natural is None and mixes and not _needs_numbers(seen)
    # A product takes operands of only one dtype, which the meta device does not check.
    is_cast = mixes and dtype in HALVES and is_product(name)
    if dtype.is_floating_point and (is_refused or is_cast or (natural is not None and natural != dtype)):
        first = dtype
        seen = watch(api, call, first)
    if seen.outputs and seen.outputs[0] != (dtype, recorded.shape):
        given, shape = seen.outputs[0]
        name = str(given).removeprefix("torch.")
        have = f"{recorded.dtype} {recorded.shape}"
        raise NotJudgedError(f"its arguments give {name} {shape} and the dump has {have}; something changed them")
    return seen, first


def _repeatable(api: Api, call: Recorded) -> Api:
    """Returns a function that repeats the random one; raises NotJudgedError if the dump does not show its choices."""
    name = api.name.rpartition(".")[2]
    output = call.outputs[0]
    if name not in DROPOUTS or output is None or not tensors_of(call.args):
        raise NotJudgedError("it draws random numbers")
    input = tensors_of(call.args)[0].detach()
    gradients = [each for each in call.gradients if each is not None]
    probability = probability_of(*call.args, **call.kwargs)
    try:
        recorded, gradient = output.tensor, gradients[0].tensor if gradients else None
        mask = call.outputs[1].tensor if len(call.outputs) > 1 and call.outputs[1] else None
    except EntryError as error:
        raise NotJudgedError(f"it draws random numbers, and {error}") from error
    return replace(api, function=as_recorded(name, probability, input, recorded, gradient, mask))
