"""Makes the call of a bundle again, beside whose unpacked files it lies: `python repeat.py HOST:PORT`.

It needs aclgrad and safetensors, and writes nothing. It exits with 1 if a gradient is outside the tolerance.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import aclgrad
from aclgrad.tensors import DTYPES

FOLDER = Path(__file__).parent


def repeat(target: str) -> bool:
    """Makes the call and says whether its gradients are within the tolerance."""
    call = json.loads((FOLDER / "call.json").read_text("utf-8"))
    inputs: dict[str, Any] = {name: tuple(type["shape"]) for name, type in call["inputs"].items()}
    inputs |= arrays("inputs", call)
    with aclgrad.Client.from_env(target) as client:
        result = client.execute(call["operator"], inputs, call["attributes"], outputs=call["outputs"] or None)
    found = [each for each in (result if isinstance(result, tuple) else (result,)) if each is not None]

    before, is_right = arrays("gradients", call), True
    for (name, expected), gradient in zip(arrays("expected", call).items(), found, strict=True):
        if gradient.shape != expected.shape:
            print(f"{name} is {gradient.shape} instead of {expected.shape}")
            is_right = False
            continue
        tolerance = call["tolerance"][name]
        with np.errstate(all="ignore"):
            error = np.abs(gradient.astype(expected.dtype) - expected)
            limit = tolerance["absolute"] + tolerance["relative"] * np.abs(expected)
            outside = int((~(error <= limit)).sum())
        is_same = gradient.dtype == before[name].dtype and gradient.tobytes() == before[name].tobytes()
        bits = "the same bits as" if is_same else "other bits than"
        print(f"{name}: {outside} of {error.size} elements are outside the tolerance; {bits} in the bundle")
        is_right = is_right and not outside
    return is_right


def arrays(part: str, call: dict[str, Any]) -> dict[str, Any]:
    """Returns the arrays of a file by name. Complex numbers are stored as pairs."""
    stored = load_file(FOLDER / f"{part}.safetensors")
    types = {name: type for name, type in call[part].items() if "dtype" in type}
    return {name: stored[name].view(DTYPES[type["dtype"]].numpy).reshape(type["shape"]) for name, type in types.items()}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python repeat.py HOST:PORT")
    sys.exit(0 if repeat(sys.argv[1]) else 1)
