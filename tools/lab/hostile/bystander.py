"""An honest client in a process of its own: `python -m tools.lab.hostile.bystander` takes orders line by line.

`[ADDRESS, ADMIN]` has it ask everything that a client may ask, each on a schedule; `null` has it print what came of it.
A question that is late because the last one was not answered counts from the time when it was due.
"""

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aclgrad.sources import in_message
from aclgrad.tensors import TensorView, array_of_view
from aclgrad.wire.messages import decode_response, encode_request
from tools.lab.gradients import call_of, of_size
from tools.raw_calls import SERVICE, chunked_messages, send_chunked

Ask = Callable[[float], None]
"""Asks with a limit in seconds; raises unless the answer is right."""
Samples = dict[str, list[tuple[float, float, str]]]
"""Of each kind of question: when it was due, seconds until its end, and what went wrong."""
LIMIT_S: Final = 10.0
"""A question that is not answered in this time is unanswered."""
INTERVALS_S: Final = {"call": 0.05, "live": 0.2, "ready": 0.2}
OTHER_INTERVAL_S: Final = 0.4


class WrongAnswerError(Exception):
    """The server says no, or something else than it should."""


def new_channel(address: str) -> grpc.Channel:
    """Returns a channel that shares its connection with no other."""
    return grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])


def questions_of(address: str, admin: str | None, channel: grpc.Channel) -> dict[str, Ask]:
    """Returns how to ask each: calls on the channel, and everything else on a new connection, as a kubelet does."""
    known = of_size("16 KB")
    call = call_of(known)
    request, gradient = encode_request(call), call.inputs[0]

    def unary(limit_s: float) -> None:
        (output,) = decode_response(channel.unary_unary(SERVICE + "ExecuteOperator")(request, timeout=limit_s))
        known.compare(array_of_view(output))

    def chunked(limit_s: float) -> None:
        data = b"".join(send_chunked(channel, chunked_messages(call, ("grad_output",), 2**13), limit_s))
        known.compare(array_of_view(TensorView("", gradient.type, in_message(memoryview(data)))))

    def check(limit_s: float, service: str = "") -> None:
        with new_channel(address) as own:
            request = health_pb2.HealthCheckRequest(service=service)
            _expect_serving(health_pb2_grpc.HealthStub(own).Check(request, timeout=limit_s))

    def watch(limit_s: float) -> None:
        with new_channel(address) as own:
            replies = health_pb2_grpc.HealthStub(own).Watch(health_pb2.HealthCheckRequest(), timeout=limit_s)
            _expect_serving(next(replies))
            replies.cancel()

    def reflection(limit_s: float) -> None:
        with new_channel(address) as own:
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            stub = reflection_pb2_grpc.ServerReflectionStub(own)
            if not next(stub.ServerReflectionInfo(iter((request,)), timeout=limit_s)).list_services_response.service:
                raise WrongAnswerError("no services")

    return {
        "call": unary,
        "chunked": chunked,
        "live": lambda limit_s: _get(str(admin), "/livez", limit_s),
        "ready": lambda limit_s: _get(str(admin), "/readyz", limit_s),
        "check": check,
        "watch": watch,
        "reflection": reflection,
    }


def _expect_serving(reply: health_pb2.HealthCheckResponse) -> None:
    if reply.status != health_pb2.HealthCheckResponse.SERVING:
        raise WrongAnswerError(f"status {reply.status}")


def _get(admin: str, path: str, limit_s: float) -> None:
    connection = http.client.HTTPConnection(admin, timeout=limit_s)
    try:
        connection.request("GET", path)
        if (status := connection.getresponse().status) != http.client.OK:
            raise WrongAnswerError(f"status {status}")
    finally:
        connection.close()


class Questions:
    """Asks everything on its schedule, from its making until `end`."""

    def __init__(self, address: str, admin: str | None, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._channel = new_channel(address)
        asks = questions_of(address, admin, self._channel)
        self._over = threading.Event()
        self._end = float("inf")
        self._samples: Samples = {name: [] for name in asks}
        self._threads = [threading.Thread(target=self._keep_asking, args=each) for each in asks.items()]
        for thread in self._threads:
            thread.start()

    def _keep_asking(self, name: str, ask: Ask) -> None:
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

    def end(self) -> Samples:
        self._end = time.monotonic()
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._channel.close()
        return self._samples


def _error_of(ask: Ask, limit_s: float) -> str:
    try:
        ask(limit_s)
    except grpc.RpcError as error:
        failure: Any = error
        return f"{failure.code().name}: {failure.details()}"[:200]
    except Exception as error:
        # Whatever it is, it is no answer.
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def main() -> None:
    questions: Questions | None = None
    for line in sys.stdin:
        if addresses := json.loads(line):
            questions = Questions(*addresses)
        elif questions is not None:
            print(json.dumps(questions.end()), flush=True)


if __name__ == "__main__":
    main()
