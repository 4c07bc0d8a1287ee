"""A fault on the way; prints a line of JSON with the error that a user sees, and whether the process can go on."""

import json
import sys

import torch
import torch_npu  # noqa: F401 - makes torch.npu

pool_backward = torch.ops.aten._adaptive_avg_pool2d_backward  # noqa: SLF001 - its only name
INPUT, GRADIENT = torch.rand(1, 2, 6, 6), torch.rand(1, 2, 3, 3)


def backward(gradient: torch.Tensor) -> torch.Tensor:
    result = pool_backward(gradient.npu(), INPUT.npu())
    torch.npu.synchronize()
    return result.cpu()


def error_of(gradient: torch.Tensor) -> tuple[str, str] | None:
    try:
        backward(gradient)
    except Exception as error:
        return type(error).__name__, str(error)
    return None


failed = error_of(torch.rand(1, 3, 3, 3) if sys.argv[1] == "refused" else GRADIENT)
print(json.dumps({"failed": failed, "again": error_of(GRADIENT)}), flush=True)
