"""Prints the largest error of every operator and dtype, against the float64 definition and against PyTorch."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import aclgrad
from aclgrad import reference
from aclgrad.operators.cases import arrays_of, typed_cases
from aclgrad.products import Product
from tests.frameworks.pytorch_gradients import comparable_cases, of_pytorch
from tools.benchmarks import torchvision_kernel
from tools.serving import Server

Row = dict[str, float]


def main() -> None:
    comparable = {str(typed) for typed in comparable_cases()}
    rows: dict[tuple[str, str], Row] = {}
    with Server() as server, aclgrad.Client(server.address) as client:
        for typed in typed_cases(Product.ATLAS_A2):
            arrays = typed.arrays()
            ours = arrays_of(client.execute(typed.spec.name, arrays, typed.case.attributes))
            truths = arrays_of(reference.define(typed.spec.name, arrays, typed.case.attributes))
            row = rows.setdefault((typed.spec.name, typed.dtype), {"cases": 0, "float64": 0.0, "pytorch": 0.0})
            row["cases"] += 1
            row["float64"] = max(row["float64"], largest(ours, truths))
            if str(typed) in comparable:
                row["pytorch"] = max(row["pytorch"], largest(ours, of_pytorch(typed, arrays)))
    print(f"{'operator':<32} {'dtype':<11} {'cases':>5} {'against float64':>16} {'against PyTorch':>16}")
    for (name, dtype), row in rows.items():
        print(f"{name:<32} {dtype:<11} {row['cases']:>5.0f} {row['float64']:>16.1e} {row['pytorch']:>16.1e}")


def largest(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """Returns the largest absolute error of all gradients."""
    pairs = zip(ours, theirs, strict=True)
    return max(float(np.abs(one.astype(other.dtype) - other).max(initial=0.0)) for one, other in pairs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torchvision_kernel.load(Path(folder))
        main()
