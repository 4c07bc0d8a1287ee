"""Views: arrays that are sent as they lie in memory, and what a server reads of their bytes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aclgrad.errors import InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import check_call
from aclgrad.products import Product
from aclgrad.sources import SHAPE_ONLY, in_message
from aclgrad.tensors import (
    DTYPES,
    TensorType,
    TensorView,
    View,
    array_of_view,
    input_of_array,
    row_major,
)
from aclgrad.wire.chunks import decode_header, encode_step_header
from aclgrad.wire.messages import OperatorCall, decode_request, encode_request

BASE = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
Array = np.ndarray[Any, Any]

AS_THEY_LIE = {
    "transposed": BASE.T,
    "swapped": BASE.swapaxes(1, 2),
    "channels last": BASE.transpose(0, 2, 3, 1),
    "of a slice": BASE[1:].transpose(0, 3, 2, 1),
    "broadcast": np.broadcast_to(BASE[0, 0, 0], (7, 5)),
    "one value": np.broadcast_to(np.float32(3), (4, 4)),
    "transposed broadcast": np.broadcast_to(BASE[0, 0], (2, 4, 5)).transpose(0, 2, 1),
    "Fortran": np.asfortranarray(BASE.astype(ml_dtypes.bfloat16)),
    "bools": np.asfortranarray(BASE[0, 0] % 3 == 0),
}
COPIED = {
    "reversed": BASE[::-1],
    "columns": BASE[..., 1:3],
    "every second": BASE[..., ::2],
    "big-endian": BASE.astype(">f4").T,
    "parts of records": np.zeros((3, 4), [("a", "f4"), ("b", "f4")])["a"].T,
    "windows": np.lib.stride_tricks.sliding_window_view(np.arange(9.0), 3),
}


@pytest.mark.parametrize("array", AS_THEY_LIE.values(), ids=AS_THEY_LIE)
def test_dense_bytes_are_not_copied(array: Array) -> None:
    view = input_of_array("self", array)
    assert np.shares_memory(np.frombuffer(view.data, np.uint8), array)
    assert view.data.nbytes <= array.nbytes
    (arrived,) = decode_request(encode_request(OperatorCall("any", (view,), {}))).inputs
    np.testing.assert_array_equal(array_of_view(arrived), array, strict=True)


@pytest.mark.parametrize("array", COPIED.values(), ids=COPIED)
def test_other_arrays_are_copied(array: Array) -> None:
    view = input_of_array("self", array)
    assert view.view is None
    assert view.data.nbytes == array.nbytes
    np.testing.assert_array_equal(array_of_view(view), array)


def test_an_axis_of_one_element_may_have_any_stride() -> None:
    array = np.lib.stride_tricks.as_strided(BASE, (1, 4, 3), (-400, 4, 16))
    np.testing.assert_array_equal(array_of_view(input_of_array("self", array)), array)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4), (3, 0, 2), (0,), (1, 1)], ids=str)
def test_row_major_strides(shape: tuple[int, ...]) -> None:
    array = np.empty(shape, np.int8)
    expected = array.strides if array.size else np.empty([max(size, 1) for size in shape], np.int8).strides
    assert row_major(shape) == expected


def test_an_offset_without_strides_is_row_major() -> None:
    tensor = TensorView("self", TensorType(DTYPES["float32"], (2, 3)), in_message(memoryview(BASE).cast("B")), View(7))
    np.testing.assert_array_equal(array_of_view(tensor), BASE.reshape(-1)[7:13].reshape(2, 3))


def test_a_view_beyond_the_bytes_is_no_array() -> None:
    tensor = TensorView("self", TensorType(DTYPES["float32"], (2, 3)), in_message(memoryview(bytes(24))), View(1))
    with pytest.raises(ValueError, match="the bytes end before"):
        array_of_view(tensor)


SHAPE = (2, 3)
WRONG: dict[str, tuple[View, int | None, str]] = {
    "offset beyond the bytes": (View(1), 24, "ends at element 7, and the bytes hold 6"),
    "stride beyond the bytes": (View(0, (4, 1)), 24, "ends at element 7, and the bytes hold 6"),
    "far beyond": (View(2**62, (2**62, 2**62)), 24, "and the bytes hold 6"),
    "product overflows": (View(0, (2**63 - 1, 2**63 - 1)), 24, "and the bytes hold 6"),
    "negative offset": (View(-1), 24, "is negative"),
    "negative stride": (View(5, (-3, 1)), 24, "is negative"),
    "too few strides": (View(0, (1,)), 24, "has 1 strides"),
    "too many strides": (View(0, (3, 1, 1)), 24, "has 3 strides"),
    "half an element": (View(0, (0, 1)), 14, "no whole number of float32"),
    "no values": (View(0, (3, 1)), None, "lies over no values"),
}


def softmax(view: View, size_bytes: int | None) -> OperatorCall:
    type = TensorType(DTYPES["float32"], SHAPE)
    source = SHAPE_ONLY if size_bytes is None else in_message(memoryview(bytes(size_bytes)))
    output = TensorView("output", type, in_message(memoryview(bytes(24))))
    return OperatorCall("softmax_backward", (TensorView("grad_output", type, source, view), output), {"dim": 1})


@pytest.mark.parametrize(("view", "size_bytes", "problem"), WRONG.values(), ids=WRONG)
def test_no_element_lies_outside_of_the_bytes(view: View, size_bytes: int | None, problem: str) -> None:
    with pytest.raises(InvalidFieldError, match=problem) as caught:
        check_call(softmax(view, size_bytes), OPERATORS["softmax_backward"], Product.ATLAS_A2)
    assert caught.value.violations[0].field.startswith("inputs[grad_output].")
    assert caught.value.violations[0].remedy


@pytest.mark.parametrize(
    ("view", "size_bytes"), [(View(1), 28), (View(0, (0, 0)), 4), (View(0, (0, 1)), 12), (View(0, (1, 2)), 24)], ids=str
)
def test_views_that_lie_within_their_bytes(view: View, size_bytes: int) -> None:
    arguments = check_call(softmax(view, size_bytes), OPERATORS["softmax_backward"], Product.ATLAS_A2)
    assert arguments.inputs["grad_output"].shape == SHAPE


@pytest.mark.parametrize("strides", [(1,), (3, 1, 1), (-1, 1)], ids=str)
def test_a_wrong_view_of_the_table_is_refused_as_any_other(strides: tuple[int, ...]) -> None:
    header = encode_step_header(softmax(View(0, strides), None), ["grad_output"], 2**20)
    (call,) = decode_header(header).steps()
    with pytest.raises(InvalidFieldError, match=r"strides|negative"):
        check_call(call, OPERATORS["softmax_backward"], Product.ATLAS_A2)


def test_nothing_is_read_of_a_tensor_without_elements() -> None:
    """Whatever its view lies over."""
    type = TensorType(DTYPES["float32"], (0, 3))
    for source in (SHAPE_ONLY, in_message(memoryview(bytes(7)))):
        inputs = (TensorView("grad_output", type, source, View(5, (9, 9))), TensorView("output", type))
        check_call(
            OperatorCall("softmax_backward", inputs, {"dim": 1}), OPERATORS["softmax_backward"], Product.ATLAS_A2
        )


def test_strides_that_no_array_can_have() -> None:
    tensor = TensorView(
        "a", TensorType(DTYPES["float32"], (1, 3)), in_message(memoryview(bytes(12))), View(0, (2**62, 1))
    )
    assert array_of_view(tensor).shape == (1, 3)


def test_nine_strides_are_refused_before_anything_else() -> None:
    call = softmax(View(0, (1,) * 9), 24)
    with pytest.raises(InvalidFieldError, match="has 9 entries"):
        decode_request(encode_request(call))
