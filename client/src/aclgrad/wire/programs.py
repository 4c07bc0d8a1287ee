"""Programs and their results, to bytes and back."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from google.rpc import status_pb2

from aclgrad.errors import InvalidFieldError, LimitExceededError
from aclgrad.sources import InMessage, OutputOf, in_message
from aclgrad.tensors import TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.limits import MAX_STEPS, MAX_TABLE_TENSORS
from aclgrad.wire.messages import (
    COPIED_BYTES,
    INPUTS,
    OUTPUTS,
    OperatorCall,
    call_of_message,
    output_views,
    parse_message,
)
from aclgrad.wire.scan import extract_payloads
from aclgrad.wire.values import DATA, checked_name, length_key, tensor_field, tensor_view

StepOutcome: TypeAlias = tuple[TensorView, ...] | status_pb2.Status
"""The returned outputs of one step, or its error."""

_STEPS: Final = pb.ExecuteProgramRequest.STEPS_FIELD_NUMBER
_TENSORS: Final = pb.ExecuteProgramRequest.TENSORS_FIELD_NUMBER
_RESULTS: Final = pb.ExecuteProgramResponse.RESULTS_FIELD_NUMBER

PROGRAM_PAYLOADS: Final = ((_STEPS, INPUTS, DATA), (_TENSORS, DATA))
"""The paths of field numbers to the data of tensors in an ExecuteProgramRequest."""
RESULT_PAYLOADS: Final = (_RESULTS, OUTPUTS, DATA)


@dataclass(frozen=True, slots=True)
class SentProgram:
    """A received program. Only its encoding has been checked."""

    tensors: tuple[TensorView, ...]
    """The table that steps refer to."""
    returned: tuple[tuple[int, str], ...]
    """The steps and names of the outputs to send back; all if there are none."""
    product: str
    step_count: int
    message: pb.ExecuteProgramRequest
    payloads: Sequence[InMessage]
    chunk_bytes: int = 0
    """The size of the chunks of the answer; 0 for an answer in one message."""

    def step(self, index: int) -> OperatorCall:
        """Returns the call of a step; raises InvalidFieldError if it is invalid in itself."""
        return call_of_message(self.message.steps[index], self.payloads)

    def steps(self) -> Iterator[OperatorCall]:
        """Yields the calls of all steps."""
        return map(self.step, range(self.step_count))


def encode_program(
    steps: Iterable[bytes],
    tensors: Iterable[TensorView] = (),
    returned: Iterable[OutputOf] = (),
    product: str = "",
) -> bytes:
    """Returns serialized ExecuteOperatorRequests, and a table, as one ExecuteProgramRequest."""
    return b"".join(program_pieces(((each,) for each in steps), tensors, returned, product))


def program_pieces(
    steps: Iterable[Sequence[bytes | memoryview]],
    tensors: Iterable[TensorView] = (),
    returned: Iterable[OutputOf] = (),
    product: str = "",
) -> list[bytes | memoryview]:
    """Returns the pieces of an ExecuteProgramRequest, given those of its ExecuteOperatorRequests."""
    table = [piece for tensor in tensors for piece in table_field(tensor)]
    return [*step_fields(steps), *table, rest_of_program(returned, product)]


def step_fields(steps: Iterable[Sequence[bytes | memoryview]]) -> list[bytes | memoryview]:
    """Returns the pieces of the steps of an ExecuteProgramRequest, given those of their ExecuteOperatorRequests."""
    pieces: list[bytes | memoryview] = []
    for step in steps:
        pieces += (length_key(_STEPS, sum(map(len, step))), *step)
    return pieces


def table_field(tensor: TensorView, data_bytes: int | None = None) -> list[bytes | memoryview]:
    """Returns the pieces of a tensor of the table; `data_bytes` announces data that the caller writes behind them."""
    return tensor_field(_TENSORS, tensor, data_bytes)


def rest_of_program(returned: Iterable[OutputOf], product: str) -> bytes:
    """Returns the rest of an ExecuteProgramRequest, without its steps and its table."""
    rest = pb.ExecuteProgramRequest(
        returned=[each.message() for each in returned], product=checked_name("product", product)
    )
    return rest.SerializeToString()


def decode_program(data: bytes) -> SentProgram:
    """Returns the program of an ExecuteProgramRequest, its tensors as views of `data`; raises as `parse_program`."""
    rest, payloads = extract_payloads(data, *PROGRAM_PAYLOADS)
    return parse_program(rest, list(map(in_message, payloads)))


def parse_program(rest: bytes, payloads: Sequence[InMessage]) -> SentProgram:
    """Returns the program of a request whose payloads were extracted along PROGRAM_PAYLOADS.

    Raises MalformedRequestError if the bytes are not well-formed, LimitExceededError for too many parts, and
    InvalidFieldError for an invalid table.
    """
    return program_of_message(parse_message(pb.ExecuteProgramRequest, rest), payloads)


def program_of_message(message: pb.ExecuteProgramRequest, payloads: Sequence[InMessage]) -> SentProgram:
    """Returns the program of a message with placeholders instead of payloads; see `parse_program`."""
    _check_parts("steps", len(message.steps), MAX_STEPS)
    _check_parts("tensors", len(message.tensors), MAX_TABLE_TENSORS)
    _check_parts("returned", len(message.returned), MAX_STEPS)
    tensors = tuple(_table_entry(each, index, payloads) for index, each in enumerate(message.tensors))
    returned = tuple((each.step, each.output) for each in message.returned)
    return SentProgram(tensors, returned, message.product, len(message.steps), message, payloads)


def _check_parts(field: str, count: int, limit: int) -> None:
    if count > limit:
        raise LimitExceededError.at(field, f"are {count} and the limit is {limit}", "send them in several programs")


def _table_entry(message: tensor_pb2.Tensor, index: int, payloads: Sequence[InMessage]) -> TensorView:
    field = f"tensors[{index}]"
    try:
        tensor = tensor_view(message, payloads)
    except InvalidFieldError as error:
        violation = error.violations[0]
        problem = f"{violation.field.partition('.')[2]} {violation.problem}"
        raise InvalidFieldError.at(field, problem, violation.remedy) from None
    if message.name or tensor.view is not None:
        what = "a view" if tensor.view is not None else f"the name {message.name[:64]!r}"
        raise InvalidFieldError.at(field, f"has {what}", "give it to the inputs that refer to the tensor")
    if tensor.source.step is not None or tensor.source.entry is not None:
        raise InvalidFieldError.at(field, "refers to another tensor", "have the inputs refer to that one")
    return tensor


def result_prefix(payload_bytes: int, prefix: bytes = b"") -> bytes:
    """Returns the bytes before the payload of one result in an ExecuteProgramResponse.

    A StepResult with outputs has the bytes of an ExecuteOperatorResponse with these outputs.
    """
    return length_key(_RESULTS, len(prefix) + payload_bytes) + prefix


def failed_result(status: status_pb2.Status) -> bytes:
    """Returns the result of a failed step for an ExecuteProgramResponse."""
    return result_prefix(0, pb.StepResult(error=status).SerializeToString())


def decode_results(data: bytes) -> list[StepOutcome]:
    """Returns the outputs of each step as views of `data`, or its status; errors as in `decode_request`."""
    if len(data) <= COPIED_BYTES:
        return outcomes_of(parse_message(pb.ExecuteProgramResponse, data), None)
    rest, payloads = extract_payloads(data, RESULT_PAYLOADS)
    return outcomes_of(parse_message(pb.ExecuteProgramResponse, rest), list(map(in_message, payloads)))


def outcomes_of(message: pb.ExecuteProgramResponse, payloads: Sequence[InMessage] | None) -> list[StepOutcome]:
    """Returns the outcomes in a message with placeholders instead of payloads, or with the data itself if None."""
    return [
        result.error if result.HasField("error") else output_views(result.outputs, payloads) if result.outputs else ()
        for result in message.results
    ]
