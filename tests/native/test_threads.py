"""A system that refuses threads: kernels run on those that there are, and the device is not lost."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sanitizers import COMPILER

pytestmark = pytest.mark.once

REFUSING = """
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

std::atomic<int> allowed{0};
std::atomic<int> to_refuse{0};
std::atomic<int> refused{0};

// After so many that are allowed, refuses so many.
extern "C" void Refuse(int after, int count) { allowed = after; to_refuse = count; }
extern "C" int Refused() { return refused; }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (to_refuse == 0 || allowed-- > 0) return real(thread, how, run, argument);
  --to_refuse;
  ++refused;
  return EAGAIN;
}
"""
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
shape = (8, 512, 512)
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
def test_large_calls_are_answered(run_program: Callable[..., str], tmp_path: Path, refused: str) -> None:
    source, shim, config = tmp_path / "shim.cpp", tmp_path / "libshim.so", tmp_path / "acl.json"
    source.write_text(REFUSING)
    config.write_text(json.dumps({"host": {"threads": 4}}))
    subprocess.run([COMPILER, "-std=c++17", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    assert run_program(LARGE_CALLS, str(config), refused, LD_PRELOAD=str(shim)).split() == ["True"]
