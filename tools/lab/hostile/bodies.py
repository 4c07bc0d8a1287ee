"""Messages of attackers: small ones that ask for much, and large ones."""

from typing import Final

import numpy as np
from grpc_health.v1 import health_pb2

from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.chunks import chunk_prefix, encode_step_header
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import encode_program
from tools.lab.hostile import frames
from tools.raw_calls import SERVICE, SMALL

UNARY: Final = SERVICE + "ExecuteOperator"
PROGRAM: Final = SERVICE + "ExecuteProgram"
CHUNKED: Final = SERVICE + "ExecuteProgramChunked"
HEALTH: Final = "/grpc.health.v1.Health/"
REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
POOLING: Final = "adaptive_avg_pool2d_backward"
FLOAT: Final = DTYPES["float32"]
LARGEST_SIZE: Final = 2**62
SIZE_BYTES: Final = 9
"""Of one such size on the wire."""
BOXES_PER_MEGABYTE: Final = 50_000
IMAGE: Final = 512


def pooling(output_shape: tuple[int, ...]) -> OperatorCall:
    """Returns a call of 16 bytes whose gradient has this shape (batch, height, width), float32."""
    grad = view_of_array("grad_output", np.ones((output_shape[0], 1, 1), np.float32))
    return OperatorCall(POOLING, (grad, TensorView("self", TensorType(FLOAT, output_shape))), {})


def small() -> bytes:
    return frames.message(encode_request(pooling((1, 2, 2))))


def large_reply(size_bytes: int) -> bytes:
    return frames.message(encode_request(pooling((1, size_bytes // 2**12, 2**10))))


def claim(size_bytes: int) -> bytes:
    """Returns the header of a chunked call that takes this much memory, and one byte of its tensor."""
    shape = (1, size_bytes // 2**16, 2**14)
    inputs = (TensorView("grad_output", TensorType(FLOAT, (1, 1, 2))), TensorView("self", TensorType(FLOAT, shape)))
    header = frames.message(encode_step_header(OperatorCall(POOLING, inputs, {}), ("grad_output",), 2**20))
    return header + frames.message(chunk_prefix(0, 0, 1) + b"\0")


def long_shape(size_bytes: int) -> bytes:
    """Returns the header of a program whose table announces a tensor with a shape of this many bytes."""
    shape = [LARGEST_SIZE] * (size_bytes // SIZE_BYTES)
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=shape)
    step = pb.ExecuteOperatorRequest(operator=POOLING, inputs=[tensor_pb2.Tensor(name="self", table_index=0)])
    header = pb.ProgramHeader(program=pb.ExecuteProgramRequest(steps=[step], tensors=[tensor]))
    return frames.message(pb.ExecuteProgramChunkedRequest(header=header).SerializeToString())


def long_attribute(count: int) -> bytes:
    """Returns a call, right but for a list of this many values, a byte each, all of them out of bounds."""
    right = SMALL["max_pool2d_with_mask_backward"]
    request = pb.ExecuteOperatorRequest.FromString(encode_request(right))
    request.attributes["kernel_size"].ints_value.values[:] = bytes(count)
    return frames.message(request.SerializeToString())


def empty_steps(count: int) -> bytes:
    """Returns a program of this many steps, 2 bytes each."""
    return frames.message(pb.ExecuteProgramRequest(steps=[{}]).SerializeToString() * count)


def costly(work: int) -> bytes:
    """Returns a call of 1.2 MB: boxes that together ask for this much work, as the server counts it."""
    return frames.message(_costly(work, BOXES_PER_MEGABYTE))


def costly_steps(work: int, count: int) -> bytes:
    """Returns a program of 1.2 MB: so many steps that each ask for this much work."""
    return frames.message(encode_program([_costly(work, BOXES_PER_MEGABYTE // count)] * count))


def _costly(work: int, boxes_count: int) -> bytes:
    side = float(IMAGE)

    def work_of(ratio: int) -> float:
        """Samples, cells that are passed over, and the preparation of both axes."""
        return boxes_count * (ratio**2 + (min(2 * ratio, side) + 1) * side + 16 * ratio)

    ratio = max(each for each in range(1, 1000) if work_of(each) <= work)
    boxes = np.zeros((boxes_count, 5), np.float32)
    boxes[:, 3:] = IMAGE - 1
    inputs = {"grad_output": np.ones((boxes_count, 1, 1, 1), np.float32), "boxes": boxes}
    attributes = {
        "input_shape": (1, 1, IMAGE, IMAGE),
        "pooled_height": 1,
        "pooled_width": 1,
        "sampling_ratio": ratio,
        "aligned": True,
    }
    views = tuple(view_of_array(name, array) for name, array in inputs.items())
    return encode_request(OperatorCall("roi_align_v2_backward", views, attributes))


def health_request(service: str) -> bytes:
    """Returns a HealthCheckRequest."""
    return frames.message(health_pb2.HealthCheckRequest(service=service).SerializeToString())
