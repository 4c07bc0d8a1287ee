"""Operators, by the first input's dtype, that the server refuses because its device failed their self-test."""

from collections.abc import Iterator

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import DTYPES
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall


class TurnedOff:
    """The refused operators and dtypes of a product, each with a reason for clients."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._reasons: dict[str, dict[str, str]] = {}

    def add(self, spec: OperatorSpec, reason: str, dtype: str | None = None) -> None:
        """Turns an operator off for one dtype of its leading input, or for all; an earlier reason stays."""
        known = self._reasons.setdefault(spec.name, {})
        for each in spec.dtypes_on(self.product) if dtype is None else (dtype,):
            known.setdefault(each, reason)

    def has(self, operator: str, dtype: str) -> bool:
        return dtype in self._reasons.get(operator, {})

    def served_dtypes(self, spec: OperatorSpec) -> tuple[str, ...]:
        """Returns the dtypes of the leading input with which the product still serves the operator."""
        return tuple(each for each in spec.dtypes_on(self.product) if not self.has(spec.name, each))

    def reason_for(self, call: OperatorCall) -> str | None:
        """Returns why a call is refused, or None; an operator without a remaining dtype is always refused."""
        reasons = self._reasons.get(call.operator)
        if not reasons:
            return None
        spec = OPERATORS[call.operator]
        sent = (each.type.dtype.name for each in call.inputs if each.name == spec.leading)
        other = None if self.served_dtypes(spec) else next(iter(reasons.values()))
        return reasons.get(next(sent, ""), other)

    def messages(self) -> Iterator[pb.TurnedOffOperator]:
        """Yields a message for each operator and reason, without dtypes if the operator is not served at all."""
        for name, reasons in self._reasons.items():
            is_served = bool(self.served_dtypes(OPERATORS[name]))
            for reason in dict.fromkeys(reasons.values()):
                dtypes = [DTYPES[dtype].wire for dtype, why in reasons.items() if why == reason and is_served]
                yield pb.TurnedOffOperator(name=name, reason=reason, data_types=dtypes)
