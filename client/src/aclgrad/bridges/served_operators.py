"""The operators and the product of a client's server, and which calls it would refuse."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from weakref import WeakKeyDictionary

from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad._client.sync.client import Client
from aclgrad.bridges.products import COMPOSITES
from aclgrad.errors import AclgradError, InvalidFieldError, OperatorNotSupportedError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import check_call
from aclgrad.products import Product
from aclgrad.tensors import DType, TensorType, TensorView
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.values import AttributeValue

MAX_POOL2D: Final = ("max_pool2d_with_mask_backward", "max_pool2d_with_indices_backward")
"""Two operators for the same gradient and arguments. A product has one or both; the first takes more dtypes."""

REFUSALS: Final = (InvalidFieldError, OperatorNotSupportedError)
"""The errors of `ServedOperators.check`."""


_KEPT: Final = 64
"""Cached answers for composites, dtypes and servers."""


@dataclass(frozen=True, slots=True)
class ServedOperators:
    """The operators that the server lists, and its product, None if that is unknown here."""

    operators: frozenset[str]
    product: Product | None

    def operator(self, name: str) -> str:
        """Returns the operator; for max pooling, the one of the two that the server lists."""
        if name not in MAX_POOL2D:
            return name
        return next((each for each in MAX_POOL2D if each in self.operators), name)

    def check(self, name: str, inputs: Mapping[str, TensorType], attributes: Mapping[str, AttributeValue]) -> None:
        """Raises one of REFUSALS if the server would refuse the call because of types or attributes."""
        if name not in self.operators:
            problem = f"operator {name} is not served"
            raise OperatorNotSupportedError(problem, field="operator", remedy="use a server that lists it")
        spec = OPERATORS[name]
        views = tuple(TensorView(each, type) for each, type in inputs.items())
        error: InvalidFieldError | None = None
        for product in (self.product,) if self.product else spec.products:
            try:
                check_call(OperatorCall(name, views, dict(attributes)), spec, product)
            except InvalidFieldError as violated:
                error = violated
            else:
                return
        if error is not None:
            raise error

    @lru_cache(_KEPT)  # noqa: B019 - of few servers; an error is not kept
    def check_composite(self, name: str, dtype: DType) -> None:
        """Raises one of REFUSALS if the server would refuse a step of the composite for operands of this dtype."""
        for operator in COMPOSITES[name].operators:
            spec = OPERATORS[operator]
            inputs = {each.name: TensorType(dtype, (1,) * min(each.ranks)) for each in spec.inputs}
            self.check(operator, inputs, {each.name: () for each in spec.attributes if each.is_required})


FRESH_S: Final = 5.0
"""Lifetime of an answer: a restarted server may have another card."""
_LATE_S: Final = 1.0
"""A forward pass waits this long for a new answer, then uses the last one; the backward pass reports the problem."""
_served: Final[WeakKeyDictionary[Client, tuple[ServedOperators, float]]] = WeakKeyDictionary()


def served_by(client: Client) -> ServedOperators:
    """Returns the operators of the client's server, asked at first and again after `FRESH_S`."""
    served, asked_at = _served.get(client, (None, 0.0))
    now = time.monotonic()
    if served is None:
        served = _ask(client)
    elif now < asked_at + FRESH_S:
        return served
    else:
        # Other threads use the last answer meanwhile; so does this one if there is no new one.
        _served[client] = served, now
        with suppress(AclgradError):
            served = _ask(client, _LATE_S)
    _served[client] = served, now
    return served


def forget(client: Client) -> None:
    """Forgets the answer, because another server may answer now."""
    _served.pop(client, None)


def _ask(client: Client, timeout_s: Timeout = DEFAULT) -> ServedOperators:
    names = frozenset(each.name for each in client.list_operators(timeout_s=timeout_s))
    name = client.server_status(timeout_s=timeout_s).product
    # A newer server may have a product that this client does not know.
    return ServedOperators(names, next((product for product in Product if product == name), None))


def served_operator(operator: str, client: Client) -> str:
    """Returns the operator; for max pooling, the one of the two that the client's server lists."""
    return served_by(client).operator(operator) if operator in MAX_POOL2D else operator
