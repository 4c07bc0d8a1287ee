"""Calls that are collected and sent together, without any input or output: both clients share it."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aclgrad._client.attempts.retry import is_worth_a_retry
from aclgrad._client.attempts.rpc_errors import error_of_status, unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.destination import Destination, Outputs
from aclgrad._client.calls.exchanges import ChunkedCall, destination_of, gradient_of
from aclgrad._client.calls.message_limit import MessageLimit
from aclgrad._client.calls.operator_methods import OperatorMethods
from aclgrad._client.calls.outgoing import Inputs, OutgoingCall, SentValues, outgoing_call
from aclgrad._client.settings.timeouts import DEFAULT, Timeout
from aclgrad.errors import (
    AclgradError,
    DeadlinePassedError,
    InputValuesRequiredError,
    InvalidFieldError,
    InvalidSettingError,
    MessageTooLargeError,
    ServerFaultError,
)
from aclgrad.operators.attributes import AttributeLike
from aclgrad.sources import in_message
from aclgrad.wire.limits import MAX_BATCH_CALLS
from aclgrad.wire.messages import CallResult, decode_batch, decode_request, encode_batch, encode_request

Outcome = Array | AclgradError

_KEY_BYTES: Final = 8
"""What stands before a call in a message, at most."""
_OUTPUT_FIELDS_BYTES: Final = 256
"""What stands before the data of an output in a reply, at most."""
_STATUS_BYTES: Final = 1024
"""A call that fails takes about so much of a reply."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A call as bytes, and the bytes of the arrays that are withheld: only where its gradient goes is the caller's."""

    name: str
    request: bytes
    withheld: Mapping[str, bytes]
    output_bytes: int
    """Bytes of the result in a reply, 0 if it is not known: the server will say why the call is not legal."""
    destination: Destination

    @property
    def request_bytes(self) -> int:
        """Bytes of the call in a request."""
        return len(self.request) + _KEY_BYTES

    @classmethod
    def of(cls, outgoing: OutgoingCall, out: Outputs | None) -> _Encoded:
        copies = {
            tensor.name: outgoing.withheld[tensor.name].astype(tensor.type.dtype.numpy, copy=False).tobytes()
            for tensor in outgoing.call.inputs
            if tensor.name in outgoing.withheld
        }
        output_bytes = sum(each.type.size_bytes + _OUTPUT_FIELDS_BYTES for each in outgoing.outputs)
        destination = destination_of(out, outgoing)
        return cls(outgoing.call.operator, encode_request(outgoing.call), copies, output_bytes, destination)

    def with_values(self) -> _Encoded:
        """Returns the call with the values that were withheld."""
        call = decode_request(self.request)
        inputs = tuple(
            replace(tensor, source=in_message(memoryview(self.withheld[tensor.name])))
            if tensor.name in self.withheld
            else tensor
            for tensor in call.inputs
        )
        return replace(self, request=encode_request(replace(call, inputs=inputs)), withheld={})


class BaseBatch(OperatorMethods[int]):
    """Calls that are sent together; a method of an operator adds its call and returns its position."""

    def __init__(self, sent_values: SentValues, limit: MessageLimit) -> None:
        self._sent_values = sent_values
        self._limit = limit
        self._calls: list[_Encoded] = []

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
        case the server asks for its values; a shape in its place saves that. With `out`, each `run` writes the gradient
        to that array and returns it.

        Raises InvalidFieldError where an array or an attribute has no form on the wire, and InvalidSettingError for
        a `timeout_s`: a batch has one time limit, which `run` takes.
        """
        if timeout_s is not DEFAULT:
            problem = "a call in a batch has no timeout_s of its own"
            raise InvalidSettingError(problem, field="timeout_s", remedy="give it to run()")
        self._calls.append(_Encoded.of(outgoing_call(name, inputs, attributes, self._sent_values, outputs), out))
        return len(self._calls) - 1

    @abstractmethod
    def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> Any:
        """Makes the calls and returns their gradients, in the order in which they were added.

        Where a call fails, raises its error, the first if there are several; with `return_errors` it stands in the
        list instead, and the others' gradients are not lost. Raises an AclgradError of its own where no call was made.

        Calls that exceed a message together go in several, one after the other; a call that alone exceeds one goes in
        chunks. `timeout_s` bounds all of them together.
        """

    def to_send(self, return_errors: bool) -> BatchRun:
        """Returns the calls to send."""
        return BatchRun(self._calls, self._sent_values, self._limit, return_errors=return_errors)


class BatchRun:
    """The calls of one `run()`, cut into messages; it is the exchange of one message after the other.

    A message holds the calls that come next and fit together by their requests and by their expected replies. A call
    that alone exceeds a message goes in chunks. Calls that failed for a moment are sent again, and only those.
    """

    method = "BatchExecuteOperators"

    def __init__(
        self, calls: list[_Encoded], sent_values: SentValues, limit: MessageLimit, *, return_errors: bool
    ) -> None:
        self._calls = calls
        self._sent_values = sent_values
        self._limit = limit
        self._return_errors = return_errors
        self._outcomes: list[Outcome | None] = [None] * len(self._calls)
        self._pending = list(range(len(self._calls)))
        """The positions of the calls without a final outcome, ascending."""
        self._sent: list[int] = []
        """Those of the calls in the message under way."""
        self._chunk_bytes: int | None = None
        """The size of chunks that a refusal led to."""
        self._is_answered = False
        self._failure: AclgradError | None = None
        """The error of the first message that failed as a whole."""

    def next_message(self) -> bool:
        """Goes on to the next message; returns False after the last one, or if the error to raise is known."""
        if not self._pending or (not self._return_errors and self._first_error(self._pending[0])):
            return False
        self._sent, self._chunk_bytes = self._fitting(self._pending), None
        return True

    @property
    def size_bytes(self) -> int:
        """The bytes of the message or of its reply, whichever has more."""
        calls = [self._calls[index] for index in self._sent]
        return max(sum(call.request_bytes for call in calls), sum(call.output_bytes for call in calls))

    @property
    def request(self) -> bytes:
        return encode_batch([self._calls[index].request for index in self._sent])

    def in_chunks(self, size_bytes: int) -> ChunkedCall | None:
        """Returns the call that goes in chunks, or None for a message of so many bytes."""
        if len(self._sent) > 1 or (self._chunk_bytes is None and size_bytes <= self._limit.size_bytes):
            return None
        call = self._calls[self._sent[0]]
        return ChunkedCall(decode_request(call.request), self._limit.chunk_bytes, call.destination)

    def take(self, gradient: Array) -> None:
        """Settles the call that went in chunks."""
        self._outcomes[self._sent[0]] = gradient
        self._is_answered = True
        self._settle(self._sent)

    def read(self, reply: bytes) -> None:
        """Settles the calls of the message; raises an error if another attempt may help some of them."""
        try:
            results = decode_batch(reply)
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
        self._sent = list(again)
        if again:
            # What is at hand is sent at once; otherwise all wait for as long as the one that has to wait longest.
            raise max(
                again.values(),
                key=lambda error: (isinstance(error, InputValuesRequiredError), error.retry_after_s or 0.0),
            )

    def _outcome(self, index: int, result: CallResult) -> Outcome:
        if not isinstance(result, tuple):
            return error_of_status(result)
        try:
            return gradient_of(result, self._calls[index].destination)
        except InvalidFieldError as error:
            # An `out` that does not fit concerns no other call.
            return error

    def amend(self, error: AclgradError) -> BatchRun | None:
        """Returns the call with values that the server asks for, or smaller if a message was too large, else None."""
        if isinstance(error, InputValuesRequiredError):
            if len(self._sent) == 1:
                self._sent_values.require(self._calls[self._sent[0]].name)
            incomplete = [index for index in self._sent if self._calls[index].withheld]
            for index in incomplete:
                self._calls[index] = self._calls[index].with_values()
            self._sent = self._fitting(self._sent)
            return self if incomplete else None
        if not self._limit.learn(error):
            return None
        if len(self._sent) > 1:
            fitting = self._fitting(self._sent)
            # If that is no smaller message, its size or its reply's was misjudged.
            self._sent = fitting if len(fitting) < len(self._sent) else fitting[: len(fitting) // 2]
            return self
        before, self._chunk_bytes = self._chunk_bytes, self._limit.chunk_bytes
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
        """Returns the outcomes; raises the first error unless errors are returned, and if no call was answered."""
        if self._failure is not None and not self._is_answered:
            raise self._failure
        error = self._first_error(len(self._outcomes))
        if error is not None and not self._return_errors:
            raise error
        return list(self._outcomes)

    def _first_error(self, end: int) -> AclgradError | None:
        return next((each for each in self._outcomes[:end] if isinstance(each, AclgradError)), None)

    def _fitting(self, positions: Sequence[int]) -> list[int]:
        """Returns the first of the positions whose calls fit in one message and their results in one reply.

        The calls get the values that the server is known to want.
        """
        fitting: list[int] = []
        request_bytes = reply_bytes = 0
        for index in positions[:MAX_BATCH_CALLS]:
            call = self._calls[index]
            if call.withheld and not self._sent_values.withheld(call.name):
                call = self._calls[index] = call.with_values()
            request_bytes += call.request_bytes
            reply_bytes += max(call.output_bytes, _STATUS_BYTES)
            if fitting and max(request_bytes, reply_bytes) > self._limit.size_bytes:
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
        self._sent_values.require(self._calls[index].name)
        return bool(self._calls[index].withheld)
