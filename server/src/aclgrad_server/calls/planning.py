"""From received bytes to plans; a call of the same form as an earlier one is not parsed and checked again."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from aclgrad.errors import LimitExceededError, Violation
from aclgrad.products import Product
from aclgrad.tensors import Announced
from aclgrad.wire.limits import MAX_BATCH_CALLS
from aclgrad.wire.messages import BATCH_CALLS, REQUEST_PAYLOADS, OperatorCall, parse_request
from aclgrad_server.calls.validation import plan_call
from aclgrad_server.plan import OperatorPlan

ExtractPayloads = Callable[[bytes | memoryview, tuple[int, ...]], tuple[bytes, list[memoryview]]]
"""`aclgrad.wire.scan.extract_payloads`, or something faster."""

_MAX_PLANS: Final = 1024
_MAX_KEPT_BYTES: Final = 4096
"""Requests of more bytes, payloads not counted, have names or lists that nobody sends twice."""


class Planner:
    """Reads requests for one product. `prepare` makes what the device takes of a plan."""

    def __init__(
        self,
        product: Product,
        max_tensor_bytes: int,
        extract_payloads: ExtractPayloads,
        shape_only: bool | None = None,
        prepare: Callable[[OperatorPlan], Any] = lambda plan: None,
    ) -> None:
        self.extract_payloads = extract_payloads

        def plan(call: OperatorCall) -> OperatorPlan:
            checked = plan_call(call, product, max_tensor_bytes, shape_only)
            return checked.with_prepared(prepare(checked))

        def plan_of_form(rest: bytes, lengths: tuple[int, ...]) -> OperatorPlan:
            """Returns a plan whose payloads are announced: it depends only on their lengths."""
            payloads = [Announced(index, length) for index, length in enumerate(lengths)]
            return plan(parse_request(rest, payloads))

        self.plan = plan
        self._plan_of_form = plan_of_form
        self._kept_plan_of_form = lru_cache(_MAX_PLANS)(plan_of_form)

    def read(self, request: bytes | memoryview) -> tuple[OperatorPlan, list[memoryview]]:
        """Returns the plan of an ExecuteOperatorRequest, and its payloads, to which the plan's inputs refer.

        Raises the RequestError that says what is wrong with the request.
        """
        rest, payloads = self.extract_payloads(request, REQUEST_PAYLOADS)
        plan_of_form = self._kept_plan_of_form if len(rest) <= _MAX_KEPT_BYTES else self._plan_of_form
        return plan_of_form(rest, tuple(map(len, payloads))), payloads

    def split_batch(self, request: bytes) -> Sequence[memoryview]:
        """Returns the requests in a BatchExecuteOperatorsRequest; raises a RequestError if the bytes are not one."""
        try:
            return self.extract_payloads(request, BATCH_CALLS)[1]
        except LimitExceededError:
            # All that is not payload here are the keys of the calls.
            remedy = f"send at most {MAX_BATCH_CALLS} calls in one batch, and no unknown fields"
            raise LimitExceededError.of(Violation("calls", "are too many", remedy)) from None
