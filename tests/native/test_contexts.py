"""The current context of threads: ours keep it between calls, and any other thread is given it for each call.

`programs/contexts.cpp` has devices that take turns on one thread of ours.
"""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.once

PROGRAM = """
SET = b"aclrtSetCurrentContext"
library = open_library(steered=True)
grad_output = np.arange(4, dtype=np.float32).reshape(1, 1, -1)
def right(device):
    return bool((pool(device, grad_output, (1, 2, 4)) == grad_output / 2).all())
"""


@pytest.fixture
def run(run_program: Callable[..., list[str]]) -> Callable[..., list[str]]:
    return lambda program, **host: run_program(PROGRAM + program, devices=2, **host)


@pytest.mark.parametrize("host_pointers", [True, False])
def test_a_thread_of_ours_sets_its_context_once(run: Callable[..., list[str]], host_pointers: bool) -> None:
    """Those of calls, of stagings and of copies."""
    program = (
        "device = BlockingDevice(library, stream_limit=1, copy_threads=1)\n"
        "steer.Calls(SET)\n"
        "print(all(right(device) for _ in range(20)), steer.Calls(SET))\n"
        "tensors = [device.stage(1000)[0] for _ in range(5)]\n"
        "print(steer.Calls(SET))\n"
        "for tensor in tensors:\n"
        "    tensor.write(0, bytes(range(250)) * 4)\n"
        "    assert tensor.read(0, 1000) == bytes(range(250)) * 4\n"
        "device.release_finished()\n"
        "print(steer.Calls(SET))\n"
    )
    assert run(program, host_pointers=host_pointers) == ["True 1", "1", "1"]


def test_a_device_that_is_opened_again_is_set_again(run: Callable[..., list[str]]) -> None:
    program = (
        "for _ in range(3):\n"
        "    device = BlockingDevice(library, stream_limit=1)\n"
        "    steer.Calls(SET)\n"
        "    print(right(device), right(device), steer.Calls(SET))\n"
        "    del device\n"
    )
    assert run(program) == ["True True 1"] * 3


def test_a_thread_that_others_use_too_is_given_the_context_for_every_call(run: Callable[..., list[str]]) -> None:
    """Here the other users are another device, and somebody who sets no context."""
    program = (
        "devices = [BlockingDevice(library, index) for index in range(2)]\n"
        "steer.Calls(SET)\n"
        "plain = ctypes.CDLL(os.environ['STEERED_HOST'])\n"
        "for number in range(6):\n"
        "    device = devices[number % 2].native\n"
        "    assert device.run_short(call, contents, deadline(10), None) is not None\n"
        "    assert plain.aclrtSetDevice(number // 2 % 2) == 0\n"
        "print(steer.Calls(SET))\n"
    )
    assert run(program) == ["6"]
