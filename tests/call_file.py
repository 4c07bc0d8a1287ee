"""Calls of the operator table in a file that the C++ programs of the tests read: `call_file.h` has its form."""

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from aclgrad.masks import MaskLayout, mask_of_argmax
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.spec import InputSpec
from aclgrad.operators.values import ArgmaxRule, VarianceRule
from aclgrad.products import Product
from aclgrad.tensors import DType, TensorType, type_of_array
from aclgrad.wire.values import AttributeValue

_ABSENT = -1
"""In place of the dtype of an input that was left out, or of an output that is null in every call."""
PRODUCT = Product.ATLAS_A2
"""What the host library is by default."""


def device_array(typed: TypedCase, name: str, array: np.ndarray, product: Product = PRODUCT) -> np.ndarray:
    """Returns an input as the device reads it: an argmax as a mask, or as integers of the device's type; a variance."""
    spec = next(each for each in typed.spec.inputs_of(typed.arguments.inputs) if each.name == name)
    rule, lanes = spec.values(typed.arguments, product), spec.lanes_of(type_of_array(name, array))
    if rule is None:
        return np.repeat(array[..., None], lanes, -1) if lanes else array
    dtype = rule.device_type(typed.arguments.inputs[name]).dtype.numpy
    if isinstance(rule, ArgmaxRule) and array.dtype != dtype:
        return mask_of_argmax(array, rule.pooling, rule.layout)
    if isinstance(rule, VarianceRule) and rule.is_converted:
        return np.maximum(1 / array.astype(np.float64) ** 2 - rule.eps, 0).astype(dtype)
    return array.astype(dtype, copy=False)


def stand_ins(typed: TypedCase) -> dict[str, np.ndarray]:
    """Returns what a device gets in the place of inputs that were left out."""
    absent = [each for each in typed.spec.inputs if each.name not in typed.arguments.inputs]
    constants = {each.name: each.stands_in(typed.arguments) for each in absent}
    return {
        name: np.frombuffer(each.data(), each.type.dtype.numpy).reshape(each.type.shape)
        for name, each in constants.items()
        if each is not None
    }


def passed_values(typed: TypedCase, product: Product = PRODUCT) -> list[AttributeValue | None]:
    """Returns the attributes as the device gets them, in its order."""
    spec, arguments = typed.spec, typed.arguments
    if spec.passes is not None:
        return list(spec.passes(arguments, product))
    return [each.given(arguments, product) for each in spec.attributes]


def written_types(typed: TypedCase) -> dict[str, TensorType]:
    """Returns the types of the outputs that are tensors of their own, and not written in the place of an input."""
    return {each.name: each.infer(typed.arguments) for each in typed.spec.outputs if not each.begins_as}


def write_calls(path: Path, calls: Iterable[TypedCase]) -> Path:
    """Writes the calls, each kind of argument in the order of aclnn's parameters; returns the path."""
    path.write_bytes(b"".join(map(_call, calls)))
    return path


def split_outputs(path: Path, calls: Iterable[TypedCase]) -> list[tuple[np.ndarray | None, ...]]:
    """Returns the outputs of each of these calls, which a program wrote one behind the other: None if in place."""
    data, outputs, offset = path.read_bytes(), [], 0
    for typed in calls:
        arrays = {}
        for name, type in written_types(typed).items():
            arrays[name] = np.frombuffer(data, type.dtype.numpy, type.element_count, offset).reshape(type.shape)
            offset += arrays[name].nbytes
        outputs.append(tuple(map(arrays.get, typed.outputs)))
    assert offset == len(data)
    return outputs


def _call(typed: TypedCase) -> bytes:
    arrays = typed.arrays()
    stands = {name: _tensor(type_of_array(name, each), each.tobytes()) for name, each in stand_ins(typed).items()}
    inputs = [
        stands.get(each.name) or _input(typed, each, arrays.get(each.name)) for each in typed.spec.taken_of(arrays)
    ]
    attributes = [_attribute(each) for each in passed_values(typed)]
    outputs = [_tensor(each, b"") for each in written_types(typed).values()]
    for place in typed.spec.null_outputs:
        outputs.insert(place, _words(_ABSENT))
    symbol, is_spatial = _text(typed.spec.symbol.encode()), _words(typed.spec.is_spatial)
    return b"".join((symbol, is_spatial, *map(_list, (inputs, attributes, outputs))))


def _list(items: list[bytes]) -> bytes:
    return b"".join((_words(len(items)), *items))


def _input(typed: TypedCase, spec: InputSpec, array: np.ndarray | None) -> bytes:
    if array is None:
        return _words(_ABSENT)
    if PRODUCT in (spec.unread_on or ()) and not spec.read_for(typed.arguments):
        return _tensor(typed.arguments.inputs[spec.name], b"")
    rule, on_device = spec.values(typed.arguments, PRODUCT), device_array(typed, spec.name, array)
    # No device reads what follows the positions in a mask of this layout.
    is_prefix = isinstance(rule, ArgmaxRule) and rule.layout is MaskLayout.INT32_PREFIX and on_device is not array
    return _tensor(type_of_array(spec.name, on_device), (array.astype("<i4") if is_prefix else on_device).tobytes())


def _tensor(type: TensorType, data: bytes) -> bytes:
    return _words(type.dtype.acl, type.rank, *type.shape, type.size_bytes) + _text(data)


def _attribute(value: AttributeValue | None) -> bytes:
    if value is None:
        return _words(5)
    if isinstance(value, DType):
        return _words(1, value.acl)
    if isinstance(value, bool):
        return _words(0, value)
    if isinstance(value, int):
        return _words(1, value)
    if isinstance(value, float):
        return _words(2) + struct.pack("<d", value)
    if isinstance(value, str):
        return _words(3) + _text(value.encode())
    return _words(4, len(value), *value)


def _words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _text(data: bytes) -> bytes:
    return _words(len(data)) + data
