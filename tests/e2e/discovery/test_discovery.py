"""Health, reflection and generated stubs: what other tools see of the server."""

import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from tools.serving import Server

SERVING = health_pb2.HealthCheckResponse.SERVING
HEALTHY = ("", "readiness", "liveness", "aclgrad.v1.OperatorService")
TIMEOUT_S = 60


def test_health_of_each_name(server: Server) -> None:
    with server.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in HEALTHY:
            request = health_pb2.HealthCheckRequest(service=name)
            assert stub.Check(request, timeout=TIMEOUT_S).status == SERVING
            assert next(stub.Watch(request, timeout=TIMEOUT_S)).status == SERVING


def test_reflection_lists_the_services_and_their_files(server: Server) -> None:
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="aclgrad.v1.OperatorService"),
    ]
    with server.channel() as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        listed, described = stub.ServerReflectionInfo(iter(requests), timeout=TIMEOUT_S)
    assert {service.name for service in listed.list_services_response.service} == {
        "aclgrad.v1.OperatorService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert pb.DESCRIPTOR.serialized_pb in described.file_descriptor_response.file_descriptor_proto


def test_generated_stub_gets_the_gradient(server: Server) -> None:
    request = pb.ExecuteOperatorRequest(operator="adaptive_avg_pool2d_backward")
    request.inputs.add(name="self", data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=[1, 2, 2])
    data = np.float32(8).tobytes()
    request.inputs.add(name="grad_output", data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=[1, 1, 1], data=data)
    with server.channel() as channel:
        (output,) = OperatorServiceStub(channel).ExecuteOperator(request, timeout=TIMEOUT_S).outputs
    assert (output.name, output.data_type, list(output.shape)) == ("out", tensor_pb2.DATA_TYPE_FLOAT32, [1, 2, 2])
    assert np.frombuffer(output.data, np.float32).tolist() == [2, 2, 2, 2]
