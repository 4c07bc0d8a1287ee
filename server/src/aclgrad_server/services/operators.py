"""`aclgrad.v1.OperatorService`."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.describe import describe_operator
from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import parse_message
from aclgrad_server.calls.batch import execute_batch
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.chunked import execute_chunked
from aclgrad_server.calls.path import Path
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.device import DeviceGroup
from aclgrad_server.services.handlers import Handlers
from aclgrad_server.settings import Settings

SERVICE: Final = pb.DESCRIPTOR.services_by_name["OperatorService"].full_name


class OperatorService:
    """Answers the calls of the service; requests and replies are bytes, so that no tensor is copied by protobuf."""

    def __init__(
        self,
        settings: Settings,
        product: Product,
        group: DeviceGroup,
        path: Path,
        endpoints: Sequence[str],
        turned_off: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._product = product
        self._served = [spec for spec in OPERATORS.values() if product in spec.products and spec.name not in turned_off]
        self._turned_off = [pb.TurnedOffOperator(name=name, reason=why) for name, why in sorted(turned_off.items())]
        self._group = group
        self._path = path
        self._endpoints = endpoints
        self._shared_memory = SharedMemory(
            settings.shared_memory, settings.shared_memory_prefix, settings.shared_memory_owner
        )
        pool_bytes = min(device.pool_limit_bytes for device in group.devices)
        self._max_call_bytes = settings.max_call_bytes or pool_bytes // 2
        self._start_time = Timestamp()
        self._start_time.GetCurrentTime()

    def handler(self, handlers: Handlers) -> grpc.GenericRpcHandler:
        """Returns what a gRPC server takes; without serializers, gRPC hands bytes through."""
        unary = {
            "ListOperators": self.list_operators,
            "GetServerStatus": self.get_server_status,
            "ExecuteOperator": self.execute_operator,
            "BatchExecuteOperators": self.batch_execute_operators,
        }
        methods = {name: handlers.unary(name, behaviour) for name, behaviour in unary.items()}
        methods["ExecuteOperatorChunked"] = handlers.stream("ExecuteOperatorChunked", self.execute_operator_chunked)
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def execute_operator(self, request: bytes, call: Call) -> bytes:
        plan, payloads = self._path.planner.read(request)
        call.operator = plan.spec.name
        if plan.uses_shared_memory:
            return await self._shared_memory.execute(self._path, call, plan, payloads)
        return await self._path.unary(call, plan, payloads)

    async def batch_execute_operators(self, request: bytes, call: Call) -> bytes:
        return await execute_batch(self._path, call, request)

    async def execute_operator_chunked(self, call: Call) -> None:
        await execute_chunked(self._path, call, self._max_call_bytes)

    async def list_operators(self, request: bytes, call: Call) -> bytes:
        parse_message(pb.ListOperatorsRequest, request)
        described = [describe_operator(spec, self._product, self._group.shape_only) for spec in self._served]
        return pb.ListOperatorsResponse(operators=described).SerializeToString()

    async def get_server_status(self, request: bytes, call: Call) -> bytes:
        parse_message(pb.GetServerStatusRequest, request)
        if not call.sees_details:
            status = pb.GetServerStatusResponse(version=version("aclgrad-server"), product=self._product)
            return status.SerializeToString()
        admission, settings = self._path.admission, self._settings
        occupancy = admission.occupancy()
        return pb.GetServerStatusResponse(
            version=version("aclgrad-server"),
            runtime_version=self._group.runtime_version,
            library=self._group.library,
            versions=self._group.versions,
            product=self._product,
            start_time=self._start_time,
            devices=[await device.status() for device in self._group.devices],
            queue=pb.QueueStatus(
                running_count=occupancy.running,
                waiting_count=occupancy.waiting,
                running_limit=admission.running_limit,
                waiting_limit=admission.waiting_limit,
                running_bytes=occupancy.running_bytes,
                running_bytes_limit=admission.bytes_limit,
            ),
            limits=pb.Limits(message_bytes=settings.max_message_bytes, tensor_bytes=settings.max_tensor_bytes),
            deterministic=all(device.deterministic for device in self._group.devices),
            endpoints=self._endpoints,
            executor_cache=self._group.executor_cache,
            turned_off_operators=self._turned_off,
        ).SerializeToString()
