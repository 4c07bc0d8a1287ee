"""Health, reflection and generated stubs: what other tools see of the server."""

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from tools.serving import Server

SERVING = health_pb2.HealthCheckResponse.SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
HEALTHY = ("", "readiness", "liveness", "aclgrad.v1.OperatorService")
TIMEOUT_S = 60


@pytest.mark.parametrize("name", HEALTHY)
def test_health_check(server: Server, name: str) -> None:
    with server.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT_S).status == SERVING


@pytest.mark.parametrize(("name", "status"), [*((name, SERVING) for name in HEALTHY), ("nothing", SERVICE_UNKNOWN)])
def test_health_watch_begins_with_the_present(server: Server, name: str, status: int) -> None:
    with server.channel() as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=name))
        assert next(watch).status == status
        watch.cancel()


def test_health_of_an_unknown_service_is_not_found(server: Server) -> None:
    with server.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


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


def test_generated_stub_gets_the_details_of_an_error(server: Server) -> None:
    request = pb.ExecuteOperatorRequest(operator="nothing")
    metadata = [("x-request-id", "mine-42")]
    with server.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        OperatorServiceStub(channel).ExecuteOperator(request, timeout=TIMEOUT_S, metadata=metadata)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    trailers = dict(caught.value.trailing_metadata())
    assert trailers["x-request-id"] == "mine-42"
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == ("UNKNOWN_OPERATOR", "aclgrad")
    assert info.metadata["operator"] == "nothing"
    assert info.metadata["request_id"] == "mine-42"
