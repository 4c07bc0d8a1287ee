"""Inputs that do not come with their message: gathered piece by piece, on the device or where they are checked."""

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from aclgrad.tensors import Announced, SharedRange
from aclgrad_server.device import Device, DeviceInput, StagedTensor, Staging
from aclgrad_server.executor import prepare_input
from aclgrad_server.validation import OperatorPlan


class Gathered(Protocol):
    """What takes the bytes of one input."""

    size_bytes: int

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None: ...

    def read_file(self, file: int, offset: int, timeout_s: float) -> int:
        """Fills the input from an open file and returns how many bytes it had."""

    def content(self) -> memoryview | StagedTensor: ...


class _OnDevice:
    """For values that nobody but the device reads."""

    def __init__(self, staging: Staging, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._tensor = staging.reserve(size_bytes)

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None:
        self._tensor.write(offset, data, timeout_s)

    def read_file(self, file: int, offset: int, timeout_s: float) -> int:
        return self._tensor.read_file(file, offset, timeout_s)

    def content(self) -> StagedTensor:
        return self._tensor


class _OnHost:
    """For values that have to be checked before a device reads them: the copy is what is checked and what is read."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._bytes = np.empty(size_bytes, np.uint8).data

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None:
        self._bytes[offset : offset + len(data)] = data

    def read_file(self, file: int, offset: int, timeout_s: float) -> int:
        done = 0
        while done < self.size_bytes:
            count = os.preadv(file, [self._bytes[done:]], offset + done)
            if count == 0:
                break
            done += count
        return done

    def content(self) -> memoryview:
        return self._bytes


def gathered_bytes(plan: OperatorPlan) -> int:
    """Returns what the call holds on the host beside the memory of its tensors on the device."""
    return sum(
        tensor.type.size_bytes
        for tensor, rule in zip(plan.inputs, plan.rules, strict=True)
        if rule is not None and tensor.is_elsewhere
    )


def gather(staging: Staging, plan: OperatorPlan) -> dict[str, Gathered]:
    """Returns what takes each input whose bytes are elsewhere, by its name."""
    return {
        tensor.name: _OnDevice(staging, tensor.type.size_bytes) if rule is None else _OnHost(tensor.type.size_bytes)
        for tensor, rule in zip(plan.inputs, plan.rules, strict=True)
        if tensor.is_elsewhere
    }


def device_inputs(device: Device, plan: OperatorPlan, gathered: dict[str, Gathered]) -> Sequence[DeviceInput]:
    """Returns the inputs as the device reads them; raises a RequestError where a value breaks its rule."""
    inputs = []
    for tensor, rule in zip(plan.inputs, plan.rules, strict=True):
        data = tensor.data
        content = gathered[tensor.name].content() if isinstance(data, Announced | SharedRange) else data
        inputs.append(prepare_input(device, tensor.name, DeviceInput(tensor.type, content), rule))
    return inputs
