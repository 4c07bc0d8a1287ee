"""Servers that compute one step of each program wrongly, so that all later steps follow from it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from aclgrad.errors import ServerFaultError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.sources import Source
from aclgrad.tensors import TensorView
from aclgrad.testing import _programs, _server
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.programs import SentProgram, StepOutcome

Outputs = tuple[TensorView, ...]


def plant(
    patch: pytest.MonkeyPatch,
    is_wrong: Callable[[int, OperatorCall], bool],
    factor: float = 1.01,
    *,
    is_inside: bool = False,
) -> None:
    """Has servers of `aclgrad.testing` multiply the outputs of the steps that `is_wrong` names, by number and call.

    With `is_inside` it is only the outputs that stay on the device.
    """

    def run(program: SentProgram, execute: Callable[[OperatorCall], Outputs], request_id: str) -> Iterator[StepOutcome]:
        numbers = count()

        def wrong(call: OperatorCall) -> Outputs:
            outputs = execute(call)
            if not is_wrong(next(numbers), call):
                return outputs
            inside = {each.name for each in OPERATORS[call.operator].outputs if each.stays_inside}
            return tuple(_times(each, factor) if each.name in inside or not is_inside else each for each in outputs)

        return _programs.run_program(program, wrong, request_id)

    patch.setattr(_server, "run_program", run)


def fail(patch: pytest.MonkeyPatch, is_wrong: Callable[[int, OperatorCall], bool]) -> None:
    """Has the steps that `is_wrong` names fail."""

    def run(program: SentProgram, execute: Callable[[OperatorCall], Outputs], request_id: str) -> Iterator[StepOutcome]:
        numbers = count()

        def failing(call: OperatorCall) -> Outputs:
            if is_wrong(next(numbers), call):
                raise ServerFaultError("broken")
            return execute(call)

        return _programs.run_program(program, failing, request_id)

    patch.setattr(_server, "run_program", run)


def _times(tensor: TensorView, factor: float) -> TensorView:
    """Returns a tensor of floats with its elements multiplied; another one stays as it is."""
    dtype = tensor.type.dtype.numpy
    if dtype.kind in "iub":
        return tensor
    assert tensor.data is not None
    values = np.frombuffer(tensor.data, dtype).astype(np.float64)
    data = (values * factor).astype(dtype).view(np.uint8).data
    source: Source = replace(tensor.source, data=data)
    return replace(tensor, source=source)
