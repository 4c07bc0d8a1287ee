"""The demo that the README names."""

import subprocess
import sys

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product


@pytest.mark.once
def test_the_demo_checks_each_gradient_of_each_operator() -> None:
    done = subprocess.run([sys.executable, "examples/demo.py"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("  ok")]
    served = {name: spec for name, spec in OPERATORS.items() if Product.ATLAS_A2 in spec.products}
    assert [row[0] for row in rows] == [name for name, spec in served.items() for _ in spec.outputs]
