"""Runs `aclgrad check` and reads what it wrote; a proxy that changes what a server answers."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from click.testing import CliRunner

from aclgrad.commands import program as aclgrad
from aclgrad.tensors import dtype_of_wire
from aclgrad.v1 import operator_service_pb2 as pb
from tests.client.scripted_service import end


@dataclass(frozen=True)
class Checked:
    """A finished run."""

    exit_code: int
    output: str
    rows: list[dict[str, Any]]
    summary: dict[str, Any]

    def verdicts(self, check: str) -> set[str]:
        return {row["verdict"] for row in self.rows if row["check"] == check}


def check(folder: Path, *arguments: str, only: Sequence[str] = ()) -> Checked:
    """Runs the quick form, or these checks of it, with a JSON file in the folder."""
    path = folder / "rows.jsonl"
    chosen = [word for name in only for word in ("--only", name)]
    result = CliRunner().invoke(aclgrad, ["check", "--quick", "--json", str(path), *chosen, *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Checked(result.exit_code, result.output, *read(path))


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if "summary" not in line], next((x["summary"] for x in lines if "summary" in x), {})


Change = Callable[[str, bytes, bytes], bytes]
"""From a method's name, a request and the true reply to the reply that the client gets."""


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


def of_gradients(operator: str, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Change:
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
        if method == "BatchExecuteOperators":
            calls = pb.BatchExecuteOperatorsRequest.FromString(request).calls
            batch = pb.BatchExecuteOperatorsResponse.FromString(reply)
            for call, result in zip(calls, batch.results, strict=True):
                if call.operator == operator:
                    gradients(result.outputs)
            return batch.SerializeToString()
        return reply

    return of_reply


def of_status(**fields: Any) -> Change:
    """Returns the change of fields of GetServerStatus."""

    def of_reply(method: str, request: bytes, reply: bytes) -> bytes:
        if method != "GetServerStatus":
            return reply
        status = pb.GetServerStatusResponse.FromString(reply)
        for name, value in fields.items():
            setattr(status, name, value)
        return status.SerializeToString()

    return of_reply
