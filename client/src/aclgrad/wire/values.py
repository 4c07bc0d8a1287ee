"""Tensors and attribute values of every message, to bytes and back.

Tensors are written as `name, data_type, shape` by protobuf, then their data behind a hand-written key, then their view,
so that the bytes are those that a generated stub would send.
"""

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from aclgrad.errors import InvalidFieldError, Violation
from aclgrad.sources import SHAPE_ONLY, InMessage, OutputOf, SharedRange, Source, TableEntry
from aclgrad.tensors import DTYPES, DType, TensorType, TensorView, View, dtype_of_wire
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.limits import MAX_LIST_LENGTH, MAX_NAME, MAX_RANK
from aclgrad.wire.scan import payload_index, varint

AttributeValue = bool | int | float | str | DType | Sequence[int]
"""The value of an attribute in Python; decoding makes a tuple of a list of integers or of bools."""

DATA: Final = tensor_pb2.Tensor.DATA_FIELD_NUMBER
_VIEW: Final = tensor_pb2.Tensor.VIEW_FIELD_NUMBER
_LENGTH_DELIMITED: Final = 2


def checked_name(field: str, value: str) -> str:
    """Returns the name if the wire can hold it."""
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise InvalidFieldError.at(field, f"has the name {value!r}", "give text that UTF-8 holds") from error
    return value


@lru_cache(4096)
def length_key(number: int, size_bytes: int) -> bytes:
    """Returns the tag and length of a length-delimited field. Calls repeat their sizes."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(size_bytes)


def check_count(field: str, count: int, limit: int) -> None:
    if count > limit:
        raise InvalidFieldError.at(field, f"has {count} entries", f"send at most {limit}")


def tensor_field(number: int, tensor: TensorView, data_bytes: int | None = None) -> list[bytes | memoryview]:
    """Returns the pieces of a Tensor field; `data_bytes` announces data that the caller writes behind them."""
    type, source, view = tensor.type, tensor.source, tensor.view
    data = source.data
    try:
        # The view has the data type, so that a server without views refuses the tensor.
        body = _tensor_head(tensor.name, None if view else type.dtype.wire, type.shape)
        if data is None and source is not SHAPE_ONLY:
            head = tensor_pb2.Tensor()
            source.write(head)
            body += head.SerializeToString()
    except InvalidFieldError:
        raise
    except (TypeError, ValueError) as error:
        problem = f"is {tensor.type.shape}, which is not a shape"
        remedy = "give a sequence of 64-bit integers"
        raise InvalidFieldError.at(f"inputs[{tensor.name}].shape", problem, remedy) from error
    if data is not None:
        data_bytes = data.nbytes
    if data_bytes is not None:
        body += length_key(DATA, data_bytes)
    end = b"" if view is None else _view_field(view, type.dtype)
    # Few pieces, because joining many is slower.
    pieces: list[bytes | memoryview] = [length_key(number, len(body) + (data_bytes or 0) + len(end)) + body]
    if data is not None:
        pieces.append(data)
    if end:
        pieces.append(end)
    return pieces


@lru_cache(4096)
def _tensor_head(name: str, data_type: Any, shape: tuple[int, ...]) -> bytes:
    """Returns the bytes of a tensor without elements. Calls repeat their tensors."""
    checked_name("inputs", name)
    return tensor_pb2.Tensor(name=name, data_type=data_type, shape=shape).SerializeToString()


def _view_field(view: View, dtype: DType) -> bytes:
    body = tensor_pb2.View(offset=view.offset, strides=view.strides, data_type=dtype.wire).SerializeToString()
    return length_key(_VIEW, len(body)) + body


def tensor_view(message: tensor_pb2.Tensor, payloads: Sequence[InMessage] | None) -> TensorView:
    """Returns the tensor of a message whose data stand among the payloads, or in the message if there are none."""
    field = f"inputs[{message.name[:MAX_NAME]}]"
    check_count(f"{field}.shape", len(message.shape), MAX_RANK)
    number, view = message.data_type, None
    if message.HasField("view"):
        if number:
            problem = f"is {number} beside that of the view"
            raise InvalidFieldError.at(f"{field}.data_type", problem, "set view.data_type alone")
        check_count(f"{field}.view.strides", len(message.view.strides), MAX_RANK)
        number, view = message.view.data_type, View(message.view.offset, tuple(message.view.strides))
    dtype = dtype_of_wire(number)
    if dtype is None:
        of = "data_type" if view is None else "view.data_type"
        problem = f"is {number}, which is no data type"
        raise InvalidFieldError.at(f"{field}.{of}", problem, f"send one of {', '.join(DTYPES)}")
    source: Source = SHAPE_ONLY
    if message.HasField("data"):
        data = message.data
        source = InMessage(len(data), 0, memoryview(data)) if payloads is None else payloads[payload_index(data)]
    elif message.HasField("shared_memory"):
        source = shared_range(message.shared_memory)
    type = TensorType(dtype, tuple(message.shape))
    if message.HasField("output_of"):
        producer = message.output_of
        source = OutputOf(producer.step, producer.output, referred_bytes(type, view))
    elif message.HasField("table_index"):
        source = TableEntry(message.table_index, referred_bytes(type, view))
    return TensorView(message.name, type, source, view)


def referred_bytes(type: TensorType, view: View | None) -> int:
    """Returns the bytes of a tensor that an input refers to: for a view, those up to its last element."""
    shape = type.shape
    count = view.end(shape) if view is not None and view.fits(shape) else type.element_count
    return count * type.dtype.itemsize


def shared_range(message: tensor_pb2.SharedMemory) -> SharedRange:
    return SharedRange(message.name, message.offset_bytes, message.size_bytes)


def attribute_message(name: str, value: AttributeValue) -> tensor_pb2.Attribute:
    """Returns the message of a plain value; raises InvalidFieldError for one that the wire cannot hold."""
    try:
        if isinstance(value, bool):
            return tensor_pb2.Attribute(bool_value=value)
        if isinstance(value, int):
            return tensor_pb2.Attribute(int_value=value)
        if isinstance(value, float):
            return tensor_pb2.Attribute(double_value=value)
        if isinstance(value, str):
            return tensor_pb2.Attribute(text_value=value)
        if isinstance(value, DType):
            return tensor_pb2.Attribute(data_type_value=value.wire)
        if value and all(type(each) is bool for each in value):
            return tensor_pb2.Attribute(bools_value=tensor_pb2.Bools(values=map(bool, value)))
        return tensor_pb2.Attribute(ints_value=tensor_pb2.Ints(values=map(operator.index, value)))
    except (TypeError, ValueError) as error:
        raise InvalidFieldError.of(unsendable_attribute(name, value)) from error


def unsendable_attribute(name: str, value: object) -> Violation:
    """Returns the error for a value that the wire cannot hold."""
    # Python writes no decimals of very large numbers.
    shown = f"an integer of {value.bit_length()} bits" if isinstance(value, int) else repr(value)
    problem = f"is {shown}, which the wire cannot hold"
    remedy = "give a bool, a 64-bit integer, a float, a text, a data type or a sequence of bools or of 64-bit integers"
    return Violation(f"attributes[{name}]", problem, remedy)


def attribute_value(name: str, message: tensor_pb2.Attribute) -> AttributeValue:
    """Returns the value of a message; raises InvalidFieldError if it has no value, or a list that is too long."""
    match message.WhichOneof("value"):
        case "bool_value":
            return message.bool_value
        case "int_value":
            return message.int_value
        case "double_value":
            return message.double_value
        case "ints_value":
            check_count(f"attributes[{name[:MAX_NAME]}]", len(message.ints_value.values), MAX_LIST_LENGTH)
            return tuple(message.ints_value.values)
        case "text_value":
            return message.text_value
        case "bools_value":
            check_count(f"attributes[{name[:MAX_NAME]}]", len(message.bools_value.values), MAX_LIST_LENGTH)
            return tuple(message.bools_value.values)
        case "data_type_value":
            if (dtype := dtype_of_wire(message.data_type_value)) is not None:
                return dtype
            problem = f"is {message.data_type_value}, which is no data type"
            raise InvalidFieldError.at(f"attributes[{name}]", problem, f"send one of {', '.join(DTYPES)}")
    raise InvalidFieldError.at(f"attributes[{name}]", "holds no value", "set one of its kinds")
