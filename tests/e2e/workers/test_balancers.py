"""What gRPC's own balancers make of a host: a channel with a service config and nothing of ours uses all workers."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import encode_request
from tests.e2e.admin_pages import value
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import CALL, Host, calling
from tools.calling import wait_until
from tools.raw_calls import SERVICE, TIMEOUT_S

pytestmark = once

OWN = ("grpc.use_local_subchannel_pool", 1)
STATUS = health_pb2.HealthCheckResponse
CALLS = "aclgrad_calls_total"


def host_of(address: str) -> pb.Host:
    """Returns what a new connection is told by ListOperators."""
    with grpc.insecure_channel(address, [OWN]) as channel:
        list_operators = channel.unary_unary(SERVICE + "ListOperators")
        reply = list_operators(b"", timeout=TIMEOUT_S, wait_for_ready=True)
    return pb.ListOperatorsResponse.FromString(reply).host


@contextmanager
def balanced(ports: list[int], health_name: str) -> Iterator[grpc.UnaryUnaryMultiCallable]:
    """Yields ExecuteOperator of a channel to these ports of this machine; nothing is tried again."""
    config = {
        "loadBalancingConfig": [{"weighted_round_robin": {"blackoutPeriod": "1s", "weightUpdatePeriod": "1s"}}],
        "healthCheckConfig": {"serviceName": health_name},
    }
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    options = [("grpc.service_config", json.dumps(config)), ("grpc.enable_retries", 0), OWN]
    with grpc.insecure_channel(target, options) as channel:
        yield channel.unary_unary(SERVICE + "ExecuteOperator")


def calls_of(host: Host, worker: int) -> float:
    return value(host.admin, CALLS, worker=str(worker), method="ExecuteOperator") or 0


def test_every_worker_tells_the_same_id_and_listeners(host: Host) -> None:
    told = [host_of(address) for address in (host.address, *host.worker_addresses)]
    assert told[0] == told[1] == told[2]
    ((port, worker_ports),) = ((each.port, list(each.worker_ports)) for each in told[0].listeners)
    assert f"127.0.0.1:{port}" == host.address
    assert tuple(f"127.0.0.1:{each}" for each in worker_ports) == host.worker_addresses
    for address in host.worker_addresses:
        with grpc.insecure_channel(address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            assert stub.Check(health_pb2.HealthCheckRequest(service=told[0].id)).status == STATUS.SERVING


def test_calls_of_one_channel_spread_and_none_is_lost_while_a_worker_drains(host: Host) -> None:
    """Who watches its health has sent its calls elsewhere by the time it refuses. The next process has the same id."""
    told = host_of(host.address)

    def made() -> list[float]:
        return [calls_of(host, worker) - before[worker] for worker in (0, 1)]

    with balanced(list(told.listeners[0].worker_ports), told.id) as execute:
        call = partial(execute, encode_request(CALL), timeout=TIMEOUT_S)
        execute(encode_request(CALL), timeout=TIMEOUT_S, wait_for_ready=True)
        before = [calls_of(host, worker) for worker in (0, 1)]
        with calling(call, threads=4) as failures:
            wait_until(lambda: min(made()) > 50)  # a channel uses the first connection until it has the second
            before = [calls_of(host, worker) for worker in (0, 1)]
            wait_until(lambda: sum(made()) > 200)
            assert min(made()) > 50
            host.send_to_worker(1, signal.SIGTERM)
            wait_until(lambda: "worker 1 ended with exit code 0" in host.log)
            host.wait_until_whole()
    assert failures == []
    assert host_of(host.worker_addresses[1]) == told
