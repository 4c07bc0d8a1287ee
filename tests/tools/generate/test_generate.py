"""A table that does not fit the headers is reported before anything is built; the compiled server is not needed."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aclgrad.operators.catalogue import OPERATORS
from tools.generate.completeness import undeclared

ROOT = Path(__file__).parents[3]
NORM = OPERATORS["layer_norm_backward"]
WITHOUT_COMPILED_CODE = """
import runpy, sys
sys.modules["aclgrad_native"] = None
sys.argv = ["generate", "--check"]
runpy.run_module("tools.generate", run_name="__main__")
"""


def test_every_operator_fits_its_header() -> None:
    assert list(undeclared(OPERATORS.values())) == []


UNPOOL = OPERATORS["max_unpool2d_backward"]
NULLABLE = replace(UNPOOL.outputs[0], is_nullable=True)
UNFIT = {
    "outputs": (
        replace(NORM, outputs=NORM.outputs[:2]),
        "layer_norm_backward: aclnnLayerNormBackward takes the tensors gradOut, input, mean, rstd, weightOptional, "
        "biasOptional, gradInputOut, gradWeightOut, gradBiasOut, and spec.py has 6 inputs and 2 outputs",
    ),
    "attributes": (replace(NORM, attributes=()), "takes the values normalizedShape, and spec.py has 0 attributes"),
    "symbol": (replace(NORM, symbol="aclnnNothing"), "no header declares aclnnNothing"),
    "mask": (replace(UNPOOL, outputs=(NULLABLE,)), "takes no mask, and spec.py has nullable outputs"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_does_not_fit_is_told(case: str) -> None:
    spec, told = UNFIT[case]
    (problem,) = undeclared([spec])
    assert problem.startswith(f"operator {spec.name}: ")
    assert told in problem


@pytest.mark.slow
def test_everything_is_generated_without_compiled_code() -> None:
    command = [sys.executable, "-c", WITHOUT_COMPILED_CODE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
