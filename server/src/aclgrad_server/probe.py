"""`aclgrad-server probe`: asks a server for its health, for health checks that go by an exit code."""

import sys
from typing import Final

import click
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aclgrad_server.settings import Settings

EXIT_UNHEALTHY: Final = 1
_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
_OPTIONS: Final = (
    # A probe asks the server next to it: a proxy of the environment has no part in that.
    ("grpc.enable_http_proxy", 0),
    # What another probe of this process learned of the address must not count.
    ("grpc.use_local_subchannel_pool", 1),
)


@click.command(short_help="Ask a server whether it serves; the exit code tells.")
@click.option("--service", default="readiness", show_default=True, help="Name that is asked for; liveness is another.")
@click.option(
    "--timeout-s", type=click.FloatRange(0.01, 60), default=2.0, show_default=True, help="Time for the answer."
)
@click.argument("address", required=False)
@click.pass_obj
def probe(settings: Settings, address: str | None, service: str, timeout_s: float) -> None:
    """Ask the server at ADDRESS, host:port or unix:path, for its health.

    Without ADDRESS it asks the first address that a server would listen on that is started with the flags before
    `probe` and in this environment: of ACLGRAD_LISTEN, of the file that ACLGRAD_CONFIG names, or 127.0.0.1:50051.

    The exit code is 0 if it serves, 1 if it does not or gives no answer, 2 for a wrong use.
    """
    address = address or connectable(settings.listen[0])
    try:
        status = ask(address, service, timeout_s)
    except grpc.RpcError as error:
        _fail(f"{address}: {_told(error, service, timeout_s)}")
    if status != "SERVING":
        _fail(f"{address}: {service or 'server'} is {status}")
    click.echo(f"{address}: {service or 'server'} is {status}")


def connectable(listen: str) -> str:
    """Returns where to reach a server of this host that listens on the address, which may mean all of them."""
    host, _, port = listen.rpartition(":")
    return f"{_EVERY_ADDRESS.get(host, host)}:{port}"


def ask(address: str, service: str, timeout_s: float) -> str:
    """Returns the name of the status of the service; raises grpc.RpcError where there is no answer in time."""
    with grpc.insecure_channel(address, options=_OPTIONS) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        reply = health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout_s)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status))


def _told(error: grpc.RpcError, service: str, timeout_s: float) -> str:
    match error.code():
        case grpc.StatusCode.NOT_FOUND:
            return f"there is no service {service!r}; give --service readiness or liveness"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no answer within {timeout_s:g} s; the server hangs, or is slower than --timeout-s"
        case code:
            return f"no health ({code.name}): {' '.join((error.details() or '').split())}"


def _fail(message: str) -> None:
    click.echo(f"aclgrad-server: {message}", err=True)
    sys.exit(EXIT_UNHEALTHY)
