"""Measures the CPU time of a process that makes calls, by the clients and by the generated stub; `--quick` for less.

Numpy in and out; medians of rounds in which all take turns. What is too large for a message goes in chunks.
"""

import asyncio
import statistics
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import grpc.aio
import numpy as np

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from tools.benchmarks import loads
from tools.benchmarks.handler import cpu_us
from tools.benchmarks.sizes import OPERATOR, SIZES, Size
from tools.serving import Server

CALLS: Final = {"16 KB": 400, "1 MB": 60, "100 MB": 1}
ROUNDS: Final = 15


async def clients_us(address: str, size: Size, rounds: int) -> list[float]:
    """Returns the medians of the client and the stub of grpc, and of those of grpc.aio."""
    inputs = {"grad_output": loads.gradient(size), "self": size.shape}
    options = aclgrad.channel_options()
    in_chunks = CALLS[size.name] == 1
    with aclgrad.Client(address, timeout_s=None) as client, grpc.insecure_channel(address, options) as channel:
        async with (
            aclgrad.AsyncClient(address, timeout_s=None) as aio,
            grpc.aio.insecure_channel(address, options) as own,
        ):
            stub, aio_stub = OperatorServiceStub(channel), OperatorServiceStub(own)

            async def call() -> None:
                client.execute(OPERATOR, inputs)

            async def call_stub() -> None:
                if in_chunks:
                    join(stub.ExecuteOperatorChunked(messages(size)), size)
                else:
                    array_of(stub.ExecuteOperator(whole(size)))

            async def call_aio_stub() -> None:
                if in_chunks:
                    join([each async for each in aio_stub.ExecuteOperatorChunked(messages(size))], size)
                else:
                    array_of(await aio_stub.ExecuteOperator(whole(size)))

            callers = call, call_stub, lambda: aio.execute(OPERATOR, inputs), call_aio_stub
            found: list[list[float]] = [[] for _ in callers]
            for _ in range(rounds):
                for each, caller in zip(found, callers, strict=True):
                    each.append(await cpu_us(caller, CALLS[size.name]))
            return [statistics.median(each) for each in found]


def whole(size: Size, has_data: bool = True) -> pb.ExecuteOperatorRequest:
    array, request = loads.gradient(size), pb.ExecuteOperatorRequest(operator=OPERATOR)
    data = {"data": array.tobytes()} if has_data else {}
    request.inputs.add(name="grad_output", data_type="DATA_TYPE_FLOAT32", shape=array.shape, **data)
    request.inputs.add(name="self", data_type="DATA_TYPE_FLOAT32", shape=size.shape)
    return request


def array_of(response: pb.ExecuteOperatorResponse) -> Any:
    (output,) = response.outputs
    return np.frombuffer(output.data, np.float32).reshape(output.shape).copy()


def messages(size: Size) -> Iterator[pb.ExecuteOperatorChunkedRequest]:
    request, chunk_bytes = whole(size, has_data=False), loads.CHUNK_BYTES
    header = pb.ChunkedHeader(request=request, chunked_inputs=["grad_output"], chunk_size_bytes=chunk_bytes)
    yield pb.ExecuteOperatorChunkedRequest(header=header)
    data = memoryview(loads.gradient(size)).cast("B")
    for offset in range(0, len(data), chunk_bytes):
        piece = data[offset : offset + chunk_bytes].tobytes()
        yield pb.ExecuteOperatorChunkedRequest(chunk=pb.TensorChunk(tensor_index=0, offset_bytes=offset, data=piece))


def join(responses: Iterable[pb.ExecuteOperatorChunkedResponse], size: Size) -> Any:
    array = np.empty(size.shape, np.float32)
    data = memoryview(array).cast("B")
    for each in responses:
        if each.HasField("chunk"):
            data[each.chunk.offset_bytes : each.chunk.offset_bytes + len(each.chunk.data)] = each.chunk.data
    return array


def main() -> None:
    rounds = 3 if "--quick" in sys.argv else ROUNDS
    with Server() as server:
        for name in CALLS:
            client, stub, aio, aio_stub = asyncio.run(clients_us(server.address, SIZES[name], rounds))
            told = f"Client {client:.0f} us, its stub {stub:.0f} ({client / stub:.2f})"
            print(f"{name}: {told}; AsyncClient {aio:.0f}, its stub {aio_stub:.0f} ({aio / aio_stub:.2f})", flush=True)


if __name__ == "__main__":
    main()
