"""Programs of attackers: long, wrong in every step, half sent, or with intermediates that no message shows."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from aclgrad.sources import SHAPE_ONLY, OutputOf, TableEntry
from aclgrad.tensors import DTYPES, TensorType, TensorView, View, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.chunks import chunk_prefix, encode_header
from aclgrad.wire.limits import MAX_PROGRAM_REST_BYTES, MAX_STEPS, MAX_VIOLATIONS
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import encode_program
from tools.lab.hostile import frames
from tools.lab.hostile.bodies import pooling

FLOAT: Final = DTYPES["float32"]
TANH: Final = "tanh_backward"
TANH_OUTPUT: Final = "grad_input"
LARGE_STEPS: Final = 16
CHAIN_ELEMENTS: Final = 64
CHUNK_BYTES: Final = 2**16
ATTRIBUTE_BYTES: Final = 9
"""Of a bool, beside its name."""


def wrong_steps(*, in_chunks: bool = False) -> bytes:
    """Returns as many steps as a program may have in as many bytes, and as much to say of each of them."""
    step = pb.ExecuteOperatorRequest.FromString(encode_request(pooling((1, 2, 2))))
    for tensor in step.inputs:
        tensor.ClearField("data")
    left = MAX_PROGRAM_REST_BYTES // MAX_STEPS - step.ByteSize() - 8
    for number in range(MAX_VIOLATIONS):
        name = str(number) + "x" * (left // MAX_VIOLATIONS - ATTRIBUTE_BYTES)
        step.attributes[name].bool_value = True
    program = encode_program([step.SerializeToString()] * MAX_STEPS)
    if not in_chunks:
        return frames.message(program)
    return frames.message(encode_header(program, CHUNK_BYTES))


def empty_table(count: int) -> bytes:
    """Returns the header of a program whose table has this many tensors, 2 bytes each."""
    program = pb.ExecuteProgramRequest(tensors=[tensor_pb2.Tensor()]).SerializeToString() * count
    return frames.message(encode_header(program, CHUNK_BYTES))


def long_chain(count: int) -> bytes:
    """Returns a chain of steps with next to nothing to compute, of which the last output comes back."""
    array = np.full(CHAIN_ELEMENTS, 0.5, np.float32)
    type = TensorType(FLOAT, array.shape)
    steps = [_tanh(type, number - 1) for number in range(count)]
    return _program(steps, array, count - 1)


def stretched(size_bytes: int) -> bytes:
    """Returns a chain whose steps read one element again and again, and make so many bytes together."""
    side = int((size_bytes // LARGE_STEPS // 4) ** 0.5)
    type = TensorType(FLOAT, (side, side))
    steps = [_tanh(type, number - 1, View(0, (0, 0))) for number in range(LARGE_STEPS)]
    steps.append(_corner(type, LARGE_STEPS - 1, TANH_OUTPUT))
    return _program(steps, np.ones((1, 1), np.float32), LARGE_STEPS)


def held(size_bytes: int) -> bytes:
    """Returns a program whose first half makes so many bytes of nothing, and whose second half needs all of them."""
    shape = (1, size_bytes // LARGE_STEPS // 2**12, 2**10)
    steps = [encode_request(pooling(shape))] * LARGE_STEPS
    steps += [_corner(TensorType(FLOAT, shape), number, "out") for number in range(LARGE_STEPS)]
    return _program(steps, np.ones((1, 1), np.float32), 2 * LARGE_STEPS - 1)


def half_sent(size_bytes: int) -> bytes:
    """Returns the header of a chain whose table comes in chunks, and the first half of the chunks."""
    type = TensorType(FLOAT, (size_bytes // 2**12, 2**10))
    steps = [_tanh(type, number - 1, second=number) for number in range(4)]
    program = encode_program(steps, [TensorView("", type, SHAPE_ONLY)] * 4, [OutputOf(3, TANH_OUTPUT, 0)])
    sent = frames.message(encode_header(program, CHUNK_BYTES))
    for tensor in range(2):
        for offset in range(0, type.size_bytes, CHUNK_BYTES):
            sent += frames.message(chunk_prefix(tensor, offset, CHUNK_BYTES) + bytes(CHUNK_BYTES))
    return sent


def _tanh(type: TensorType, before: int, view: View | None = None, second: int = 0) -> bytes:
    """Returns a step that takes the step `before`, if there is one, and a tensor of the table."""
    table = TensorView("output", type, TableEntry(second, 0), view)
    first = TensorView("grad_output", type, OutputOf(before, TANH_OUTPUT, 0))
    if before < 0:
        first = TensorView("grad_output", type, TableEntry(0, 0), view)
    return encode_request(OperatorCall(TANH, (first, table), {}))


def _corner(type: TensorType, producer: int, output: str) -> bytes:
    """Returns a step that needs one element of an output."""
    one = TensorType(FLOAT, (1, 1))
    first = TensorView("grad_output", one, OutputOf(producer, output, 0), View(0, (1, 1)))
    return encode_request(OperatorCall(TANH, (first, TensorView("output", one, TableEntry(0, 0))), {}))


def _program(steps: Sequence[bytes], array: np.ndarray[tuple[int, ...], np.dtype[np.float32]], returned: int) -> bytes:
    table = [view_of_array("", array)]
    return frames.message(encode_program(steps, table, [OutputOf(returned, TANH_OUTPUT, 0)]))
