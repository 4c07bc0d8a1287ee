"""A system that refuses threads: kernels run on those that there are, and the device is not lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.serving import clean_environment

from . import shims
from .forks import ROOT

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("built")]

LARGE_CALLS = """
import ctypes, os, sys
import numpy as np
import aclgrad_native
from aclgrad import reference
from tests.native.blocking import BlockingDevice, deadline
from tests.native.pooling import plan
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
library = aclgrad_native.open("host", sys.argv[1])
if sys.argv[2] == "workers":
    # One of three is there.
    shim.Refuse(1, 1)
device = BlockingDevice(library, stream_limit=3)
if sys.argv[2] == "streams":
    shim.Refuse(0, 1000)
grads = [np.random.default_rng(seed).standard_normal((8, 16, 16), np.float32) for seed in range(6)]
shape = (8, 256, 256)
tickets = [device.waiting.new_ticket() for _ in grads]
for ticket, grad in zip(tickets, grads):
    device.native.submit(ticket, plan(grad.shape, shape), [grad.tobytes(), None], deadline(60))
for ticket, grad in zip(tickets, grads):
    found = np.frombuffer(device.waiting.result(ticket), np.float32).reshape(shape)
    np.testing.assert_allclose(found, reference.adaptive_avg_pool2d_backward(grad, shape), rtol=1e-5, atol=1e-6)
device.native.check_steps()
print(shim.Refused() > 0)
"""


@pytest.mark.parametrize("refused", ["workers", "streams"])
def test_large_calls_are_answered(tmp_path: Path, refused: str) -> None:
    """In an interpreter of its own, because the library that refuses stands before the C library."""
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"threads": 4}}))
    finished = subprocess.run(
        [sys.executable, "-c", LARGE_CALLS, str(config), refused],
        env=clean_environment(PYTHONPATH=str(ROOT), LD_PRELOAD=str(shims.REFUSED_THREADS)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (finished.returncode, finished.stdout) == (0, "True\n"), finished.stderr
