"""Calls the workers of a host with grpcio and the stubs of proto/ alone; docs/many-servers.md explains it."""

import json

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub

ADDRESS = "127.0.0.1:50051"
name, _, port = ADDRESS.rpartition(":")

with grpc.insecure_channel(ADDRESS) as door:
    host = OperatorServiceStub(door).ListOperators(pb.ListOperatorsRequest(), timeout=10).host
ports = next((list(each.worker_ports) for each in host.listeners if each.port == int(port)), [int(port)])


def is_ours(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=host.id), timeout=5)
        except grpc.RpcError:
            return False
    return reply.status == health_pb2.HealthCheckResponse.SERVING


addresses = [address for address in (f"{name}:{each}" for each in ports) if is_ours(address)]
config = {
    "loadBalancingConfig": [
        {"weighted_round_robin": {"blackoutPeriod": "1s", "weightUpdatePeriod": "1s"}},
        {"round_robin": {}},
    ],
    "healthCheckConfig": {"serviceName": host.id},
}
options = [
    ("grpc.service_config", json.dumps(config)),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]
with grpc.insecure_channel("ipv4:" + ",".join(addresses), options) as channel:
    service = OperatorServiceStub(channel)
    print(len(service.ListOperators(pb.ListOperatorsRequest(), timeout=10).operators), "operators on", addresses)
