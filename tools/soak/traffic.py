"""What clients send in the long run: good calls of every operator, bad ones, late ones, and some they take back."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import numpy as np

import aclgrad
from aclgrad.operators.cases import typed_cases
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall, encode_request

CASES = list(typed_cases(Product.ATLAS_A2))
REQUESTS = [(typed.spec.name, typed.arrays(), dict(typed.case.attributes)) for typed in CASES]
GRAD = np.ones((1, 2, 2), np.float32)
POOLING = "adaptive_avg_pool2d_backward"
SHARES: Mapping[str, float] = {"good": 0.80, "large": 0.02, "bad": 0.10, "late": 0.04, "taken_back": 0.04}

Generator = np.random.Generator


class Caller:
    """Makes calls over a connection of its own and counts what came of them."""

    def __init__(self, address: str, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._address = address
        self.ends: Counter[str] = Counter()

    def call(self, count: int) -> None:
        """Makes so many calls, one after the other; raises where an end is not one that the call may have."""
        # Not to be shared with the other callers of this process, as gRPC does by itself.
        options = [("grpc.use_local_subchannel_pool", 1)]
        with aclgrad.Client(self._address) as client, grpc.insecure_channel(self._address, options) as channel:
            for kind in self._generator.choice(list(SHARES), count, p=list(SHARES.values())):
                self.ends[f"{kind}: {_KINDS[kind](client, channel, self._generator)}"] += 1


def _good(client: aclgrad.Client, channel: grpc.Channel, generator: Generator) -> str:
    gradient = client.execute(*REQUESTS[generator.integers(len(REQUESTS))], timeout_s=60)
    return "answered" if gradient.dtype != object else "wrong"


def _large(client: aclgrad.Client, channel: grpc.Channel, generator: Generator) -> str:
    size = int(generator.integers(200, 800))
    gradient = client.adaptive_avg_pool2d_backward(GRAD, (1, size, size), timeout_s=60)
    np.testing.assert_allclose(gradient.sum(), 4, rtol=1e-3)
    return "answered"


def _bad(client: aclgrad.Client, channel: grpc.Channel, generator: Generator) -> str:
    name, inputs, attributes = BAD_REQUESTS[generator.integers(len(BAD_REQUESTS))]
    try:
        client.execute(name, inputs, attributes, timeout_s=60)
    except aclgrad.RequestError as error:
        return error.reason
    raise AssertionError(f"{name} was answered")


def _late(client: aclgrad.Client, channel: grpc.Channel, generator: Generator) -> str:
    try:
        client.adaptive_avg_pool2d_backward(GRAD, (1, 300, 300), timeout_s=float(generator.uniform(1e-4, 3e-3)))
    except aclgrad.DeadlinePassedError:
        return "late"
    return "in time"


def _taken_back(client: aclgrad.Client, channel: grpc.Channel, generator: Generator) -> str:
    name, inputs, attributes = REQUESTS[generator.integers(len(REQUESTS))]
    views = tuple(view_of_array(key, array) for key, array in inputs.items())
    method = channel.unary_unary("/aclgrad.v1.OperatorService/ExecuteOperator")
    call = method.future(encode_request(OperatorCall(name, views, attributes)), timeout=60)
    call.cancel()
    return "cancelled" if call.cancelled() else "in time"


BAD_REQUESTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing", {"grad_output": GRAD}, {}),
    (POOLING, {"grad_output": GRAD}, {}),
    (POOLING, {"grad_output": GRAD, "self": (4, 4)}, {}),
    (POOLING, {"grad_output": GRAD, "self": (1, 4, 4)}, {"stride": [2, 2]}),
    (POOLING, {"grad_output": GRAD.astype(np.int32), "self": (1, 4, 4)}, {}),
    (POOLING, {"grad_output": GRAD, "self": (1, 2**20, 2**20)}, {}),
]
_KINDS: Mapping[str, Callable[[aclgrad.Client, grpc.Channel, Generator], str]] = {
    "good": _good,
    "large": _large,
    "bad": _bad,
    "late": _late,
    "taken_back": _taken_back,
}
