"""The dtype table, and the tensors of requests and replies: a name, a type, a shape and a view of the bytes."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import ml_dtypes
import numpy as np

from aclgrad.errors import InvalidFieldError
from aclgrad.sources import SHAPE_ONLY, InMessage, Source
from aclgrad.v1 import tensor_pb2


@dataclass(frozen=True, slots=True)
class DType:
    """One element type, with its names and numbers in numpy, on the wire and in ACL."""

    name: str
    numpy: np.dtype[Any]
    wire: tensor_pb2.DataType
    acl: int

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    def __str__(self) -> str:
        return self.name


def _rows() -> tuple[DType, ...]:
    wire: Callable[[str], Any] = tensor_pb2.DataType.Value
    # name, numpy type, aclDataType value (CANN's acl_base.h)
    rows: list[tuple[str, Any, int]] = [
        ("float32", np.float32, 0),
        ("float16", np.float16, 1),
        ("bfloat16", ml_dtypes.bfloat16, 27),
        ("float64", np.float64, 11),
        ("int8", np.int8, 2),
        ("int16", np.int16, 6),
        ("int32", np.int32, 3),
        ("int64", np.int64, 9),
        ("uint8", np.uint8, 4),
        ("complex64", np.complex64, 16),
        ("complex128", np.complex128, 17),
        ("bool", np.bool_, 12),
    ]
    return tuple(DType(name, np.dtype(kind), wire(f"DATA_TYPE_{name.upper()}"), acl) for name, kind, acl in rows)


DTYPES: Final = {dtype.name: dtype for dtype in _rows()}
_BY_WIRE: Final[dict[int, DType]] = {dtype.wire: dtype for dtype in DTYPES.values()}
_NUMERIC_KINDS: Final = "biufcV"
"""bfloat16 is of kind V; types without a fixed size have no byte order to normalise."""
_BY_NUMPY: Final = {dtype.numpy: dtype for dtype in DTYPES.values()}


def dtype_of_wire(number: int) -> DType | None:
    """Returns the dtype with this `aclgrad.v1.DataType` value, or None."""
    return _BY_WIRE.get(number)


def dtype_of_numpy(dtype: np.dtype[Any]) -> DType | None:
    """Returns the dtype of a numpy array of any byte order, or None if the wire has no such type."""
    # The usual case first: another byte order takes longer to look up.
    known = _BY_NUMPY.get(dtype)
    if known is not None or dtype.kind not in _NUMERIC_KINDS:
        return known
    return _BY_NUMPY.get(dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type and shape of a tensor."""

    dtype: DType
    shape: tuple[int, ...]

    @classmethod
    def of(cls, dtype: Any, shape: Sequence[int]) -> "TensorType":
        """Returns the type of a tensor with numpy's dtype, or the wire's name of one.

        Raises InvalidFieldError if the wire does not have the dtype.
        """
        named = DTYPES.get(str(dtype))
        found = named if isinstance(dtype, str) and named else dtype_of_numpy(np.dtype(dtype))
        if found is None:
            raise InvalidFieldError.at("dtype", f"is {dtype}", f"give one of {', '.join(DTYPES)}")
        return cls(found, tuple(map(operator.index, shape)))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element_count(self) -> int:
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.element_count * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class View:
    """A view: which elements of the bytes a tensor has, in counts of elements, as in `aclgrad.v1.View`.

    Without strides the tensor is row-major.
    """

    offset: int
    strides: tuple[int, ...] = ()

    def strides_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns a stride for each size of the tensor."""
        return self.strides or row_major(shape)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether it has a stride for each size, or none, and no negative number."""
        return len(self.strides) in (0, len(shape)) and min((self.offset, *self.strides)) >= 0

    def end(self, shape: Sequence[int]) -> int:
        """Returns the number of elements up to the tensor's last one; 0 for a tensor without elements.

        Raises ValueError if the numbers of strides and sizes differ.
        """
        if 0 in shape:
            return 0
        steps = zip(shape, self.strides_of(shape), strict=True)
        return self.offset + sum((size - 1) * stride for size, stride in steps) + 1


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides, in elements, of a tensor whose last axis is dense and innermost."""
    strides = list(accumulate((max(size, 1) for size in shape[:0:-1]), operator.mul, initial=1))
    return tuple(strides[::-1]) if shape else ()


@dataclass(frozen=True, slots=True)
class TensorView:
    """A named tensor that does not own its bytes, with their source and its view of them."""

    name: str
    type: TensorType
    source: Source = SHAPE_ONLY
    view: View | None = None
    """None for all elements of the bytes in row-major order."""

    @property
    def data(self) -> memoryview | None:
        """The bytes, if they are in the message."""
        return self.source.data


def type_of_array(name: str, array: np.ndarray[Any, Any]) -> TensorType:
    """Returns the wire's dtype of the array, and its shape; raises InvalidFieldError if the wire lacks the dtype."""
    dtype = dtype_of_numpy(array.dtype)
    if dtype is None:
        problem = f"has dtype {array.dtype}, which the wire does not have"
        raise InvalidFieldError.at(f"inputs[{name}]", problem, f"convert it to one of {', '.join(DTYPES)}")
    return TensorType(dtype, array.shape)


def view_of_array(name: str, array: np.ndarray[Any, Any]) -> TensorView:
    """Returns a view of the array's bytes, or a copy if it is not row-major and little-endian.

    Raises InvalidFieldError if the wire does not have the array's dtype.
    """
    type = type_of_array(name, array)
    return _tensor_of(name, type, np.ascontiguousarray(array, dtype=type.dtype.numpy).reshape(-1))


def input_of_array(name: str, array: np.ndarray[Any, Any]) -> TensorView:
    """Returns a view of the array's bytes in memory order, for inputs, which may be strided.

    Copies only an array of another byte order, a reversed one, and one with gaps between its elements, such as some of
    the columns. Raises InvalidFieldError if the wire does not have the array's dtype.
    """
    if array.flags.c_contiguous or (elements := dense_elements(array)) is None:
        return view_of_array(name, array)
    strides = tuple(each // array.itemsize for each in array.strides)
    return _tensor_of(name, type_of_array(name, array), elements, View(0, strides))


def _tensor_of(name: str, type: TensorType, elements: np.ndarray[Any, Any], view: View | None = None) -> TensorView:
    # Through uint8, because the buffer protocol has no format letter for bfloat16.
    data = elements.view(np.uint8).data
    return TensorView(name, type, InMessage(data.nbytes, 0, data), view)


def dense_elements(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Returns an array's elements in memory order, each once; None if there are gaps between them.

    Also None for an array without elements, of another byte order, or reversed along an axis.
    """
    if not array.size or not array.dtype.isnative or min(array.strides, default=0) < 0:
        return None
    axes = sorted(
        (stride, size) for stride, size in zip(array.strides, array.shape, strict=True) if stride and size > 1
    )
    count = 1
    for stride, size in axes:
        if stride != count * array.itemsize:
            return None
        count *= size
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,), writeable=False)


def array_of_view(tensor: TensorView, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Returns an aligned and writable array with the elements of the view: `out`, which has its type, or a new one.

    Raises ValueError if the view has no data, or if the data's length does not fit its type.
    """
    size, content = tensor.type.size_bytes, tensor.data
    if tensor.view is not None:
        strided = _array_of_strides(tensor, tensor.view)
        if out is None:
            return strided
        out[...] = strided
        return out
    if content is None or content.nbytes != size:
        held = "no data" if content is None else f"{content.nbytes} bytes"
        raise ValueError(f"{tensor.name}: {held} for {tensor.type}, which takes {size} bytes")
    array = np.empty(tensor.type.shape, tensor.type.dtype.numpy) if out is None else out
    data = np.frombuffer(content, np.uint8)
    if array.flags.c_contiguous:
        array.reshape(-1).view(np.uint8)[:] = data
    else:
        array[...] = data.view(array.dtype).reshape(array.shape)
    return array


def _array_of_strides(tensor: TensorView, view: View) -> np.ndarray[Any, Any]:
    dtype, shape = tensor.type.dtype.numpy, tensor.type.shape
    if tensor.data is None or not view.fits(shape) or view.end(shape) * dtype.itemsize > tensor.data.nbytes:
        raise ValueError(f"{tensor.name}: the bytes end before {tensor.type} as {view} does")
    # Aligned, unlike the bytes of a message.
    return laid_over(np.frombuffer(tensor.data, np.uint8).copy().view(dtype), view, shape).copy()


def laid_over(elements: np.ndarray[Any, Any], view: View, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Returns a read-only array of this shape over one-dimensional elements that contain the view."""
    # An axis of one element may have any stride, even one that no array can have.
    steps = zip(shape, view.strides_of(shape), strict=True)
    strides = [stride * elements.itemsize if size > 1 else 0 for size, stride in steps]
    return np.lib.stride_tricks.as_strided(elements[view.offset :], shape, strides, writeable=False)
