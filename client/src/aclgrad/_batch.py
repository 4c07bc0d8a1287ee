"""Calls that are collected and sent in one message, without any input or output: both clients share it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aclgrad._calls import Array, Input, SentValues, error_of_status, gradient_of, planned_call
from aclgrad._operator_methods import OperatorMethods
from aclgrad._retry import is_worth_a_retry
from aclgrad.errors import AclgradError, InputValuesRequiredError, ServerFaultError
from aclgrad.wire.messages import AttributeValue, decode_batch, encode_batch, encode_request

Outcome = Array | AclgradError


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A call as bytes, the arrays among its inputs whose values are withheld, and what to make it from again."""

    name: str
    inputs: Mapping[str, Input]
    attributes: Mapping[str, AttributeValue] | None
    request: bytes
    withheld: frozenset[str]

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeValue] | None,
        sent_values: SentValues,
    ) -> "_Encoded":
        planned = planned_call(name, inputs, attributes, sent_values)
        return cls(name, inputs, attributes, encode_request(planned.call), planned.withheld)

    def up_to_date(self, sent_values: SentValues) -> "_Encoded":
        """Returns the call with the values that servers have asked for since it was encoded."""
        if self.withheld <= sent_values.withheld(self.name):
            return self
        return _Encoded.of(self.name, self.inputs, self.attributes, sent_values)


class CollectedCalls(OperatorMethods[int]):
    """Calls of operators as they are to be sent; each method returns the call's position instead of a gradient."""

    def __init__(self, sent_values: SentValues) -> None:
        self._sent_values = sent_values
        self._calls: list[_Encoded] = []

    def __len__(self) -> int:
        return len(self._calls)

    def execute(
        self,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> int:
        """Adds the call of any operator of the server, by its wire names, and returns its position.

        Raises InvalidFieldError where an array or an attribute has no form on the wire, and ValueError for a
        `timeout_s`: a batch has one time limit, which `run` takes.
        """
        if timeout_s is not None:
            raise ValueError("a call in a batch has no timeout_s of its own; give it to run()")
        self._calls.append(_Encoded.of(name, dict(inputs), attributes, self._sent_values))
        return len(self._calls) - 1

    def to_send(self) -> "BatchCall":
        return BatchCall(self._calls, self._sent_values)


class BatchCall:
    """The call of what has no outcome yet; sent again, it asks only for what failed in passing."""

    method = "BatchExecuteOperators"

    def __init__(self, calls: Sequence[_Encoded], sent_values: SentValues) -> None:
        self._calls = list(calls)
        self._sent_values = sent_values
        self._pending = list(range(len(self._calls)))
        self._outcomes: list[Outcome | None] = [None] * len(self._calls)

    @property
    def outcomes(self) -> list[Outcome] | None:
        """What each call has come to so far, or None before the first reply."""
        outcomes = [outcome for outcome in self._outcomes if outcome is not None]
        return outcomes if len(outcomes) == len(self._outcomes) else None

    @property
    def request(self) -> bytes:
        for index in self._pending:
            self._calls[index] = self._calls[index].up_to_date(self._sent_values)
        return encode_batch([self._calls[index].request for index in self._pending])

    def read(self, reply: bytes) -> list[Outcome]:
        """Returns all outcomes; raises an error that another attempt may mend, where there is one."""
        try:
            results = decode_batch(reply)
        except ValueError as error:
            raise ServerFaultError(f"the reply of the server cannot be read: {error}") from error
        if len(results) != len(self._pending):
            raise ServerFaultError(f"the server answered {len(results)} of {len(self._pending)} calls of the batch")
        again: dict[int, AclgradError] = {}
        for index, result in zip(self._pending, results, strict=True):
            outcome = gradient_of(result) if isinstance(result, tuple) else error_of_status(result)
            self._outcomes[index] = outcome
            if isinstance(outcome, AclgradError) and self._may_succeed(index, outcome):
                again[index] = outcome
        self._pending = list(again)
        if again:
            # What is at hand is sent at once; otherwise all wait for as long as the one that has to wait longest.
            raise max(
                again.values(),
                key=lambda error: (isinstance(error, InputValuesRequiredError), error.retry_after_s or 0.0),
            )
        assert self.outcomes is not None
        return self.outcomes

    def amend(self, error: AclgradError) -> "BatchCall | None":
        """Goes on at once where the server asked for values that are at hand."""
        return self if isinstance(error, InputValuesRequiredError) else None

    def _may_succeed(self, index: int, error: AclgradError) -> bool:
        if not isinstance(error, InputValuesRequiredError):
            return is_worth_a_retry(error)
        self._sent_values.require(self._calls[index].name)
        # As it was sent: by now another call of the operator may have had its values asked for.
        return bool(self._calls[index].withheld)


def settled(outcomes: Sequence[Outcome | None], return_errors: bool) -> list[Any]:
    """Returns the outcomes; raises the first error among them unless errors are to be returned."""
    for outcome in outcomes:
        if isinstance(outcome, AclgradError) and not return_errors:
            raise outcome
    return list(outcomes)
