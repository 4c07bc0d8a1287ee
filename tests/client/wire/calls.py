"""Calls of every kind, as ours and as generated messages."""

from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall

ATTRIBUTES = {"flag": True, "count": -3, "scale": 0.25, "sizes": (1, -2, 2**40), "none": ()}


def tensor(name: str, shape: tuple[int, ...], data: bytes | None, dtype: str = "float32") -> TensorView:
    return TensorView(name, TensorType(DTYPES[dtype], shape), None if data is None else memoryview(data))


CALLS = {
    "empty": OperatorCall("", (), {}),
    "attributes": OperatorCall("roi", (), ATTRIBUTES),
    "data": OperatorCall("pool", (tensor("grad_output", (2, 3), bytes(range(24))),), {}),
    "shape_only": OperatorCall("pool", (tensor("self", (4, 5, 6), None),), {}),
    "no_elements": OperatorCall("pool", (tensor("self", (4, 0), b""), tensor("scalar", (), b"1234")), {}),
    "large": OperatorCall("pool", (tensor("a", (2**20,), bytes(2**22)), tensor("b", (7,), bytes(7), "int8")), {}),
    "negative": OperatorCall("pool", (tensor("self", (-1, 2**62), None, "bfloat16"),), {}),
}


def message_of(call: OperatorCall) -> pb.ExecuteOperatorRequest:
    """Returns the call as a user of generated stubs would write it."""
    message = pb.ExecuteOperatorRequest(operator=call.operator)
    for each in call.inputs:
        added = message.inputs.add(name=each.name, data_type=each.type.dtype.wire, shape=each.type.shape)
        if each.data is not None:
            added.data = bytes(each.data)
    kinds = {bool: "bool_value", int: "int_value", float: "double_value"}
    for name, value in call.attributes.items():
        if isinstance(value, tuple):
            message.attributes[name].ints_value.values.extend(value)
            message.attributes[name].ints_value.SetInParent()
        else:
            setattr(message.attributes[name], kinds[type(value)], value)
    return message
