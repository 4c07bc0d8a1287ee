"""From received bytes to plans; a call of the same form as an earlier one is not parsed and checked again."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from aclgrad.products import Product
from aclgrad.tensors import Announced
from aclgrad.wire.messages import BATCH_CALLS, REQUEST_PAYLOADS, OperatorCall, parse_request
from aclgrad_server.validation import OperatorPlan, plan_call

ExtractPayloads = Callable[[bytes | memoryview, tuple[int, ...]], tuple[bytes, list[memoryview]]]
"""`aclgrad.wire.scan.extract_payloads`, or something faster."""

_MAX_PLANS: Final = 1024
_MAX_KEPT_BYTES: Final = 4096
"""Requests of more bytes, payloads not counted, have names or lists that nobody sends twice."""


class Planner:
    """Reads requests for one product; safe to share between threads."""

    def __init__(self, product: Product, max_tensor_bytes: int, extract_payloads: ExtractPayloads) -> None:
        self.extract_payloads = extract_payloads

        def plan(call: OperatorCall) -> OperatorPlan:
            return plan_call(call, product, max_tensor_bytes)

        def plan_of_form(rest: bytes, lengths: tuple[int, ...]) -> OperatorPlan:
            """Returns a plan whose payloads are announced: it depends on nothing of them but their lengths."""
            payloads = [Announced(index, length) for index, length in enumerate(lengths)]
            return plan(parse_request(rest, payloads))

        self.plan = plan
        self._plan_of_form = plan_of_form
        self._kept_plan_of_form = lru_cache(_MAX_PLANS)(plan_of_form)

    def read(self, request: bytes | memoryview) -> OperatorPlan:
        """Returns the plan of an ExecuteOperatorRequest; raises the RequestError that says what is wrong with it."""
        rest, payloads = self.extract_payloads(request, REQUEST_PAYLOADS)
        plan_of_form = self._kept_plan_of_form if len(rest) <= _MAX_KEPT_BYTES else self._plan_of_form
        return plan_of_form(rest, tuple(map(len, payloads))).with_payloads(payloads)

    def split_batch(self, request: bytes) -> Sequence[memoryview]:
        """Returns the requests in a BatchExecuteOperatorsRequest; raises MalformedRequestError where it is none."""
        return self.extract_payloads(request, BATCH_CALLS)[1]
