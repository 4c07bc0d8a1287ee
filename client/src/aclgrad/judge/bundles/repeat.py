"""Repeats the call of the bundle whose unpacked files are beside it: `python repeat.py HOST:PORT`.

It needs aclgrad and safetensors, and writes nothing. It exits with 1 if a gradient is outside the tolerance. The
expected results of a program's steps follow from their inputs in the bundle; for a server that rounds differently,
`aclgrad call --bundle` judges each step by its inputs there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import aclgrad
from aclgrad.judge.programs.form import program_of
from aclgrad.judge.programs.sending import send
from aclgrad.tensors import DTYPES

FOLDER = Path(__file__).parent


def repeat(target: str) -> bool:
    """Makes the call and says whether its gradients are within the tolerance."""
    bundle = json.loads((FOLDER / "program.json").read_text("utf-8"))
    inputs = {f"inputs.safetensors:{name}": array for name, array in arrays("inputs", bundle).items()}
    program, returned = program_of({name: bundle[name] for name in ("steps", "returned")}, inputs.__getitem__)
    with aclgrad.Client.from_env(target) as client:
        found = send(client, program, returned)

    before, is_right = arrays("gradients", bundle), True
    for name, expected in arrays("expected", bundle).items():
        gradient = found[name]
        if gradient.shape != expected.shape:
            print(f"{name} is {gradient.shape} instead of {expected.shape}")
            is_right = False
            continue
        tolerance = bundle["tolerance"][name]
        with np.errstate(all="ignore"):
            error = np.abs(gradient.astype(expected.dtype) - expected)
            limit = tolerance["absolute"] + tolerance["relative"] * np.abs(expected)
            outside = int((~(error <= limit)).sum())
        is_same = gradient.dtype == before[name].dtype and gradient.tobytes() == before[name].tobytes()
        bits = "the same bits as" if is_same else "other bits than"
        print(f"{name}: {outside} of {error.size} elements are outside the tolerance; {bits} in the bundle")
        is_right = is_right and not outside
    return is_right


def arrays(part: str, bundle: dict[str, Any]) -> dict[str, Any]:
    """Returns the arrays of a file by name. Complex numbers are stored as pairs."""
    stored = load_file(FOLDER / f"{part}.safetensors")
    types = bundle[part].items()
    return {name: stored[name].view(DTYPES[type["dtype"]].numpy).reshape(type["shape"]) for name, type in types}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python repeat.py HOST:PORT")
    sys.exit(0 if repeat(sys.argv[1]) else 1)
