"""Has msprobe dump a training step that makes every call which a server may differentiate, in float32 and both halves.

Run: python -m tests.frameworks.dumping FOLDER '{"task": "tensor"}'. The second is msprobe's config.json; step0 is in
float32, step1 in float16, step2 in bfloat16, and step3 has calls whose entries are unlike others. In a process of its
own, because msprobe wraps PyTorch's functions.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from msprobe.pytorch import PrecisionDebugger
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.torch import losses
from tests.torch.table import ACTIVATIONS, LINEAR, LOCAL, SEVERAL, Call, grid_sample, random
from tools.benchmarks import torchvision_kernel

DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)

Step = list[Callable[[], Tensor]]


def calls_of(dtype: torch.dtype) -> Step:
    """Returns the calls of a step: functions by position and by keyword, of tensors in lists and modules."""
    import torchvision

    def drawn(*shape: int, seed: int = 5) -> Tensor:
        return random(*shape, seed=seed).to(dtype).requires_grad_()

    def in_dtype(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

    calls: Step = []
    for each in (*LINEAR, *ACTIVATIONS, *SEVERAL, *losses.ACTIVATIONS, *losses.LOSSES, *losses.IMAGES):
        is_plain = each.outputs or (each.input.numel() and 0 < each.input.dim() < 8)
        if each.function == "ctc_loss" and dtype is not torch.float32:  # PyTorch has no kernel for it
            continue
        if is_plain and each.function not in LOCAL:
            narrow = each.in_dtype(dtype)
            calls.append(partial(_of_row, narrow, narrow.leaves()))
    planes, volumes = drawn(2, 3, 8, 9), drawn(2, 3, 4, 8, 9)
    norms = [module.to(dtype) for module in (nn.LayerNorm(9), nn.BatchNorm2d(3), nn.BatchNorm2d(3).eval())]
    modules = [*norms, nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1)]
    calls += [partial(module, planes) for module in modules]
    grid = in_dtype(grid_sample().values[1])
    boxes = in_dtype(torch.tensor([[0, 0, 0, 7, 7], [1, 1, 1, 6, 6.0]]))
    listed = [in_dtype(torch.tensor([[0, 0, 6, 6.0]])), in_dtype(torch.tensor([[1, 0, 5, 4], [2, 2, 7, 7.0]]))]
    calls += [
        partial(_call, functional, "layer_norm", planes, [9], drawn(9, seed=6), drawn(9, seed=7), 1e-6),
        partial(_call, functional, "batch_norm", planes, None, None, drawn(3, seed=6), drawn(3, seed=7), True),
        partial(_call, functional, "grid_sample", planes, grid, "bilinear", "zeros", False),
        partial(_call, functional, "avg_pool2d", input=planes, kernel_size=(2, 2), stride=None),
        partial(_call, functional, "max_pool2d", planes.transpose(2, 3), 2, return_indices=True),
        partial(_call, functional, "max_pool2d_with_indices", planes, 3, 2, 1),
        partial(_call, torch, "max_pool2d", planes, 2),
        partial(_call, functional, "upsample", planes, size=(5, 5)),
        partial(_call, functional, "upsample", planes, None, 2),
        partial(_call, functional, "adaptive_avg_pool3d", volumes, (1, 2, 2)),
        partial(_call, functional, "pad", volumes, [1, 1, 1, 1, 1, 1], "reflect"),
        partial(_call, functional, "softmax", planes, dim=-1),
        # What no operator computes is in every dump.
        partial(_call, functional, "pad", planes, (1, 1)),
        partial(_call, functional, "interpolate", planes, scale_factor=2, mode="bicubic"),
        partial(_call, functional, "dropout", planes, 0.3, True),
    ]
    if dtype is not torch.bfloat16:  # torchvision has no kernel for it
        calls += [
            partial(_call, torchvision.ops, "roi_align", planes, boxes, (3, 4), 1.0, 2, True),
            partial(_call, torchvision.ops, "roi_align", planes, listed, output_size=3, spatial_scale=0.5),
        ]
    return calls


def odd_calls() -> Step:
    """Returns calls that are recomputed, under autocast, without a batch, of odd layouts and of what is no number."""
    planes = random(2, 3, 8, 8).requires_grad_()
    broken = torch.tensor([[1.0, float("inf"), float("nan"), -2.0]], requires_grad=True)

    def under_autocast() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            convolved = functional.conv2d(planes, random(3, 3, 3, 3))
            return functional.layer_norm(functional.max_pool2d(convolved, 2), [3])

    return [
        partial(checkpoint, lambda each: functional.avg_pool2d(each, 2), planes, use_reentrant=False),
        under_autocast,
        partial(_call, functional, "max_pool2d", random(3, 6, 6).requires_grad_(), (2, 2)),
        partial(
            _call, functional, "avg_pool2d", planes.detach().to(memory_format=torch.channels_last).requires_grad_(), 2
        ),
        partial(_call, functional, "interpolate", planes, size=torch.Size([12, 16])),
        partial(_call, functional, "pad", broken, (1, 1), mode="reflect"),
        partial(_call, functional, "pad", torch.zeros(0, 3, 4, requires_grad=True), (1, 1), mode="replicate"),
        partial(_call, functional, "pad", torch.complex(planes, planes), (1, 1, 1, 1), mode="replicate"),
        partial(_call, functional, "layer_norm", planes.detach().to(torch.bfloat16).requires_grad_(), (8,), bias=None),
    ]


def _of_row(call: Call, leaves: list[Any]) -> Tensor:
    """Calls a function that is looked up now: msprobe wraps it when it starts, and wants tensors by position."""
    first, *others = leaves
    named = dict(zip(call.tensors[1:], others, strict=True))
    return getattr(functional, call.function)(first, *call.args, **named, **call.options)


def _call(module: Any, name: str, *args: Any, **options: Any) -> Tensor:
    found = getattr(module, name)(*args, **options)
    return found[0] if isinstance(found, tuple) else found


def main() -> None:
    folder, config = Path(sys.argv[1]), json.loads(sys.argv[2])
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as stubs:
        torchvision_kernel.load(Path(stubs))
        import torchvision
    path = folder.with_suffix(".json")
    path.write_text(json.dumps({"dump_path": str(folder), "rank": [], "step": [], "level": "L1", **config}))
    path.chmod(0o640)  # msprobe refuses what others may write
    debugger = PrecisionDebugger(config_path=str(path))
    PrecisionDebugger.register_custom_api(torchvision.ops, "roi_align", "torchvision.ops")
    for calls in (*map(calls_of, DTYPES), odd_calls()):
        gradients = [_like(call()) for call in calls]
        debugger.start()
        torch.autograd.backward([call() for call in calls], gradients)
        debugger.stop()
        debugger.step()


def _like(output: Tensor) -> Tensor:
    """Returns a gradient of its own seed: that of a norm along its own input is zero, and only rounding is left."""
    return random(*output.shape, seed=8).to(output.dtype)


if __name__ == "__main__":
    main()
