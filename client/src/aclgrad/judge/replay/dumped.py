"""The calls of a dump whose gradients operators compute, each as a call that can be repeated."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.judge.dumps.apis import OTHERS
from aclgrad.judge.dumps.recorded import Source
from aclgrad.judge.msprobe.dump import Dump, Entry, EntryError
from aclgrad.judge.msprobe.values import Values, read_values
from aclgrad.judge.replay.calls import RecordedCall
from aclgrad.torch.calls import interpolate, rerouted, rms_norm, roi_align, swiglu


@dataclass(frozen=True, slots=True)
class Api:
    """A function of PyTorch, and the same one with the gradients of a client's server."""

    function: Callable[..., Any]
    remote: Callable[..., Any]


def _remote_npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6, *, client: Client) -> Tensor:
    return rms_norm(input, gamma.shape, gamma, epsilon, client=client)


_INTERPOLATE: Final = Api(functional.interpolate, interpolate)
_OTHERS: Final = {
    "NPU.npu_rms_norm": Api(OTHERS["NPU.npu_rms_norm"], _remote_npu_rms_norm),
    "NPU.npu_swiglu": Api(OTHERS["NPU.npu_swiglu"], swiglu),
    "torchvision.ops.roi_align": Api(OTHERS["torchvision.ops.roi_align"], roi_align),
    # Old names, of the same arguments.
    **dict.fromkeys(("Functional.upsample", "Functional.upsample_nearest"), _INTERPOLATE),
}
"""What need not be installed, and what a block has no need to see."""


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
    return {**found, **_OTHERS}


@dataclass(frozen=True, slots=True)
class Job:
    """One API of a dump, "Functional.pad.0", and its call, or why there is none."""

    name: str
    call: RecordedCall | None
    reason: str = ""

    @property
    def api(self) -> str:
        """The API without the number of the call."""
        return self.name.rpartition(".")[0]


def served_entries(source: Source) -> list[Entry]:
    """Returns the wanted calls with a backward pass of those APIs that operators differentiate."""
    served, wanted = served_apis(), set(source.names())
    return [each for each in source.dump.entries if f"{each.name}.backward" in wanted and _api(each) in served]


def read_jobs(dump: Dump, wanted: Callable[[Entry], bool]) -> Iterator[Job]:
    """Yields those of the `served_entries` that are wanted, with tensors or with the reason why there are none."""
    served = served_apis()
    for entry, values in read_values(dump, wanted):
        if isinstance(values, EntryError):
            yield Job(entry.name, None, str(values))
        else:
            yield _job(entry, values, served[_api(entry)])


def _job(entry: Entry, values: Values, api: Api) -> Job:
    if values.grad_output is None:
        return Job(entry.name, None, "the dump has no gradient of the call's output")
    call = RecordedCall(api.function, api.remote, values.args, values.kwargs, values.grad_output)
    if not any(isinstance(each, Tensor) and each.requires_grad for each in call.inputs().values()):
        return Job(entry.name, None, "none of its tensors needs a gradient")
    return Job(entry.name, call)


def _api(entry: Entry) -> str:
    return f"{entry.prefix}.{entry.api}"
