"""Memory that did not come from aclrtMalloc: usable at any address, or refused, as the configuration says."""

import ctypes
import json
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from tools.abi.acl import DATA_TYPES, Library

from .programs_in_forks import call_of
from .table_gradients import placed

NAME = "aclnnAdaptiveAvgPool2dBackward"
RT_PARAM_INVALID, RT_FEATURE_NOT_SUPPORT, PARAM_INVALID = 107000, 207000, 161002

pytestmark = pytest.mark.needs("host memory")


def test_they_are_usable_by_default(acl: Library) -> None:
    usable = ctypes.c_int32(-1)
    assert acl.aclHostPointersUsable(ctypes.byref(usable)) == 0
    assert usable.value == 1
    assert acl.aclHostPointersUsable(None) == 100000


@pytest.mark.parametrize("offset", [1, 3, 7, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_views_work_at_any_byte(acl: Library, dtype: type, offset: int) -> None:
    """All operators, on tensors that are no views: `table_gradients`."""
    generator = np.random.default_rng(0)
    grad, out = (
        placed(generator.standard_normal((2, 3, 2, 3)).astype(dtype), offset),
        placed(np.zeros((2, 3, 6, 4), dtype), offset),
    )
    view = out.transpose(0, 1, 3, 2)
    strides = tuple(stride // out.itemsize for stride in view.strides)
    kind = DATA_TYPES[out.dtype]
    with (
        acl.describe(grad.shape, kind, address=grad.ctypes.data) as first,
        acl.describe(view.shape, kind, strides=strides, address=out.ctypes.data) as second,
    ):
        size, executor = acl.plan(NAME, first, second, second)
        workspace = placed(np.zeros(size, np.uint8), offset)  # the kernel runs after the call
        acl.call(NAME, workspace.ctypes.data, size, executor, None)
        acl.call("aclrtSynchronizeStream", None)
    expected = grad.astype(np.float64).repeat(2, 2).repeat(2, 3).transpose(0, 1, 3, 2) / 4
    np.testing.assert_array_equal(out, expected.astype(dtype))


def print_codes(acl: Library) -> None:
    """Runs on a library that refuses host pointers, and prints the values that the test below compares."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 1)
    elsewhere = acl.create("aclrtMalloc", 96, 0).value
    acl.call("aclrtSetDevice", 0)
    device, pinned = acl.create("aclrtMalloc", 96, 0).value, acl.create("aclrtMallocHost", 96).value
    usable, host = ctypes.c_int32(-1), (ctypes.c_uint8 * 96)()
    acl.call("aclHostPointersUsable", ctypes.byref(usable))
    codes: dict[str, object] = {"usable": usable.value}
    places = {"device": device, "pinned": pinned, "pageable": ctypes.addressof(host), "past the end": device + 64}
    for target, dst in places.items():
        for source, src in places.items():
            copied = [acl.aclrtMemcpy(dst, 96, src, 96, kind) for kind in range(4)]
            queued = [acl.aclrtMemcpyAsync(dst, 96, src, 96, kind, None) for kind in range(4)]
            # Streams do not copy within the host.
            assert queued == [copied[0] or RT_FEATURE_NOT_SUPPORT, *copied[1:]]
            codes[f"{source} to {target}"] = copied
        codes[f"set {target}"] = acl.aclrtMemset(dst, 96, 0, 96)
        assert codes[f"set {target}"] == acl.aclrtMemsetAsync(dst, 96, 0, 96, None)
    for name, address in {**places, "elsewhere": elsewhere}.items():
        with (
            acl.describe((1, 1, 2, 2), address=address) as grad,
            acl.describe((1, 1, 4, 4)) as shape_only,
            acl.describe((1, 1, 4, 4), address=device) as out,
        ):
            _, executor = acl.plan(NAME, grad, shape_only, out)
            codes[f"operand {name}"] = [getattr(acl, NAME)(None, 0, executor, None), acl.message()]
        with acl.describe((1, 1, 1, 1), address=device) as grad, acl.describe((1, 1, 2, 2), address=device) as out:
            _, executor = acl.plan(NAME, grad, out, out)
            codes[f"workspace {name}"] = getattr(acl, NAME)(address, 96, executor, None)
    acl.call("aclrtSynchronizeStream", None)
    print(json.dumps(codes))


def test_they_may_be_refused(run_program: Callable[..., list[str]]) -> None:
    codes = json.loads(run_program(call_of(print_codes), {"host_pointers": False, "devices": 2})[-1])
    assert codes["usable"] == 0
    for target, source in product(("device", "pinned", "pageable"), repeat=2):
        # In the order of the kinds: host to host, host to device, device to host, device to device.
        kind = 2 * (source == "device") + (target == "device")
        assert codes[f"{source} to {target}"] == [0 if each == kind else RT_PARAM_INVALID for each in range(4)]
    assert codes["device to past the end"] == [RT_PARAM_INVALID] * 4
    for place in ("device", "pinned", "pageable", "past the end"):
        assert codes[f"set {place}"] == (0 if place == "device" else RT_PARAM_INVALID)
    for place in ("pinned", "pageable", "elsewhere"):
        assert codes[f"operand {place}"][0] == codes[f"workspace {place}"] == PARAM_INVALID
        assert "input of shape [1, 1, 2, 2]" in codes[f"operand {place}"][1]
    assert codes["workspace past the end"] == PARAM_INVALID
    assert codes["operand past the end"][0] == 0  # 16 of the last 64 bytes
    assert (codes["operand device"][0], codes["workspace device"]) == (0, 0)
