"""aclTensor, aclScalar, the arrays and the element types."""

import ctypes
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import DataType, Format, Library, int64s

PARAM_NULLPTR, INNER_NULLPTR = 161001, 561103


def delete_array() -> Callable[[object], None]:
    """C++'s delete[], which releases arrays of the ABI; a loaded sanitizer has its own."""
    name = "_ZdaPv"
    process = ctypes.CDLL(None)
    function = getattr(process if hasattr(process, name) else ctypes.CDLL("libstdc++.so.6"), name)
    function.argtypes = [ctypes.c_void_p]
    function.restype = None
    return function


def dims(acl: Library, getter: str, tensor: object) -> list[int]:
    pointer, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    acl.call(getter, tensor, ctypes.byref(pointer), ctypes.byref(count))
    values = pointer[: count.value]
    delete_array()(pointer)
    return values


def test_getters(acl: Library) -> None:
    with acl.describe(
        (2, 3, 4), DataType.BF16, strides=(24, 8, 2), offset=5, format_=Format.NCL, storage=(60,), address=64
    ) as tensor:
        assert dims(acl, "aclGetViewShape", tensor) == [2, 3, 4]
        assert dims(acl, "aclGetViewStrides", tensor) == [24, 8, 2]
        assert dims(acl, "aclGetStorageShape", tensor) == [60]
        offset, data_type, format_ = ctypes.c_int64(), ctypes.c_int(), ctypes.c_int()
        acl.call("aclGetViewOffset", tensor, ctypes.byref(offset))
        acl.call("aclGetDataType", tensor, ctypes.byref(data_type))
        acl.call("aclGetFormat", tensor, ctypes.byref(format_))
        assert (offset.value, data_type.value, format_.value) == (5, DataType.BF16, Format.NCL)
        address = ctypes.c_void_p()
        acl.call("aclGetRawTensorAddr", tensor, ctypes.byref(address))
        assert address.value == 64
        acl.call("aclSetRawTensorAddr", tensor, 128)
        acl.call("aclGetRawTensorAddr", tensor, ctypes.byref(address))
        assert address.value == 128


def test_null_strides_mean_contiguous(acl: Library) -> None:
    with acl.describe((2, 3, 4)) as tensor:
        assert dims(acl, "aclGetViewStrides", tensor) == [12, 4, 1]
    with acl.describe(()) as scalar:
        assert dims(acl, "aclGetViewShape", scalar) == []


@pytest.mark.needs("nulls")
def test_creation_needs_the_dims_it_counts(acl: Library) -> None:
    shape = int64s((2, 3))
    assert acl.aclCreateTensor(None, 2, 0, None, 0, 0, shape, 2, None) is None
    assert acl.says("viewDims")
    assert acl.aclCreateTensor(shape, 2, 0, None, 0, 0, None, 2, None) is None
    assert acl.says("storageDims")
    assert acl.aclCreateIntArray(None, 1) is None
    assert acl.aclCreateBoolArray(None, 1) is None
    assert acl.aclCreateTensorList(None, 1) is None
    assert acl.says("value must not be null")


@pytest.mark.needs("nulls")
def test_a_scalar_needs_a_value_of_a_known_type(acl: Library) -> None:
    value = ctypes.byref(ctypes.c_double(0.5))
    assert acl.aclCreateScalar(None, DataType.DOUBLE) is None
    assert acl.says("value must not be null")
    assert acl.aclCreateScalar(value, 999) is None
    assert acl.says("there is no type 999")
    scalar = acl.aclCreateScalar(value, DataType.DOUBLE)
    assert scalar is not None
    acl.call("aclDestroyScalar", scalar)


@pytest.mark.needs("nulls")
def test_destroying_null_succeeds_except_for_an_executor(acl: Library) -> None:
    assert acl.aclDestroyTensor(None) == 0
    for name in ("aclDestroyIntArray", "aclDestroyBoolArray", "aclDestroyScalar", "aclDestroyTensorList"):
        assert getattr(acl, name)(None) == 0
    assert acl.aclDestroyAclOpExecutor(None) == INNER_NULLPTR


@pytest.mark.needs("nulls")
def test_getters_refuse_null(acl: Library) -> None:
    out, count = ctypes.c_void_p(), ctypes.c_uint64()
    for getter in ("aclGetViewShape", "aclGetViewStrides", "aclGetStorageShape"):
        assert getattr(acl, getter)(None, ctypes.byref(out), ctypes.byref(count)) == PARAM_NULLPTR
        with acl.describe((1,)) as tensor:
            assert getattr(acl, getter)(tensor, None, ctypes.byref(count)) == PARAM_NULLPTR
            assert getattr(acl, getter)(tensor, ctypes.byref(out), None) == PARAM_NULLPTR
    for getter in ("aclGetViewOffset", "aclGetFormat", "aclGetDataType", "aclGetRawTensorAddr"):
        assert getattr(acl, getter)(None, ctypes.byref(out)) == PARAM_NULLPTR
    for getter in ("aclGetIntArraySize", "aclGetBoolArraySize", "aclGetTensorListSize"):
        assert getattr(acl, getter)(None, ctypes.byref(count)) == PARAM_NULLPTR
    assert acl.aclSetRawTensorAddr(None, None) == PARAM_NULLPTR


@pytest.mark.parametrize(
    ("kind", "values"), [("Int", (ctypes.c_int64 * 3)(7, 8, 9)), ("Bool", (ctypes.c_bool * 3)(True, False, True))]
)
def test_arrays_have_a_size(acl: Library, kind: str, values: ctypes.Array) -> None:
    size = ctypes.c_uint64()
    for given, count in ((values, 3), (None, 0)):
        array = getattr(acl, f"aclCreate{kind}Array")(given, count)
        acl.call(f"aclGet{kind}ArraySize", array, ctypes.byref(size))
        assert size.value == count
        acl.call(f"aclDestroy{kind}Array", array)


def test_lists_have_a_size_and_may_have_null_tensors(acl: Library) -> None:
    """A list destroys its tensors, which the sanitizers and the strict library see."""
    size = ctypes.c_uint64()
    for count in (0, 1, 1000):
        tensors = [None if index == 1 else acl.create_tensor((2, 3)) for index in range(count)]
        with acl.tensor_list(tensors) as handle:
            acl.call("aclGetTensorListSize", handle, ctypes.byref(size))
            assert size.value == count
            if tensors:
                assert dims(acl, "aclGetViewShape", tensors[0]) == [2, 3]


@pytest.mark.parametrize(
    ("data_type", "size"),
    [(-1, 0), (0, 4), (1, 2), (2, 1), (3, 4), (6, 2), (9, 8), (11, 8), (12, 1), (16, 8), (17, 16), (27, 2), (999, 0)],
)
def test_data_type_sizes(acl: Library, data_type: int, size: int) -> None:
    assert acl.aclDataTypeSize(data_type) == size


def test_every_float16_survives_a_round_trip(acl: Library) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # of signalling NaNs, which some processors report
        expected = bits.view(np.float16).astype(np.float32)
    got = np.array([acl.aclFloat16ToFloat(int(value)) for value in bits], np.float32)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    back = np.array([acl.aclFloatToFloat16(float(value)) for value in got[numbers]], np.uint16)
    np.testing.assert_array_equal(back, bits[numbers])


def test_float16_rounds_to_nearest_even(acl: Library) -> None:
    halves = np.arange(0, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float64)
    steps = np.nextafter(halves.astype(np.float16), np.float16(np.inf)).astype(np.float64) - halves
    ties = np.concatenate([halves + step * steps for step in (0.25, 0.5, 0.75)])
    ties = np.concatenate([ties, [65519.99, 65520.0, 65536.0, 1e30, 2.0**-24, 2.0**-25, 2.0**-26, 1e-30, np.inf]])
    values = np.concatenate([ties, -ties]).astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    got = np.array([acl.aclFloatToFloat16(float(value)) for value in values], np.uint16)
    np.testing.assert_array_equal(got, expected)
    assert np.isnan(np.uint16(acl.aclFloatToFloat16(float("nan"))).view(np.float16))
    assert np.dtype(ml_dtypes.bfloat16).itemsize == acl.aclDataTypeSize(DataType.BF16)
