"""Writes dumps as msprobe 26.2.0 does, from rows of values.

Two dumps in `dumps` are its own: `statistics`, whose random arguments acc_check drew, and `tensor`, with its files.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

DUMPS: Final = Path(__file__).parent / "dumps"


def tensor(*shape: int, dtype: str = "float32", low: Any = -1.0, high: Any = 1.0, **members: Any) -> dict[str, Any]:
    """Returns what a dump tells of a tensor, by default of one of two rows of three that requires grad."""
    told = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": list(shape or (2, 3)), "Max": high, "Min": low}
    return told | {"Mean": None, "Norm": None, "requires_grad": dtype == "float32"} | members


def value(plain: Any) -> Any:
    """Returns how a dump describes an argument that is no tensor; a description stays as it is."""
    if plain is None or isinstance(plain, dict):
        return plain
    if isinstance(plain, list | tuple):
        return [value(each) for each in plain]
    return {"type": type(plain).__name__, "value": plain}


def call(*args: Any, output: Sequence[Any] | None = None, **kwargs: Any) -> dict[str, Any]:
    """Returns a forward entry."""
    named = {name: value(each) for name, each in kwargs.items()}
    return {"input_args": value(args), "input_kwargs": named, "output": [tensor()] if output is None else output}


def both(name: str, forward: Any, gradients: Sequence[Any] = (), given: Any = None) -> dict[str, Any]:
    """Returns the entries of a call, for example of "Functional.relu.0", whose backward pass is given a tensor."""
    return {f"{name}.forward": forward, f"{name}.backward": {"input": [given or tensor()], "output": list(gradients)}}


def write(folder: Path, data: Mapping[str, Any], **members: Any) -> Path:
    told = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, **members}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dump.json").write_text(json.dumps(told | {"data": data}))
    return folder / "dump.json"


def _module(name: str) -> dict[str, Any]:
    forward = {**call(tensor(2, 3, 16, 16)), "parameters": {}}
    backward = {"input": [tensor()], "output": [tensor()]}
    return {f"Module.{name}.MaxPool2d.forward.0": forward, f"Module.{name}.MaxPool2d.backward.0": backward}


def _types() -> dict[str, Any]:
    """Returns calls with arguments of every type that msprobe writes."""
    planes, weight = (
        tensor(2, 4, 6, 6),
        tensor(6, low=1.0, data_name="Functional.layer_norm.0.forward.kwargs.weight.pt"),
    )
    dtype, sizes = {"type": "torch.dtype", "value": "torch.float64"}, {"type": "torch.Size", "value": [12, 12]}
    calls = {
        "softmax": call(planes, dim=-1, dtype=dtype),
        "layer_norm": call(planes, {"type": "torch.Size", "value": [6]}, weight=weight, bias=None, eps=1e-05),
        "interpolate": call(planes, size=sizes),
        "avg_pool2d": call(input=planes, kernel_size=[2, 2], stride=None),
        "max_pool2d": call(planes, kernel_size=2),
        "adaptive_avg_pool2d": call(planes, [None, 3]),
        "embedding": call(tensor(2, dtype="int64", low=1, high=2), tensor(5, 3)),
        "pad": call(tensor(8, 3, 6), [1, 2], mode="replicate"),
        "silu": call(planes, inplace=True),
    }
    return {name: each for api, forward in calls.items() for name, each in both(f"Functional.{api}.0", forward).items()}


def _edges() -> dict[str, Any]:
    """Returns calls of what is no number, empty, complex or without gradient, and one that has raised."""
    nan, images = float("nan"), tensor(1, 2, 6, 6)
    ends = {"low": None, "high": None}
    raised = call(images, 2, 1)
    del raised["output"]
    return {
        **both("Functional.avg_pool2d.0", call(images, 2, 1)),
        **both("Functional.pad.0", call(tensor(1, 4, low=nan, high=nan), [1, 1], mode="reflect")),
        **both(
            "Functional.pad.1", call(tensor(0, 3, 4, **ends), [1, 1], mode="replicate"), given=tensor(0, 3, 6, **ends)
        ),
        **both(
            "Functional.pad.2", call(tensor(1, 2, 4, dtype="complex64", requires_grad=True), [1, 1], mode="replicate")
        ),
        "Functional.pad.3.forward": call(tensor(1, 1, 4, requires_grad=False), [1, 1], mode="replicate"),
        "Functional.avg_pool2d.1.forward": raised,
    }


def _pools(**members: Any) -> dict[str, Any]:
    """Returns two poolings, the second with its indices."""
    indices = [tensor(2, 4, 3, 3, **members), tensor(2, 4, 3, 3, dtype="int64", low=8, high=40, **members)]
    forward = call(tensor(2, 4, 7, 7, **members), 2, 2, output=indices, return_indices=True)
    one = call(tensor(2, 4, 16, 16, **members), 2, output=[tensor(2, 4, 8, 8, **members)], ceil_mode=False)
    return {**both("Functional.max_pool2d.0", one), **both("Functional.max_pool2d.1", forward)}


def _checksums() -> dict[str, Any]:
    told = tensor(1, 2, 6, 6, md5="1a2b3c4d")
    for name in ("Max", "Min", "Mean", "Norm"):
        del told[name]
    return both("Functional.max_pool2d.0", call(told, 2, output=[told]), given=told)


_REGIONS: Final = call(
    tensor(2, 5, 6, 6), tensor(2, 5, requires_grad=False), output_size=[2, 2], spatial_scale=1.0, sampling_ratio=2
)
WRITTEN: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "8.3.3": ({name: each | {"is_recompute": False} for name, each in _pools().items()}, {}),
    "md5": (_pools(md5="1a2b3c4d"), {}),
    "L0": (
        _module("pool") | both("torchvision.ops.roi_align.0", _REGIONS, [tensor(2, 5, 6, 6), None]),
        {"level": "L0"},
    ),
    "mix": (_module("pool") | both("Functional.max_pool2d.0", call(tensor(2, 3, 16, 16), 2)), {"level": "mix"}),
    "edges": (_edges(), {}),
    "types": (_types(), {"task": "tensor", "dump_data_dir": "o4/step0/proc20039/dump_tensor_data"}),
    "xor": (_checksums(), {}),
}
"""Data and members of dumps of other modes and of an older release, 8.3.3."""


def written(folder: Path, name: str) -> Path:
    data, members = WRITTEN[name]
    return write(folder / name, data, **members)
