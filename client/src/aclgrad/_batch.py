"""Calls that are collected and sent in one message, without any input or output: both clients share it."""

from collections.abc import Mapping, Sequence
from typing import Any

from aclgrad._calls import Array, Input, SentValues, error_of_status, gradient_of, planned_call
from aclgrad._operator_methods import OperatorMethods
from aclgrad._retry import is_worth_a_retry
from aclgrad.errors import AclgradError, InputValuesRequiredError, ServerFaultError
from aclgrad.wire.messages import AttributeValue, decode_batch, encode_batch, encode_request

Outcome = Array | AclgradError


class CollectedCalls(OperatorMethods[int]):
    """Calls of operators as they are to be sent; each method returns the call's position instead of a gradient."""

    def __init__(self, sent_values: SentValues) -> None:
        self._sent_values = sent_values
        self._calls: list[tuple[str, Mapping[str, Input], Mapping[str, AttributeValue] | None]] = []

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
        planned_call(name, inputs, attributes, self._sent_values)
        self._calls.append((name, inputs, attributes))
        return len(self._calls) - 1

    def to_send(self) -> "BatchCall":
        return BatchCall(self._calls, self._sent_values)


class BatchCall:
    """The call of what has no outcome yet; sent again, it asks only for what failed in passing."""

    method = "BatchExecuteOperators"

    def __init__(
        self,
        calls: Sequence[tuple[str, Mapping[str, Input], Mapping[str, AttributeValue] | None]],
        sent_values: SentValues,
    ) -> None:
        self._calls = tuple(calls)
        self._sent_values = sent_values
        self._pending = list(range(len(self._calls)))
        self.outcomes: list[Outcome | None] = [None] * len(self._calls)

    @property
    def request(self) -> bytes:
        planned = (planned_call(*self._calls[index], self._sent_values) for index in self._pending)
        return encode_batch([encode_request(each.call) for each in planned])

    def read(self, reply: bytes) -> list[Outcome]:
        """Returns all outcomes; raises the first error that another attempt may mend, where there is one."""
        try:
            results = decode_batch(reply)
        except ValueError as error:
            raise ServerFaultError(f"the reply of the server cannot be read: {error}") from error
        if len(results) != len(self._pending):
            raise ServerFaultError(f"the server answered {len(results)} of {len(self._pending)} calls of the batch")
        again = []
        for index, result in zip(self._pending, results, strict=True):
            outcome = gradient_of(result) if isinstance(result, tuple) else error_of_status(result)
            self.outcomes[index] = outcome
            if isinstance(outcome, AclgradError) and self._may_succeed(index, outcome):
                again.append(index)
        self._pending = again
        if again:
            first = self.outcomes[again[0]]
            assert isinstance(first, AclgradError)
            raise first
        return [outcome for outcome in self.outcomes if outcome is not None]

    def amend(self, error: AclgradError) -> "BatchCall | None":
        """Goes on at once where the server asked for values that are at hand."""
        return self if isinstance(error, InputValuesRequiredError) else None

    def _may_succeed(self, index: int, error: AclgradError) -> bool:
        if not isinstance(error, InputValuesRequiredError):
            return is_worth_a_retry(error)
        withheld = planned_call(*self._calls[index], self._sent_values).withheld
        if withheld:
            self._sent_values.require(self._calls[index][0])
        return bool(withheld)


def settled(outcomes: Sequence[Outcome | None], return_errors: bool) -> list[Any]:
    """Returns the outcomes; raises the first error among them unless errors are to be returned."""
    for outcome in outcomes:
        if isinstance(outcome, AclgradError) and not return_errors:
            raise outcome
    return list(outcomes)
