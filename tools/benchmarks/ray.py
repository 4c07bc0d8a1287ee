"""What it costs that Ray places a server, beside a server that was started by hand.

Both are the same server with the same kernels. With `ray[serve]` installed, the naive way is measured too: Ray Serve's
gRPC ingress before a function that computes the same gradient in numpy. Ratios are to the server by hand.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")

import grpc
import numpy as np
import ray

import aclgrad.ray
from aclgrad.ray._server_process import ServerProcess
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from tools.benchmarks import h2load, loads
from tools.benchmarks.measure import ServerUnderTest, in_turns
from tools.benchmarks.report import Report
from tools.benchmarks.sizes import SIZES
from tools.calling import wait_until
from tools.serving import clean_environment

SIZE_NAMES: Final = ("16 KB", "1 MB")
AT_ONCE: Final = (1, 16)
FIGURES: Final = ("calls_per_s", "p50_ms", "p99_ms", "cpu_us")
NODE: Final = "127.0.0.2"
"""On loopback; what is at 127.0.0.1, Ray looks for at the address of the machine."""
APPLICATION: Final = ("application", "default")
"""Metadata by which Serve finds what is deployed."""
SERVICER: Final = "aclgrad.v1.operator_service_pb2_grpc.add_OperatorServiceServicer_to_server"


class Way(NamedTuple):
    """A way to the gradient; `server` is the process that computes, if there is one alone."""

    name: str
    address: str
    server: ServerUnderTest | None = None


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
        ready = process.wait_until_ready()
        yield Way("by hand", ready.address, ServerUnderTest(ready.process_id, ready.address))
    finally:
        process.stop(10)


@contextmanager
def by_ray() -> Iterator[Way]:
    """Yields a server that Ray has started."""
    try:
        address = aclgrad.ray.deploy(1, resources={"CPU": 1}, flags=["--insecure"])
        yield Way("by Ray", address, ServerUnderTest(aclgrad.ray.status()[0].process_id, address))
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


def main(quick: bool, arguments: list[str]) -> None:
    report = Report("ray", __doc__)
    report.table("Ways to a server", "size", "at once", "way", *(f"{each}, ratio" for each in FIGURES))
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
        _node_ip_address=NODE,
    )
    try:
        with by_hand() as hand:
            # One at a time: Serve's processes take time even if nobody calls.
            with by_ray() as way:
                compare(report, hand, way, quick)
            if find_spec("fastapi") is not None:
                with ingress() as way:
                    compare(report, hand, way, quick)
    finally:
        ray.shutdown()
    report.write()


def compare(report: Report, hand: Way, way: Way, quick: bool) -> None:
    for name, at_once in product(SIZE_NAMES, AT_ONCE):
        size = SIZES[name]
        load = loads.unary(size)
        for each in (hand, way):
            reply = pb.ExecuteOperatorResponse.FromString(h2load.check(each.address, load, APPLICATION))
            assert reply.outputs[0].data == loads.gradient(size).tobytes(), each
        rows = {
            each.name: partial(h2load.measure, each.address, load, at_once, 1.0, APPLICATION, of=each.server)
            for each in (hand, way)
        }
        measured = in_turns(rows, 2 if quick else 10)
        for each, samples in measured.items():
            shown = [figure for figure in FIGURES if figure in samples.rounds[0]]
            told = (f"{samples.median(one):.2f} {samples.ratio(measured[hand.name], one):.2f}" for one in shown)
            report.row(name, str(at_once), each, *told)
