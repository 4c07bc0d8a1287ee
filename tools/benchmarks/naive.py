"""What a user would write instead: generated stubs, a thread pool, tensors in protobuf messages, PyTorch's backward.

It serves `ExecuteOperator` for adaptive average pooling of float32, with the contract's own messages.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
import numpy as np
import torch

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceServicer, add_OperatorServiceServicer_to_server

THREADS: Final = 16
LIMIT: Final = 2**31 - 1


class Naive(OperatorServiceServicer):  # type: ignore[misc]
    """Computes the gradient as a user of PyTorch would."""

    def ExecuteOperator(  # noqa: N802 - gRPC's name
        self, request: pb.ExecuteOperatorRequest, context: grpc.ServicerContext
    ) -> pb.ExecuteOperatorResponse:
        inputs = {tensor.name: tensor for tensor in request.inputs}
        given = inputs["grad_output"]
        grad_output = torch.from_numpy(np.frombuffer(given.data, np.float32).reshape(given.shape).copy())
        pooled = torch.zeros(list(inputs["self"].shape), requires_grad=True)
        torch.nn.functional.adaptive_avg_pool2d(pooled, grad_output.shape[-2:]).backward(grad_output)
        assert pooled.grad is not None
        gradient = pooled.grad.numpy()
        reply = pb.ExecuteOperatorResponse()
        reply.outputs.add(name="out", data_type=given.data_type, shape=gradient.shape, data=gradient.tobytes())
        return reply


def main() -> None:
    options = [("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", LIMIT)]
    server = grpc.server(ThreadPoolExecutor(THREADS), options=options)
    add_OperatorServiceServicer_to_server(Naive(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"ready: 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
