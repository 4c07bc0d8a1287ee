"""Tensors of any kind are sent as they are, or refused with the call that helps."""

import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclgrad
from aclgrad._client.calls.arrays import as_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import ScriptedService

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


class ByDlpack:
    """A tensor of a library that knows only DLPack."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


class ByInterface:
    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.__array_interface__ = values.__array_interface__


class ByArray:
    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._values


def read_only(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flags.writeable = False
    return values


INPUTS: list[tuple[Any, np.ndarray]] = [
    *((kind(VALUES), VALUES) for kind in (ByDlpack, ByInterface, ByArray, memoryview, read_only)),
    (array.array("d", [1, 2]), np.array([1, 2], np.float64)),
    (bytearray(b"\x01\x02"), np.array([1, 2], np.uint8)),
    (VALUES.T, VALUES.T.copy()),
    (VALUES[::-1, :, ::2], VALUES[::-1, :, ::2].copy()),
    (np.asfortranarray(VALUES), VALUES),
    (VALUES.astype(">f4"), VALUES),
    (np.broadcast_to(np.float32(3), (2, 2)), np.full((2, 2), 3, np.float32)),
    (np.empty((0, 3), np.float32), np.empty((0, 3), np.float32)),
    (VALUES.astype(ml_dtypes.bfloat16)[:, 1], VALUES.astype(ml_dtypes.bfloat16)[:, 1].copy()),
    (np.float64(2.5), np.array(2.5)),
    (2.5, np.array(2.5)),
    ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
]


async def test_inputs_of_any_kind_are_sent_as_they_are(connect: Connect, service: ScriptedService) -> None:
    client = connect(service.address)
    for given, expected in INPUTS:
        service.requests.clear()
        await maybe_await(client.execute("pool", {"a": given}))
        (sent,) = pb.ExecuteOperatorRequest.FromString(service.requests[0][1]).inputs
        held = np.frombuffer(sent.data, expected.dtype)
        if sent.HasField("view"):
            strides = [each * held.itemsize for each in sent.view.strides]
            held = np.lib.stride_tricks.as_strided(held[sent.view.offset :], tuple(sent.shape), strides)
        assert (tuple(sent.shape), held.tobytes()) == (expected.shape, expected.tobytes()), type(given)
        number = sent.view.data_type or sent.data_type
        assert tensor_pb2.DataType.Name(number) == f"DATA_TYPE_{expected.dtype.name.upper()}"


def test_what_has_memory_is_not_copied() -> None:
    for kind in (ByDlpack, ByInterface, ByArray, memoryview):
        assert np.shares_memory(as_array("a", kind(VALUES)), VALUES), kind
    assert as_array("a", VALUES) is VALUES


class Unreadable:
    """What a tensor of PyTorch does that numpy cannot read."""

    def __init__(self, device: str = "cpu", requires_grad: bool = False) -> None:
        self.device, self.requires_grad = device, requires_grad

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("not like this")


UNREADABLE = [
    (Unreadable(requires_grad=True), r"records gradients \(requires_grad\); give tensor.detach\(\)"),
    (Unreadable("npu:0"), r"is on the device npu:0; give tensor.cpu\(\)"),
    (Unreadable("npu:0", True), r"records .* and is on the device npu:0; give tensor.detach\(\).cpu\(\)"),
    (Unreadable(), "is no array: not like this; give an array or a shape"),
    (b"text", "has dtype .S4, which the wire does not have"),
    (None, "is None, which .*; give an array or a shape"),
    ([{}], "is a list, which .*; give an array or a shape"),
    (np.array(["2026-11-22"], "M8[D]"), "has dtype datetime64"),
]


async def test_what_cannot_be_read_is_refused_by_name(connect: Connect, service: ScriptedService) -> None:
    client = connect(service.address)
    for given, message in UNREADABLE:
        for target in (client, client.batch()):
            with pytest.raises(aclgrad.InvalidFieldError, match=rf"^inputs\[a\] {message}") as caught:
                await maybe_await(target.execute("pool", {"a": given}))
            assert caught.value.field == "inputs[a]"
    assert not service.requests
