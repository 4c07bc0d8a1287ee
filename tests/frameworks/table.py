"""Has msprobe dump the calls whose judgement is tested, and makes the same dump as those tests do.

Run: python -m tests.frameworks.table FOLDER DTYPE. In a process of its own, because msprobe wraps PyTorch's functions.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from msprobe.pytorch import PrecisionDebugger

from tests.torch.judge.table import CALLS
from tests.torch.recording import Recording, function_of, tensors


def drawn(dtype: torch.dtype) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Returns every call of the table twice, with its arguments."""
    generator = torch.Generator().manual_seed(7)
    return [(each.api, *each.drawn(dtype, generator)) for each in CALLS for _ in range(2)]


def run(call: Callable[..., Any], calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
    """Makes the calls, and one backward pass through all."""
    outputs = [each for api, args, options in calls for each in tensors(call(api, *args, **options))]
    results = [each for each in outputs if each.requires_grad]
    # msprobe would record a call of torch.ones_like.
    torch.autograd.backward(results, [torch._C._VariableFunctions.ones_like(each) for each in results])  # noqa: SLF001


def main() -> None:
    folder, dtype = Path(sys.argv[1]), getattr(torch, sys.argv[2])
    config = {"task": "tensor", "dump_path": str(folder / "msprobe"), "rank": [], "step": [], "level": "L1"}
    path = folder / "config.json"
    path.write_text(json.dumps(config | {"risk_level": "ALL"}))
    path.chmod(0o640)  # msprobe refuses what others may write
    recording = Recording(folder / "own")
    run(recording.call, drawn(dtype))
    recording.write()
    debugger = PrecisionDebugger(config_path=str(path))
    calls = drawn(dtype)
    debugger.start()
    run(lambda api, *args, **options: function_of(api)(*args, **options), calls)
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    main()
