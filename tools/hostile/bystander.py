"""An honest client in a process of its own: `python -m tools.hostile.bystander` takes orders line by line.

`begin` with the addresses has it ask everything that a client may ask, each on a schedule; `end` has it print what came
of it. A question that is late because the last one was not answered counts from the time when it was due.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import grpc
import numpy as np
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclgrad import reference
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.chunks import decode_chunk, decode_response_header
from aclgrad.wire.messages import OperatorCall, decode_response, encode_request
from tools.hostile.health import Ask, check, health_questions, new_channel, watch
from tools.raw_calls import SERVICE, chunked_messages

LIMIT_S: Final = 10.0
"""A question that is not answered in this time is unanswered."""
INTERVALS_S: Final = {"call": 0.05, "live": 0.2, "ready": 0.2}
OTHER_INTERVAL_S: Final = 0.4
OPERATOR: Final = "adaptive_avg_pool2d_backward"
GRAD: Final = np.random.default_rng(0).standard_normal((1, 16, 16, 16), np.float32)
"""16 KB, and as much comes back."""


class Calls:
    """Small calls on one connection, each compared with the definition."""

    def __init__(self, address: str) -> None:
        self._channel = new_channel(address)
        shape_only = TensorView("self", TensorType(DTYPES["float32"], GRAD.shape))
        self._call = OperatorCall(OPERATOR, (view_of_array("grad_output", GRAD), shape_only), {})
        self._request = encode_request(self._call)
        truth = reference.define(OPERATOR, {"grad_output": GRAD, "self": GRAD}, {})
        self._expected = truth.astype(np.float32).tobytes()
        self._unary = self._channel.unary_unary(SERVICE + "ExecuteOperator")
        self._chunked = self._channel.stream_stream(SERVICE + "ExecuteOperatorChunked")

    def unary(self, limit_s: float) -> None:
        (output,) = decode_response(self._unary(self._request, timeout=limit_s))
        self._compare(output.data)

    def chunked(self, limit_s: float) -> None:
        replies = self._chunked(chunked_messages(self._call, ("grad_output",), 2**13), timeout=limit_s)
        decode_response_header(next(replies))
        self._compare(b"".join(bytes(decode_chunk(each).data) for each in replies))

    def _compare(self, data: Any) -> None:
        if bytes(data) != self._expected:
            raise ValueError("wrong gradient")

    def close(self) -> None:
        self._channel.close()


class Questions:
    """Asks everything on its schedule, from its making until `end`."""

    def __init__(self, address: str, admin: str | None, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._calls = Calls(address)
        asks: dict[str, Ask] = {
            "call": self._calls.unary,
            "chunked": self._calls.chunked,
            **health_questions(address, admin),
            "check": lambda limit_s: check(address, "", limit_s),
            "watch": lambda limit_s: watch(address, limit_s),
            "reflection": lambda limit_s: discover(address, limit_s),
        }
        self._over = threading.Event()
        self._end = float("inf")
        self._samples: dict[str, list[tuple[float, float, str]]] = {name: [] for name in asks}
        self._threads = [threading.Thread(target=self._keep_asking, args=each) for each in asks.items()]
        for thread in self._threads:
            thread.start()

    def _keep_asking(self, name: str, ask: Callable[[float], None]) -> None:
        start, samples, failed_late = time.monotonic(), self._samples[name], False
        for number in count():
            due = start + number * INTERVALS_S.get(name, OTHER_INTERVAL_S)
            self._over.wait(max(0.0, due - time.monotonic()))
            if due >= self._end:
                return
            error = "not asked any more" if failed_late else _error_of(ask, self._limit_s)
            done = time.monotonic()
            samples.append((due, done - due, error))
            failed_late = bool(error) and done > self._end

    def end(self) -> dict[str, list[tuple[float, float, str]]]:
        """Returns of each kind when it was due, seconds until its end, and what went wrong or nothing."""
        self._end = time.monotonic()
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._calls.close()
        return self._samples


def discover(address: str, limit_s: float) -> None:
    """Asks reflection for the services."""
    with new_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        reply = next(stub.ServerReflectionInfo(iter((request,)), timeout=limit_s))
        if not reply.list_services_response.service:
            raise ValueError("no services")


def _error_of(ask: Callable[[float], None], limit_s: float) -> str:
    try:
        ask(limit_s)
    except grpc.RpcError as error:
        return f"{error.code().name}: {error.details()}"[:200]
    except Exception as error:
        # Whatever it is, it is no answer.
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def main() -> None:
    questions: Questions | None = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["order"] == "begin":
            questions = Questions(order["address"], order["admin"])
        elif questions is not None:
            print(json.dumps(questions.end()), flush=True)


if __name__ == "__main__":
    main()
