"""`aclgrad.v1.OperatorService`."""

from collections.abc import Iterable
from functools import partial
from typing import Final

import grpc

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.describe import describe_operator
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import parse_message
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.opening import Library
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.devices.watch import refresh
from aclgrad_server.listen_addresses import UNIX
from aclgrad_server.server_view import ServerView
from aclgrad_server.services.chunked import execute_chunked
from aclgrad_server.services.handlers import Handlers, Unary
from aclgrad_server.services.programs import execute_program
from aclgrad_server.status.server_status import VERSION, server_status

SERVICE: Final = pb.DESCRIPTOR.services_by_name["OperatorService"].full_name


class OperatorService:
    """Answers the calls of the service; requests and replies are bytes, so that protobuf copies no tensor."""

    def __init__(self, view: ServerView, turned_off: TurnedOff, library: Library, runner: Runner) -> None:
        self._view = view
        self._product = product = turned_off.product
        served = [(spec, turned_off.served_dtypes(spec)) for spec in OPERATORS.values()]
        self._described = [
            describe_operator(spec, product, library.shape_only, dtypes, spec.name in library.reads_views)
            for spec, dtypes in served
            if dtypes
        ]
        self._runner = runner

    def handler(self, handlers: Handlers) -> grpc.GenericRpcHandler:
        """Returns gRPC's handlers; without serializers, gRPC passes bytes through."""
        runner = self._runner
        unary: dict[str, Unary] = {
            "ListOperators": self.list_operators,
            "GetServerStatus": self.get_server_status,
            "ExecuteOperator": runner.execute,
            "ExecuteProgram": partial(execute_program, runner),
        }
        methods = {name: handlers.unary(name, behaviour) for name, behaviour in unary.items()}
        methods["ExecuteProgramChunked"] = handlers.stream("ExecuteProgramChunked", partial(execute_chunked, runner))
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def list_operators(self, request: bytes, call: Call) -> bytes:
        parse_message(pb.ListOperatorsRequest, request)
        return pb.ListOperatorsResponse(operators=self._described, host=_host(self._view)).SerializeToString()

    async def get_server_status(self, request: bytes, call: Call) -> bytes:
        parse_message(pb.GetServerStatusRequest, request)
        if not call.sees_details:
            return pb.GetServerStatusResponse(version=VERSION, product=self._product).SerializeToString()
        await refresh(self._runner.device)
        return server_status(self._view, with_private=True).SerializeToString()


def _host(view: ServerView) -> pb.Host:
    """Returns the ports of the workers, by their shared port."""

    def ports(addresses: Iterable[str]) -> list[int]:
        return [int(each.rpartition(":")[2]) for each in addresses if not each.startswith(UNIX)]

    host = pb.Host(id=view.host_id)
    if (place := view.place) is not None:
        own = [ports(addresses) for addresses in place.endpoints]
        for number, port in enumerate(ports(place.shared)):
            host.listeners.add(port=port, worker_ports=[each[number] for each in own])
    return host
