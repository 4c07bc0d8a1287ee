"""Calls that are collected and sent together, without any input or output: both clients share it."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from aclgrad._client.attempts.retry import is_worth_a_retry
from aclgrad._client.attempts.rpc_errors import error_of_status, unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.call import Call, Inputs
from aclgrad._client.calls.chunked import ChunkedCall
from aclgrad._client.calls.destination import Outputs
from aclgrad._client.calls.exchange import Exchange
from aclgrad._client.calls.operator_methods import OperatorMethods
from aclgrad._client.calls.requirements import Requirements
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad.errors import (
    AclgradError,
    DeadlinePassedError,
    InputValuesRequiredError,
    InvalidFieldError,
    InvalidSettingError,
    LimitExceededError,
    MessageTooLargeError,
    ServerFaultError,
)
from aclgrad.operators.attributes import AttributeLike
from aclgrad.wire.limits import MAX_PROGRAM_REST_BYTES, MAX_STEPS
from aclgrad.wire.programs import StepOutcome, decode_results, encode_program

Outcome = Array | AclgradError
_Client = TypeVar("_Client")

_KEY_BYTES: Final = 8
"""What stands before a call in a message, at most."""
_OUTPUT_FIELDS_BYTES: Final = 256
"""What stands before the data of an output in a reply, at most."""
_STATUS_BYTES: Final = 1024
"""A call that fails takes about so much of a reply."""


def _request_bytes(call: Call) -> int:
    """Returns the bytes of the call in a request."""
    return len(call.request) + _KEY_BYTES


def _output_bytes(call: Call) -> int:
    """Returns the bytes of the result in a reply, 0 if it is not known: the server will say why it is not legal."""
    return sum(each.type.size_bytes + _OUTPUT_FIELDS_BYTES for each in call.outputs)


class BaseBatch(OperatorMethods[int], Generic[_Client]):
    """Calls that are sent together; a method of an operator adds its call and returns its position."""

    def __init__(self, requirements: Requirements, client: _Client) -> None:
        self._requirements = requirements
        self._client = client
        self._calls: list[Call] = []

    def __len__(self) -> int:
        return len(self._calls)

    def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int:
        """Adds the call of any operator of the server, by its wire names, and returns its position.

        The arrays are read now and may change afterwards. An array of which only the shape is sent is copied too, in
        case the server asks for its values; a shape in its place saves that. With `out`, each `run` writes the output
        to that array and returns it.

        Raises InvalidFieldError where an array or an attribute has no form on the wire, and InvalidSettingError for
        a `timeout_s`: a batch has one time limit, which `run` takes.
        """
        if timeout_s is not DEFAULT:
            problem = "a call in a batch has no timeout_s of its own"
            raise InvalidSettingError(problem, field="timeout_s", remedy="give it to run()")
        call = Call(name, inputs, attributes, self._requirements, out, outputs)
        call.encode()
        self._calls.append(call)
        return len(self._calls) - 1

    @abstractmethod
    def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> Any:
        """Makes the calls and returns their outputs, in the order in which they were added.

        Where a call fails, raises its error, the first if there are several; with `return_errors` it stands in the
        list instead, and the others' outputs are not lost. Raises an AclgradError of its own where no call was made.

        Calls that exceed a message together go in several, one after the other; a call that alone exceeds one goes in
        chunks. `timeout_s` bounds all of them together.
        """

    def to_send(self, return_errors: bool) -> BatchRun:
        """Returns the calls to send."""
        return BatchRun(self._calls, self._requirements, return_errors=return_errors)


class BatchRun(Exchange[None]):
    """The calls of one `run()`, cut into messages; it is the exchange of one message after the other.

    A message is a program whose steps are the calls that come next and fit together by their requests and by their
    expected replies. A call that alone exceeds a message goes in chunks. Calls that failed for a moment are sent again,
    and only those.
    """

    method = "ExecuteProgram"

    def __init__(self, calls: list[Call], requirements: Requirements, *, return_errors: bool) -> None:
        self._calls = calls
        self._requirements = requirements
        self._return_errors = return_errors
        self._outcomes: list[Outcome | None] = [None] * len(self._calls)
        self._pending = list(range(len(self._calls)))
        """The positions of the calls without a final outcome, ascending."""
        self._lacking = {index for index in self._pending if calls[index].withheld}
        """Those that this run has not sent with all values, although another run may have."""
        self._sent: list[int] = []
        """Those of the calls in the message under way."""
        self.size_bytes = 0
        self._chunk_bytes: int | None = None
        """The size of chunks that a refusal led to."""
        self._is_answered = False
        self._failure: AclgradError | None = None
        """The error of the first message that failed as a whole."""

    def next_message(self) -> bool:
        """Goes on to the next message; returns False after the last one, or if the error to raise is known."""
        if not self._pending or (not self._return_errors and self._first_error(self._pending[0])):
            return False
        self._send(self._fitting(self._pending))
        self._chunk_bytes = None
        return True

    def _send(self, positions: list[int]) -> None:
        """Makes the message of these calls."""
        self._sent = positions
        calls = [self._calls[index] for index in positions]
        self.size_bytes = max(sum(map(_request_bytes, calls)), sum(map(_output_bytes, calls)))

    @property
    def request(self) -> bytes:
        return encode_program([self._calls[index].request for index in self._sent])

    def in_chunks(self) -> ChunkedCall[None] | None:
        if len(self._sent) > 1 or (self._chunk_bytes is None and self.size_bytes <= self._requirements.message_bytes):
            return None
        return self._calls[self._sent[0]].chunked(self._settle_one)

    def _settle_one(self, outputs: Array) -> None:
        self._outcomes[self._sent[0]] = outputs
        self._is_answered = True
        self._settle(self._sent)

    def read(self, reply: bytes) -> None:
        """Settles the calls of the message; raises an error if another attempt may help some of them."""
        try:
            results = decode_results(reply)
        except ValueError as error:
            raise unreadable_reply(error) from error
        if len(results) != len(self._sent):
            raise ServerFaultError(f"the server answered {len(results)} of {len(self._sent)} calls of the batch")
        self._is_answered = True
        again: dict[int, AclgradError] = {}
        for index, result in zip(self._sent, results, strict=True):
            self._outcomes[index] = outcome = self._outcome(index, result)
            if isinstance(outcome, AclgradError) and self._may_succeed(index, outcome):
                again[index] = outcome
        self._settle([index for index in self._sent if index not in again])
        self._send(list(again))
        if again:
            # What is at hand is sent at once; otherwise all wait for as long as the one that has to wait longest.
            raise max(
                again.values(),
                key=lambda error: (isinstance(error, InputValuesRequiredError), error.retry_after_s or 0.0),
            )

    def _outcome(self, index: int, result: StepOutcome) -> Outcome:
        if not isinstance(result, tuple):
            return error_of_status(result)
        try:
            return self._calls[index].destination.read(result)
        except InvalidFieldError as error:
            # An `out` that does not fit concerns no other call.
            return error

    def amend(self, error: AclgradError) -> BatchRun | None:
        """Returns the call with values that the server asks for, or smaller if a message was too large, else None."""
        if isinstance(error, InputValuesRequiredError):
            if len(self._sent) == 1:
                self._requirements.require_values(self._calls[self._sent[0]].operator)
            incomplete = [index for index in self._sent if index in self._lacking]
            for index in incomplete:
                self._complete(index)
            self._send(self._fitting(self._sent))
            return self if incomplete else None
        takes_too_much = isinstance(error, LimitExceededError) and "peak_bytes" in error.metadata
        if not self._requirements.learn(error) and not (takes_too_much and len(self._sent) > 1):
            return None
        if len(self._sent) > 1:
            fitting = self._fitting(self._sent)
            # If that is no smaller message, its size or its reply's was misjudged, or it takes too much on the device.
            self._send(fitting if len(fitting) < len(self._sent) else fitting[: len(fitting) // 2])
            return self
        before, self._chunk_bytes = self._chunk_bytes, self._requirements.chunk_bytes
        return self if before is None or self._chunk_bytes < before else None

    def fail(self, error: AclgradError) -> None:
        """Settles the calls of a message that failed as a whole.

        An error that is not the server's ends the run: no connection, no time left, a closed client.
        """
        is_answer = len(self._sent) == 1 and error.is_from_server
        self._is_answered |= is_answer
        self._failure = self._failure or error
        is_end = not error.is_from_server and not isinstance(error, MessageTooLargeError)
        failed = self._pending if is_end else self._sent
        for index in failed:
            if is_answer or self._outcomes[index] is None:
                self._outcomes[index] = error
        self._settle(failed)

    def results(self) -> list[Any]:
        """Ends the run: returns the outcomes.

        Raises the first error unless errors are returned, and if no call was answered.
        """
        error = self._first_error(len(self._outcomes))
        if not self._is_answered:
            error = self._failure
        elif self._return_errors:
            error = None
        outcomes, self._outcomes, self._failure = self._outcomes, [], None
        if error is None:
            return outcomes
        try:
            raise error
        finally:
            # Its traceback has this frame and the run, which are not to have it: they hold all arrays.
            del error, outcomes

    def _complete(self, index: int) -> None:
        """Has the values of a call sent."""
        self._lacking.discard(index)
        if self._calls[index].withheld:
            self._calls[index].add_values()

    def _first_error(self, end: int) -> AclgradError | None:
        return next((each for each in self._outcomes[:end] if isinstance(each, AclgradError)), None)

    def _fitting(self, positions: Sequence[int]) -> list[int]:
        """Returns the first of the positions whose calls fit in one message and their results in one reply.

        The calls get the values that the server is known to want.
        """
        fitting: list[int] = []
        request_bytes = reply_bytes = rest_bytes = 0
        for index in positions[:MAX_STEPS]:
            call = self._calls[index]
            if call.withheld and call.operator not in self._requirements.withheld:
                self._complete(index)
            request_bytes += _request_bytes(call)
            reply_bytes += max(_output_bytes(call), _STATUS_BYTES)
            rest_bytes += call.rest_bytes + _KEY_BYTES
            is_large = max(request_bytes, reply_bytes) > self._requirements.message_bytes
            if fitting and (is_large or rest_bytes > MAX_PROGRAM_REST_BYTES):
                break
            fitting.append(index)
        return fitting

    def _settle(self, positions: Sequence[int]) -> None:
        settled = set(positions)
        self._pending = [index for index in self._pending if index not in settled]

    def _may_succeed(self, index: int, error: AclgradError) -> bool:
        if not isinstance(error, InputValuesRequiredError):
            # Another server may have the time that this one did not have.
            return is_worth_a_retry(error) or isinstance(error, DeadlinePassedError)
        self._requirements.require_values(self._calls[index].operator)
        return index in self._lacking
