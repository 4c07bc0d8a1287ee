"""From received bytes to plans; a call of the same form as an earlier one is not parsed and checked again."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from aclgrad.errors import AclgradError, OperatorTurnedOffError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import Announced
from aclgrad.wire.messages import REQUEST_PAYLOADS, OperatorCall, parse_request
from aclgrad_server.devices.native import extract_payloads
from aclgrad_server.plan import OperatorPlan, plan_call

_NONE: Final[Mapping[str, str]] = {}
_MAX_PLANS: Final = 1024
_MAX_KEPT_BYTES: Final = 4096
"""Requests of more bytes, payloads not counted, have names or lists that nobody sends twice."""


class Planner:
    """Reads requests for one product.

    `prepare` makes what the device takes of a plan; `turned_off` has the operators that are refused, each with the
    reason.
    """

    def __init__(
        self,
        product: Product,
        max_tensor_bytes: int,
        shape_only: bool | None = None,
        prepare: Callable[[OperatorPlan], Any] = lambda plan: None,
        turned_off: Mapping[str, str] = _NONE,
        max_work: float = math.inf,
    ) -> None:
        def plan(call: OperatorCall) -> OperatorPlan:
            try:
                return checked_plan(call)
            except AclgradError as error:
                if call.operator in OPERATORS:
                    error.operator = call.operator
                raise

        def checked_plan(call: OperatorCall) -> OperatorPlan:
            if why := turned_off.get(call.operator):
                raise OperatorTurnedOffError(
                    f"operator {call.operator} is turned off because it failed the server's self-test: {why}",
                    field="operator",
                    remedy="use a server on another card; the log of this one says more",
                    metadata={"operator": call.operator, "why": why},
                )
            checked = plan_call(call, product, max_tensor_bytes, shape_only, max_work)
            return checked.with_prepared(prepare(checked))

        def plan_of_form(rest: bytes, lengths: tuple[int, ...]) -> OperatorPlan:
            """Returns a plan whose payloads are announced: it depends only on their lengths."""
            payloads = [Announced(index, length) for index, length in enumerate(lengths)]
            return plan(parse_request(rest, payloads))

        self.plan = plan
        self._plan_of_form = plan_of_form
        self._kept_plan_of_form = lru_cache(_MAX_PLANS)(plan_of_form)

    def read(self, request: bytes | memoryview) -> tuple[OperatorPlan, list[memoryview]]:
        """Returns the plan of an ExecuteOperatorRequest, and its payloads; raises a RequestError."""
        rest, payloads = extract_payloads(request, REQUEST_PAYLOADS)
        plan_of_form = self._kept_plan_of_form if len(rest) <= _MAX_KEPT_BYTES else self._plan_of_form
        return plan_of_form(rest, tuple(map(len, payloads))), payloads
