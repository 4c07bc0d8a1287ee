"""What it costs that Ray places a server: calls/s, latency and CPU time, beside a server that was started by hand.

`python -m tools.benchmarks.ray [ROUNDS] [SECONDS]`. Both are the same server with the same kernels, and are measured in
turns by h2load. With `ray[serve]` installed, the naive way is measured too: Ray Serve's gRPC ingress before a function
that computes the same gradient in numpy. The ratios are those to the server by hand in the same round.
"""

import math
import os
import socket
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")

import grpc
import numpy as np
import psutil
import ray

import aclgrad.ray
from aclgrad.ray._server_process import ServerProcess
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from tools.benchmarks import loads
from tools.benchmarks.haproxy import measure
from tools.benchmarks.sizes import SIZES
from tools.calling import wait_until
from tools.serving import clean_environment

SIZE_NAMES: Final = ("16 KB", "1 MB")
AT_ONCE: Final = (1, 16)
COLUMNS: Final = ("calls/s", "p50 ms", "p99 ms", "CPU ms")
NODE: Final = "127.0.0.2"
"""On loopback; what is at 127.0.0.1, Ray looks for at the address of the machine."""
APPLICATION: Final = ("application", "default")
"""Metadata by which Serve finds what is deployed."""
SERVICER: Final = "aclgrad.v1.operator_service_pb2_grpc.add_OperatorServiceServicer_to_server"


class Way(NamedTuple):
    """A way to the gradient; `process_id` is that of the server, if one process is all that computes."""

    name: str
    address: str
    process_id: int | None = None

    def cpu_s(self) -> float:
        times = psutil.Process(self.process_id).cpu_times() if self.process_id else None
        return times.user + times.system if times else math.nan


class Ingress:
    """What a user of Ray Serve would write: adaptive average pooling backward, if the sizes divide each other."""

    def ExecuteOperator(self, request: pb.ExecuteOperatorRequest) -> pb.ExecuteOperatorResponse:  # noqa: N802
        inputs = {tensor.name: tensor for tensor in request.inputs}
        given = inputs["grad_output"]
        gradient = np.frombuffer(given.data, np.float32).reshape(given.shape)
        for axis in (-1, -2):
            factor = inputs["self"].shape[axis] // given.shape[axis]
            gradient = gradient.repeat(factor, axis=axis) / factor
        reply = pb.ExecuteOperatorResponse()
        data = gradient.astype(np.float32).tobytes()
        reply.outputs.add(name="out", data_type=given.data_type, shape=gradient.shape, data=data)
        return reply


@contextmanager
def by_hand() -> Iterator[Way]:
    """Yields a server without Ray.

    It has a session of its own and half of the processors, as the other one has: Linux shares time among sessions.
    """
    flags = ("--listen", "127.0.0.1:0", "--workers", "1", "--backend", "host")
    environment = clean_environment(ACL_HOST_PROCESSES=str(os.cpu_count()))
    process = ServerProcess([str(Path(sys.executable).with_name("aclgrad-server")), *flags], environment)
    try:
        yield Way("by hand", process.wait_until_ready().address, process.wait_until_ready().process_id)
    finally:
        process.stop(10)


@contextmanager
def placed() -> Iterator[Way]:
    """Yields a server that Ray has started."""
    try:
        address = aclgrad.ray.deploy(1, resources={"CPU": 1}, flags=["--insecure"])
        yield Way("by Ray", address, aclgrad.ray.status()[0].process_id)
    finally:
        aclgrad.ray.stop()


@contextmanager
def ingress() -> Iterator[Way]:
    """Yields Serve's gRPC proxy."""
    from ray import serve
    from ray.serve.config import gRPCOptions

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve.start(grpc_options=gRPCOptions(port=port, grpc_servicer_functions=[SERVICER]))
    try:
        deployment: Any = serve.deployment(Ingress, max_ongoing_requests=100)
        serve.run(deployment.bind())
        wait_until(lambda: is_found(f"127.0.0.1:{port}"), look_s=0.1)
        yield Way("Serve", f"127.0.0.1:{port}")
    finally:
        serve.shutdown()


def is_found(address: str) -> bool:
    """Whether Serve's proxy has heard of what was deployed, which takes it a moment."""
    with grpc.insecure_channel(address) as channel:
        try:
            OperatorServiceStub(channel).ExecuteOperator(pb.ExecuteOperatorRequest(), metadata=(APPLICATION,))
        except grpc.RpcError as error:
            return error.code() is not grpc.StatusCode.NOT_FOUND
    return True


def main() -> None:
    """Prints a line for each size, number of callers and way."""
    rounds, seconds = int(sys.argv[1]) if sys.argv[1:] else 10, float(sys.argv[2]) if sys.argv[2:] else 1.0
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
        _node_ip_address=NODE,
    )
    try:
        with by_hand() as hand:
            print("   size callers      way" + "".join(f"{column:>11} ratio" for column in COLUMNS), flush=True)
            # One at a time: Serve's processes take time even if nobody calls.
            with placed() as way:
                compare((hand, way), rounds, seconds)
            if find_spec("fastapi") is not None:
                with ingress() as way:
                    compare((hand, way), rounds, seconds)
    finally:
        ray.shutdown()


def compare(ways: Sequence[Way], rounds: int, seconds: float) -> None:
    for size, at_once in product(SIZE_NAMES, AT_ONCE):
        for way in ways:
            check(way.address, size)
        report(size, at_once, ways, rounds, seconds)


def check(address: str, size: str) -> None:
    """Makes sure that a way leads to the gradient: h2load counts any reply."""
    with grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)]) as channel:
        stub = OperatorServiceStub(channel)
        request = pb.ExecuteOperatorRequest.FromString(loads.unary_request(SIZES[size]))
        (output,) = stub.ExecuteOperator(request, timeout=60, metadata=(APPLICATION,)).outputs
    assert output.data == loads.gradient(SIZES[size]).tobytes(), address


def report(size: str, at_once: int, ways: Sequence[Way], rounds: int, seconds: float) -> None:
    measured: dict[Way, list[tuple[float, ...]]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            begin_s = way.cpu_s()
            found = measure((way.address,), size, at_once, seconds, ": ".join(APPLICATION))
            # Calls of the warm-up are not counted, and cost both ways as much.
            measured[way].append((*found, 1e3 * (way.cpu_s() - begin_s) / (found[0] * seconds)))
    for way, rows in measured.items():
        cells = []
        for kind in range(len(COLUMNS)):
            values = [row[kind] for row in rows]
            ratios = [its / theirs[kind] for its, theirs in zip(values, measured[ways[0]], strict=True)]
            cells.append(f"{statistics.median(values):11.2f} {statistics.median(ratios):5.2f}")
        print(f"{size:>7} {at_once:>7} {way.name:>8}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
