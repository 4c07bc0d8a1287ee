"""The dtype table, and arrays as views of their own bytes."""

import ml_dtypes
import numpy as np
import pytest

from aclgrad.errors import InvalidFieldError
from aclgrad.sources import SHAPE_ONLY, in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, array_of_view, dtype_of_numpy, dtype_of_wire, view_of_array
from aclgrad.v1 import tensor_pb2

# aclDataType of CANN's acl_base.h.
ACL_NUMBERS = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "int64": 9,
    "float64": 11,
    "complex64": 16,
    "complex128": 17,
    "bfloat16": 27,
    "bool": 12,
}


def test_dtypes_have_one_name_everywhere() -> None:
    assert set(DTYPES) == set(ACL_NUMBERS)
    for name, dtype in DTYPES.items():
        assert str(dtype) == dtype.numpy.name == name
        assert tensor_pb2.DataType.Name(dtype.wire) == f"DATA_TYPE_{name.upper()}"
        assert dtype.acl == ACL_NUMBERS[name]
        assert dtype_of_wire(dtype.wire) is dtype
        assert dtype_of_numpy(np.empty(0, name).dtype) is dtype
    assert {dtype.wire for dtype in DTYPES.values()} == set(tensor_pb2.DataType.values()) - {0}
    assert dtype_of_wire(tensor_pb2.DATA_TYPE_UNSPECIFIED) is None
    assert dtype_of_wire(99) is None


def test_view_shares_the_memory_of_a_contiguous_array() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    view = view_of_array("self", array)
    assert np.shares_memory(np.frombuffer(view.data, np.uint8), array)
    assert view == TensorView("self", TensorType(DTYPES["float32"], (3, 4)), in_message(view.data))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.int32).reshape(4, 6).T,
        np.arange(24, dtype=np.int16).reshape(4, 6)[::-1, ::2],
        np.arange(6, dtype=">f8").reshape(2, 3),
        np.array(2.5, np.float32),
        np.array(7, ">i8"),
        np.empty((0, 3), np.float16),
        np.empty((2, 0, 5), ">f4"),
        np.arange(6).astype(ml_dtypes.bfloat16).reshape(3, 2),
        np.array([1 + 2j, 3 - 4j], np.complex64),
        np.broadcast_to(np.float32(3), (2, 2)),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}{'' if array.flags.c_contiguous else 'strided'}",
)
def test_view_holds_row_major_little_endian_elements(array: np.ndarray) -> None:
    view = view_of_array("self", array)
    little = array.astype(array.dtype.newbyteorder("<"))
    assert bytes(view.data) == little.tobytes("C")
    assert view.type.shape == array.shape
    assert view.type.size_bytes == array.nbytes
    back = array_of_view(view)
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.shape == array.shape
    assert back.tolist() == array.tolist()


def test_arrays_of_other_dtypes_are_refused_by_name() -> None:
    for dtype in ("uint16", "object", "datetime64[s]"):
        with pytest.raises(InvalidFieldError, match=f"inputs.boxes. has dtype .*{dtype[:4]}") as caught:
            view_of_array("boxes", np.zeros(2, dtype))
        assert caught.value.field == "inputs[boxes]"
        assert "float32" in caught.value.remedy


def test_array_of_view_is_aligned_writable_and_of_its_own() -> None:
    payload = bytearray(b"x" + np.arange(3, dtype=np.float64).tobytes())
    array = array_of_view(TensorView("out", TensorType(DTYPES["float64"], (3,)), in_message(memoryview(payload)[1:])))
    payload[:] = bytes(len(payload))
    assert array.flags.aligned
    assert array.flags.writeable
    assert array.tolist() == [0, 1, 2]


@pytest.mark.parametrize("data", [None, b"", bytes(11), bytes(13)], ids=["none", "empty", "short", "long"])
def test_view_with_other_than_its_bytes_makes_no_array(data: bytes | None) -> None:
    view = TensorView(
        "out", TensorType(DTYPES["float32"], (3,)), SHAPE_ONLY if data is None else in_message(memoryview(data))
    )
    with pytest.raises(ValueError, match=r"out: .* for float32\[3\], which takes 12 bytes"):
        array_of_view(view)


def test_tensor_type_counts_its_elements() -> None:
    kind = TensorType(DTYPES["bfloat16"], (2, 3, 5))
    assert (kind.rank, kind.element_count, kind.size_bytes) == (3, 30, 60)
    assert str(kind) == "bfloat16[2, 3, 5]"
    assert TensorType(DTYPES["int8"], ()).element_count == 1
