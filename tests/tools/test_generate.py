"""A table that does not fit the headers is reported before anything is built; the compiled server is not needed."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from aclgrad.operators.catalogue import OPERATORS

ROOT = Path(__file__).parents[2]
NORM = OPERATORS["layer_norm_backward"]
WITHOUT_THE_SERVER = """
import runpy, sys
sys.modules["aclgrad_server"] = sys.modules["aclgrad_native"] = None
sys.path.insert(0, "client")
sys.argv = ["client/generate.py", "--check"]
runpy.run_path("client/generate.py", run_name="__main__")
"""


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setattr(sys, "path", [str(ROOT / "client"), *sys.path])
    yield import_module("generate")
    del sys.modules["generate"]


def test_every_operator_fits_its_header(generate: ModuleType) -> None:
    assert list(generate.undeclared(OPERATORS.values())) == []


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
def test_what_does_not_fit_is_told(generate: ModuleType, case: str) -> None:
    spec, told = UNFIT[case]
    (problem,) = generate.undeclared([spec])
    assert problem.startswith(f"operator {spec.name}: ")
    assert told in problem


@pytest.mark.slow
def test_everything_is_generated_without_the_server() -> None:
    command = [sys.executable, "-c", WITHOUT_THE_SERVER]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
