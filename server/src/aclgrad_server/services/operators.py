"""`aclgrad.v1.OperatorService`."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.describe import describe_operator
from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import parse_message
from aclgrad_server.admission import Admission
from aclgrad_server.device import Device, DeviceGroup
from aclgrad_server.executor import Executor
from aclgrad_server.planner import Planner
from aclgrad_server.pooled import Pooled
from aclgrad_server.services.batch import execute_batch
from aclgrad_server.services.chunked import execute_chunked
from aclgrad_server.services.shared import execute_shared
from aclgrad_server.settings import Settings
from aclgrad_server.shared_memory import SharedMemory
from aclgrad_server.validation import check_reply_size

SERVICE: Final = pb.DESCRIPTOR.services_by_name["OperatorService"].full_name

STALL_GRACE_S: Final = 0.5
"""After the deadline, a call that still moves gets its error in this time; one that stands still is cancelled then."""


class OperatorService:
    """Answers the calls of the service; requests and replies are bytes, so that no tensor is copied by protobuf."""

    def __init__(
        self,
        settings: Settings,
        product: Product,
        group: DeviceGroup,
        planner: Planner,
        executor: Executor,
        endpoints: Sequence[str],
    ) -> None:
        self._settings = settings
        self._product = product
        self._group = group
        self._planner = planner
        self._executor = executor
        self._endpoints = endpoints
        self._shared_memory = SharedMemory(
            settings.shared_memory, settings.shared_memory_prefix, settings.shared_memory_owner
        )
        self._start_time = Timestamp()
        self._start_time.GetCurrentTime()

    def handler(self) -> grpc.GenericRpcHandler:
        """Returns what a gRPC server takes; without serializers, grpc hands bytes through."""
        methods = {
            "ListOperators": self.list_operators,
            "GetServerStatus": self.get_server_status,
            "ExecuteOperator": self.execute_operator,
            "BatchExecuteOperators": self.batch_execute_operators,
        }
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()
        }
        # A call keeps its thread while its chunks come and go, which may be long: none of those that admission counts.
        threads = ThreadPoolExecutor(self._settings.max_chunked_calls, thread_name_prefix="chunked")
        chunked = Pooled(self.execute_operator_chunked, threads)
        handlers["ExecuteOperatorChunked"] = grpc.stream_stream_rpc_method_handler(chunked)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def execute_operator(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        deadline = _deadline(context, self._settings.call_timeout_s)
        plan = self._planner.read(request)
        if plan.uses_shared_memory:
            self._shared_memory.require(context.peer())
        if plan.output_memory is None:
            check_reply_size(f"outputs[{plan.spec.output.name}]", plan.reply_bytes, self._settings.max_message_bytes)
        if plan.uses_shared_memory:
            return execute_shared(self._executor, self._shared_memory, plan, deadline, context.add_callback)
        return self._executor.execute(plan, deadline, context.add_callback)

    def batch_execute_operators(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        deadline = _deadline(context, self._settings.call_timeout_s)
        limit = self._settings.max_message_bytes
        return execute_batch(self._planner, self._executor, request, limit, deadline, context.add_callback)

    def execute_operator_chunked(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        deadline = _deadline(context, self._settings.call_timeout_s)
        with _cancelled_after(deadline + STALL_GRACE_S, context):
            yield from execute_chunked(
                self._planner, self._executor, messages, lambda: context.send_initial_metadata(()), deadline
            )

    def list_operators(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        parse_message(pb.ListOperatorsRequest, request)
        served = (spec for spec in OPERATORS.values() if self._product in spec.products)
        described = [describe_operator(spec, self._product, self._group.shape_only) for spec in served]
        return pb.ListOperatorsResponse(operators=described).SerializeToString()

    def get_server_status(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        parse_message(pb.GetServerStatusRequest, request)
        return pb.GetServerStatusResponse(
            version=version("aclgrad-server"),
            runtime_version=self._group.runtime_version,
            library=self._group.library,
            product=self._product,
            start_time=self._start_time,
            devices=[_device_status(device) for device in self._group.devices],
            queue=_queue_status(self._executor.admission),
            limits=pb.Limits(
                message_bytes=self._settings.max_message_bytes, tensor_bytes=self._settings.max_tensor_bytes
            ),
            deterministic=all(device.deterministic for device in self._group.devices),
            endpoints=self._endpoints,
        ).SerializeToString()


@contextmanager
def _cancelled_after(deadline: float, context: grpc.ServicerContext) -> Iterator[None]:
    """Cancels the call unless the block has ended: nothing else wakes up who waits for a client that stands still."""
    timer = threading.Timer(deadline - time.monotonic(), context.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _deadline(context: grpc.ServicerContext, limit_s: float) -> float:
    """Returns the time of `time.monotonic` when the call has to be answered."""
    remaining = context.time_remaining()
    return time.monotonic() + (limit_s if remaining is None else min(remaining, limit_s))


def _device_status(device: Device) -> pb.DeviceStatus:
    state = device.state()
    return pb.DeviceStatus(
        index=device.index,
        soc_name=device.soc_name,
        stream_count=state.stream_count,
        leased_stream_count=state.leased_stream_count,
        pool=pb.PoolStatus(**state.pool),
        free_bytes=state.free_bytes,
        total_bytes=state.total_bytes,
    )


def _queue_status(admission: Admission) -> pb.QueueStatus:
    occupancy = admission.occupancy()
    return pb.QueueStatus(
        running_count=occupancy.running,
        waiting_count=occupancy.waiting,
        running_limit=admission.running_limit,
        waiting_limit=admission.waiting_limit,
        running_bytes=occupancy.running_bytes,
        running_bytes_limit=admission.bytes_limit,
    )
