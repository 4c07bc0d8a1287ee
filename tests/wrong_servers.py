"""A proxy that changes what a server answers: planted kernels, and servers that say other things of themselves."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np

from aclgrad.tensors import dtype_of_wire
from aclgrad.v1 import operator_service_pb2 as pb
from tests.client.scripted_service import end

Array = np.ndarray[Any, Any]
Change = Callable[[str, bytes, bytes], bytes]
"""From a method's name, a request and the true reply to the reply that the client gets."""


def last_bit(gradient: Array) -> Array:
    return np.nextafter(gradient, gradient.dtype.type(np.inf))


def one_element(gradient: Array) -> Array:
    changed = gradient.copy()
    changed.flat[3] += np.asarray(0.1, gradient.dtype)
    return changed


def one_nan(gradient: Array) -> Array:
    changed = gradient.copy()
    changed.flat[-1] = np.nan
    return changed


class _Proxy(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.Channel, change: Change) -> None:
        self._channel = channel
        self._change = change

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def behaviour(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                reply = self._channel.unary_unary(details.method)(request)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())
            return self._change(details.method.rpartition("/")[2], request, reply)

        return grpc.unary_unary_rpc_method_handler(behaviour)


@contextmanager
def changed(address: str, change: Change) -> Iterator[str]:
    """Yields the address of a server that answers as the one at `address`, but for what `change` makes of it."""
    with grpc.insecure_channel(address) as channel, ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool, handlers=[_Proxy(channel, change)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            end(server)


def of_gradients(operator: str, change: Callable[[Array], Array]) -> Change:
    """Returns the change of each gradient of one operator, alone and in batches."""

    def gradients(outputs: Sequence[Any]) -> None:
        for tensor in outputs:
            dtype = dtype_of_wire(tensor.data_type)
            assert dtype is not None
            array = np.frombuffer(tensor.data, dtype.numpy).reshape(tuple(tensor.shape))
            tensor.data = change(array).astype(dtype.numpy).tobytes()

    def of_reply(method: str, request: bytes, reply: bytes) -> bytes:
        if method == "ExecuteOperator":
            if pb.ExecuteOperatorRequest.FromString(request).operator != operator:
                return reply
            message = pb.ExecuteOperatorResponse.FromString(reply)
            gradients(message.outputs)
            return message.SerializeToString()
        if method == "ExecuteProgram":
            calls = pb.ExecuteProgramRequest.FromString(request).steps
            batch = pb.ExecuteProgramResponse.FromString(reply)
            for call, result in zip(calls, batch.results, strict=True):
                if call.operator == operator:
                    gradients(result.outputs)
            return batch.SerializeToString()
        return reply

    return of_reply


def of_reply(method: str, kind: type[Any], change: Callable[[Any], object]) -> Change:
    """Returns the change of the message that replies to a method."""

    def changed(called: str, request: bytes, reply: bytes) -> bytes:
        if called != method:
            return reply
        message = kind.FromString(reply)
        change(message)
        return bytes(message.SerializeToString())

    return changed


def of_status(**fields: Any) -> Change:
    """Returns the change of fields of GetServerStatus."""
    status = pb.GetServerStatusResponse
    return of_reply("GetServerStatus", status, lambda status: [setattr(status, *field) for field in fields.items()])


def turned_off(operator: str) -> Change:
    """Returns the change of the status of a server whose self-test has turned an operator off."""
    told = {"name": operator, "reason": "device 3 computes int8 wrongly"}
    return of_reply("GetServerStatus", pb.GetServerStatusResponse, lambda it: it.turned_off_operators.add(**told))
