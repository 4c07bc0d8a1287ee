"""Memory that did not come from aclrtMalloc: usable at any address, or refused, as the configuration says."""

import ctypes
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from . import max_pool, roi_align
from . import test_roi_align_v2_backward as roi_align_v2
from .acl import DATA_TYPES, Format, Library
from .max_pool import Pool
from .roi_align import Roi
from .values import assert_close, random

NAME = "aclnnAdaptiveAvgPool2dBackward"
RT_PARAM_INVALID, PARAM_INVALID = 107000, 161002


class Anywhere:
    """Copies of arrays in pageable memory, each that many bytes behind an aligned address."""

    def __init__(self, misalignment: int) -> None:
        self._misalignment = misalignment
        self._kept: list[np.ndarray] = []

    def copy(self, array: np.ndarray) -> np.ndarray:
        block = np.zeros(array.nbytes + 128, np.uint8)
        self._kept.append(block)
        start = -block.ctypes.data % 64 + self._misalignment
        view = np.ndarray(array.shape, array.dtype, block.data, start)
        view[...] = array
        return view

    def memory(self, size_bytes: int) -> int:
        return self.copy(np.zeros(size_bytes, np.uint8)).ctypes.data


def launch(acl: Library, where: Anywhere, name: str, *arguments: object) -> None:
    size, executor = acl.plan(name, *arguments)
    acl.call(name, where.memory(size), size, executor, None)
    acl.call("aclrtSynchronizeStream", None)


def describe(acl: Library, array: np.ndarray, format_: Format = Format.NCHW) -> object:
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return acl.describe(
        array.shape, DATA_TYPES[array.dtype], strides=strides, format_=format_, address=array.ctypes.data
    )


def test_they_are_usable_by_default(acl: Library) -> None:
    usable = ctypes.c_int32(-1)
    assert acl.aclHostPointersUsable(ctypes.byref(usable)) == 0
    assert usable.value == 1
    assert acl.aclHostPointersUsable(None) == RT_PARAM_INVALID


@pytest.mark.parametrize("misalignment", [1, 3, 7, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_operators_work_at_any_byte(acl: Library, dtype: type, misalignment: int) -> None:
    where = Anywhere(misalignment)
    grad, out = where.copy(random((2, 3, 2, 3), dtype)), where.copy(np.zeros((2, 3, 6, 4), dtype))
    with describe(acl, grad) as first, describe(acl, out.transpose(0, 1, 3, 2)) as second:
        launch(acl, where, NAME, first, second, second)
    expected = grad.astype(np.float64).repeat(2, 2).repeat(2, 3).transpose(0, 1, 3, 2) / 4
    assert_close(np.ascontiguousarray(out), expected, abs(expected))

    indices = np.arange(2 * 3 * 5, dtype=np.int64).reshape(1, 2, 1, 3, 5) % 15
    grad, out = where.copy(random((1, 2, 1, 5, 5), dtype)), where.copy(np.zeros(indices.shape, dtype))
    index = where.copy(indices)
    with (
        describe(acl, grad, Format.NCDHW) as first, describe(acl, index, Format.NCDHW) as second,
        describe(acl, out, Format.NCDHW) as third, acl.int_array((1, 5, 5)) as size, acl.int_array((1, 2, 2)) as stride,
        acl.int_array((0, 0, 0)) as padding,
    ):  # fmt: skip
        launch(acl, where, "aclnnMaxUnpool3dBackward", first, third, second, size, stride, padding, third)
    np.testing.assert_array_equal(out.reshape(2, 15), grad.reshape(2, 25)[:, :15])

    grad, out = where.copy(random((1, 2, 4, 7), dtype)), where.copy(np.zeros((1, 2, 3, 4), dtype))
    with describe(acl, grad) as first, describe(acl, out) as second, acl.int_array((1, 2, 0, 1)) as padding:
        launch(acl, where, "aclnnReplicationPad2dBackward", first, second, padding, second)
    rows = np.concatenate([grad[:, :, :2], grad[:, :, 2:].sum(2, np.float64, keepdims=True)], 2)
    columns = [rows[..., :2].sum(-1), rows[..., 2], rows[..., 3], rows[..., 4:].sum(-1)]
    np.testing.assert_allclose(out.astype(np.float64), np.stack(columns, -1), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("misalignment", [1, 3, 7, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("pool", [Pool((2, 17, 7, 9), (3,), (2,), (1,)), Pool((2, 3, 4, 5), (1,))])
def test_max_pooling_works_at_any_byte(acl: Library, pool: Pool, dtype: type, misalignment: int) -> None:
    where = Anywhere(misalignment)
    chosen = max_pool.choose(pool)
    layout = max_pool.mask_layout if pool.kernel == (1,) else max_pool.argmax_layout
    grad, mask = where.copy(random(pool.grad_shape, dtype)), where.copy(layout(pool, chosen))
    out = where.copy(np.zeros(pool.shape, dtype))
    with (
        describe(acl, grad) as first, describe(acl, mask) as second, describe(acl, out) as third,
        acl.int_array(pool.kernel) as kernel, acl.int_array(pool.stride) as stride,
        acl.int_array(pool.padding) as padding, acl.int_array((1,)) as dilation,
    ):  # fmt: skip
        arguments = (first, third, second, kernel, stride, padding, dilation, False, third)
        launch(acl, where, "aclnnMaxPool2dWithMaskBackward", *arguments)
    assert_close(np.ascontiguousarray(out), *max_pool.gradient(pool, grad, max_pool.positions(pool, chosen)))


@pytest.mark.parametrize("misalignment", [1, 3, 7, 33])
def test_roi_align_works_at_any_byte(acl: Library, misalignment: int) -> None:
    where = Anywhere(misalignment)
    roi = Roi((2, 3, 9, 12), (2, 3), 0.5, 2)
    boxes = np.array([(0, 2, 4, 12, 16), (1, 3.3, 1.7, 9.1, 17.9)], np.float32)
    grad, box = where.copy(random((2, 3, 2, 3), np.float32)), where.copy(boxes)
    out = where.copy(np.zeros(roi.input_shape, np.float32))
    with (
        describe(acl, grad) as first, describe(acl, box, Format.ND) as second, describe(acl, out) as third,
        acl.int_array(roi.input_shape) as shape,
    ):  # fmt: skip
        launch(
            acl, where, roi_align_v2.NAME, first, second, shape, *roi.pooled, roi.spatial_scale, roi.sampling_ratio,
            roi.aligned, third,
        )  # fmt: skip
    assert_close(np.ascontiguousarray(out), *roi_align.gradient(roi, grad, boxes))


def answer(acl: Library) -> None:
    """Runs where host pointers are refused: prints what the test below compares."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 1)
    elsewhere = acl.create("aclrtMalloc", 96, 0).value
    acl.call("aclrtSetDevice", 0)
    device, pinned = acl.create("aclrtMalloc", 96, 0).value, acl.create("aclrtMallocHost", 96).value
    usable, host = ctypes.c_int32(-1), (ctypes.c_uint8 * 96)()
    acl.call("aclHostPointersUsable", ctypes.byref(usable))
    answers: dict[str, object] = {"usable": usable.value}
    pageable = ctypes.addressof(host)
    places = {"device": device, "pinned": pinned, "pageable": pageable, "past the end": device + 64}
    for target, dst in places.items():
        for source, src in places.items():
            codes = [acl.aclrtMemcpy(dst, 96, src, 96, kind) for kind in range(4)]
            assert codes == [acl.aclrtMemcpyAsync(dst, 96, src, 96, kind, None) for kind in range(4)]
            acl.call("aclrtSynchronizeStream", None)
            answers[f"{source} to {target}"] = [code == 0 for code in codes]
            assert set(codes) <= {0, RT_PARAM_INVALID}
        code = acl.aclrtMemset(dst, 96, 0, 96)
        assert code == acl.aclrtMemsetAsync(dst, 96, 0, 96, None)
        acl.call("aclrtSynchronizeStream", None)
        answers[f"set {target}"] = code
    for name, address in {**places, "elsewhere": elsewhere}.items():
        with (
            acl.describe((1, 1, 2, 2), address=address) as grad,
            acl.describe((1, 1, 4, 4)) as shape_only,
            acl.describe((1, 1, 4, 4), address=device) as out,
        ):
            _, executor = acl.plan(NAME, grad, shape_only, out)
            answers[f"operand {name}"] = [getattr(acl, NAME)(None, 0, executor, None), acl.message()]
        with acl.describe((1, 1, 1, 1), address=device) as grad, acl.describe((1, 1, 2, 2), address=device) as out:
            _, executor = acl.plan(NAME, grad, out, out)
            answers[f"workspace {name}"] = getattr(acl, NAME)(address, 96, executor, None)
    acl.call("aclrtSynchronizeStream", None)
    print(json.dumps(answers))


def test_they_may_be_refused(run_program: Callable[..., list[str]], tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text('{"host": {"host_pointers": false, "devices": 2}}')
    program = f"from abi.{Path(__file__).stem} import answer\nanswer(acl)\n"
    answers = json.loads(run_program(program, ACL_HOST_CONFIG=str(config))[-1])
    assert answers["usable"] == 0
    for target in ("device", "pinned", "pageable"):
        for source in ("device", "pinned", "pageable"):
            # In the order of the kinds: host to host, host to device, device to host, device to device.
            kind = 2 * (source == "device") + (target == "device")
            assert answers[f"{source} to {target}"] == [number == kind for number in range(4)]
    assert answers["device to past the end"] == [False] * 4
    accepted = {"device": 0, "pinned": RT_PARAM_INVALID, "pageable": RT_PARAM_INVALID, "past the end": RT_PARAM_INVALID}
    assert {place: answers[f"set {place}"] for place in accepted} == accepted
    for place in ("pinned", "pageable", "elsewhere"):
        code, message = answers[f"operand {place}"]
        assert code == PARAM_INVALID
        assert "input of shape [1, 1, 2, 2]" in message
        assert answers[f"workspace {place}"] == PARAM_INVALID
    assert answers["workspace past the end"] == PARAM_INVALID
    assert answers["operand past the end"][0] == 0  # 16 of the last 64 bytes
    assert (answers["operand device"][0], answers["workspace device"]) == (0, 0)
