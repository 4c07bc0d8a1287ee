"""The calls of a dump, and the functions whose gradients a server may compute."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.judge.dumps.apis import OTHERS, find_apis
from aclgrad.judge.dumps.npu_functions import CONVOLUTIONS
from aclgrad.judge.dumps.recorded import CASTS, Recorded, Result, Source, tensors_of
from aclgrad.judge.msprobe.dump import Dump, Entry, EntryError, TensorInfo
from aclgrad.judge.msprobe.values import Values, read_values
from aclgrad.judge.replay.calls import PyTorchCall
from aclgrad.judge.replay.dropout import as_it_kept, is_dropout
from aclgrad.judge.replay.fused_attention import remote_npu_fusion_attention
from aclgrad.judge.replay.rotary import remote_npu_rotary_mul
from aclgrad.torch.calls import (
    LocalError,
    interpolate,
    rerouted,
    rms_norm,
    roi_align,
    swiglu,
)

NO_OPERATOR: Final = "no operator computes this gradient"


@dataclass(frozen=True, slots=True)
class Api:
    """A function of PyTorch, and the same one with the gradients of a client's server."""

    function: Callable[..., Any]
    remote: Callable[..., Any]


def _remote_npu_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    *_: Any,
    client: Client,
    **__: Any,
) -> Tensor:
    options = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    remote: Tensor = rerouted()[functional.cross_entropy](input, target, weight, **options, client=client)
    return remote


def _upsample_bilinear(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, **options: Any) -> Tensor:
        return function(input, size, scale_factor, "bilinear", align_corners=True, **options)

    return upsample


def _remote_npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6, *, client: Client) -> Tensor:
    return rms_norm(input, gamma.shape, gamma, epsilon, client=client)


def _with_remote_convolution(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)  # the signature names the arguments
    def remote(*args: Any, client: Client, **kwargs: Any) -> Any:
        return function(*args, **kwargs, convolve=partial(rerouted()[torch.convolution], client=client))

    return remote


_INTERPOLATE: Final = Api(functional.interpolate, interpolate)
_OTHERS: Final = {
    **{name: Api(each, _with_remote_convolution(each)) for name, each in CONVOLUTIONS.items()},
    "NPU.npu_cross_entropy_loss": Api(OTHERS["NPU.npu_cross_entropy_loss"], _remote_npu_cross_entropy),
    "NPU.npu_fusion_attention": Api(OTHERS["NPU.npu_fusion_attention"], remote_npu_fusion_attention),
    "NPU.npu_rms_norm": Api(OTHERS["NPU.npu_rms_norm"], _remote_npu_rms_norm),
    "NPU.npu_rotary_mul": Api(OTHERS["NPU.npu_rotary_mul"], remote_npu_rotary_mul),
    "NPU.npu_swiglu": Api(OTHERS["NPU.npu_swiglu"], swiglu),
    "torchvision.ops.roi_align": Api(OTHERS["torchvision.ops.roi_align"], roi_align),
    # Old names with the same arguments.
    **dict.fromkeys(("Functional.upsample", "Functional.upsample_nearest"), _INTERPOLATE),
    "Functional.upsample_bilinear": Api(_upsample_bilinear(functional.interpolate), _upsample_bilinear(interpolate)),
}
"""Functions of packages that may be missing, and functions that a block does not reroute."""


_DROPOUTS: Final = ("NPU._npu_dropout", "Torch.native_dropout")


def served_apis() -> dict[str, Api]:
    """Returns the APIs that a server may differentiate, by msprobe's names without a number."""
    remotes = rerouted()
    modules = {"Functional": functional, "Torch": torch, "Tensor": Tensor}
    found = {
        f"{prefix}.{name}": Api(function, remotes[function])
        for prefix, module in modules.items()
        for name, function in inspect.getmembers_static(module, callable)
        if function in remotes
    }
    names = {f"NPU.npu_{name}": found[f"Functional.{name}"] for name in ("linear", "mish", "silu")}
    # Each call has its own dropout, which keeps the same elements.
    drawn = {name: Api(find_apis(name)[0].function, found["Functional.dropout"].remote) for name in _DROPOUTS}
    return {**found, **_OTHERS, **names, **drawn}


@dataclass(frozen=True, slots=True)
class Job:
    """One API of a dump, "Functional.pad.0": the call whose gradients are wanted, or why it is missing, and the API."""

    name: str
    call: PyTorchCall | None
    reason: str = ""
    forward: Recorded | str = ""
    """The call whose results are wanted, or why it is missing; empty if they are not wanted."""

    @property
    def api(self) -> str:
        """The API without the number of the call."""
        return self.name.rpartition(".")[0]

    @property
    def size_bytes(self) -> int:
        """The bytes of its tensors."""
        if self.call is not None:
            return self.call.size_bytes
        if isinstance(self.forward, str):
            return 0
        tensors = tensors_of((self.forward.args, self.forward.kwargs))
        return sum(each.numel() * each.element_size() for each in tensors)


def served_entries(source: Source) -> list[Entry]:
    """Returns the wanted calls with a backward pass, of APIs that operators differentiate."""
    served, wanted = served_apis(), set(source.names())
    return [each for each in source.dump.entries if f"{each.name}.backward" in wanted and _api(each) in served]


def read_jobs(dump: Dump, wanted: Callable[[Entry], bool]) -> Iterator[Job]:
    """Yields the wanted calls with their tensors, or why these are missing."""
    served = served_apis()
    for entry, values in read_values(dump, wanted):
        if isinstance(values, EntryError):
            job = Job(entry.name, None, str(values))
        else:
            job = _job(dump, entry, values, served.get(_api(entry)))
        yield replace(job, forward=_forward(dump, entry, values))


def _forward(dump: Dump, entry: Entry, values: Values | EntryError) -> Recorded | str:
    try:
        if not isinstance(values, EntryError):
            return Recorded.of_values(entry, values.args, values.kwargs, dump.tensor_folder)
        # A dump has all arguments of a cast only with its result.
        return Recorded.of(entry, dump.tensor_folder) if entry.api in CASTS else str(values)
    except EntryError as reason:
        return str(reason)


def _job(dump: Dump, entry: Entry, values: Values, api: Api | None) -> Job:
    """Returns the call whose gradients are wanted."""
    if api is None:
        return Job(entry.name, None, NO_OPERATOR)
    if values.grad_output is None:
        return Job(entry.name, None, "the dump has no gradient of the call's output")
    function, remote = api.function, api.remote
    if is_dropout(entry.api):
        try:
            outputs = [Result("output", TensorInfo.of(each), dump.tensor_folder).tensor for each in entry.outputs[:2]]
            function, remote = as_it_kept(entry.api, values.args, values.kwargs, outputs)
        except EntryError as reason:
            return Job(entry.name, None, f"it draws random numbers, and {reason}")
        except LocalError as reason:
            return Job(entry.name, None, str(reason))
    call = PyTorchCall(function, remote, values.args, values.kwargs, values.grad_output)
    if not any(isinstance(each, Tensor) and each.requires_grad for each in call.inputs().values()):
        return Job(entry.name, None, "none of its tensors needs a gradient")
    return Job(entry.name, call)


def _api(entry: Entry) -> str:
    return f"{entry.prefix}.{entry.api}"
