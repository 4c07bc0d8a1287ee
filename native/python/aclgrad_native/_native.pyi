from collections.abc import Mapping, Sequence
from typing import Any, final

class LibraryError(RuntimeError): ...

class AclError(RuntimeError):
    code: int
    fault: str
    call: str
    detail: str

class OutOfMemoryError(AclError):
    size_bytes: int
    allocated_bytes: int
    limit_bytes: int

class InvalidValueError(ValueError):
    input: int
    work: float | None
    limit: float | None

class WorkspaceError(RuntimeError):
    """The operator needs a larger workspace than its call may have: nothing of the call was begun."""

    size_bytes: int

class InputFailedError(RuntimeError):
    """A step that this one needs has failed: nothing of this one was begun."""

    step: int
    """The position of the step that failed first."""

class MalformedMessageError(ValueError): ...
class RestTooLargeError(ValueError): ...

@final
class AclLibrary:
    def __init__(self, files: Sequence[tuple[str, bool]], config_path: str | None = None) -> None: ...
    @property
    def is_host(self) -> bool: ...
    @property
    def files(self) -> list[str]: ...
    @property
    def host_pointers(self) -> bool: ...
    def device_count(self) -> int: ...
    def soc_name(self) -> str:
        """That of device 0; empty if the library does not say."""
    def version(self) -> str: ...

@final
class ExecutorStatistics:
    @property
    def entry_count(self) -> int: ...
    @property
    def hit_count(self) -> int: ...
    @property
    def miss_count(self) -> int: ...

@final
class PoolStatistics:
    @property
    def allocated_bytes(self) -> int: ...
    @property
    def largest_free_bytes(self) -> int: ...
    @property
    def reserved_bytes(self) -> int: ...
    @property
    def peak_allocated_bytes(self) -> int: ...
    @property
    def peak_reserved_bytes(self) -> int: ...
    @property
    def limit_bytes(self) -> int: ...
    @property
    def allocation_count(self) -> int: ...
    @property
    def hit_count(self) -> int: ...
    @property
    def retry_count(self) -> int: ...
    @property
    def out_of_memory_count(self) -> int: ...

@final
class Pooling:
    def __init__(
        self,
        input_size: tuple[int, int],
        output_size: tuple[int, int],
        kernel_size: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[int, int],
        dilation: tuple[int, int] = (1, 1),
    ) -> None: ...

@final
class RoiAlign:
    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        pooled_height: int,
        pooled_width: int,
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool,
        images: int | None = None,
    ) -> None: ...
    def count_work(self, boxes: bytes | memoryview) -> float: ...

class MaskEncoding:
    NONE: MaskEncoding
    INT32: MaskEncoding
    BITS: MaskEncoding

@final
class IndexCheck:
    def __init__(self, bound: int, item_bytes: int = 8, ignored: int | None = None) -> None: ...
    def apply(self, data: bytes | memoryview) -> bytes | None: ...
    def encoded_bytes(self, size_bytes: int) -> int: ...

@final
class ArgmaxCheck:
    def __init__(
        self, pooling: Pooling, item_bytes: int, batch: int, channels: int, encoding: MaskEncoding
    ) -> None: ...
    def apply(self, data: bytes | memoryview) -> bytes | None: ...
    def encoded_bytes(self, size_bytes: int) -> int: ...

@final
class BoxCheck:
    def __init__(self, roi_align: RoiAlign, max_work: float, item_bytes: int = 4) -> None: ...
    def apply(self, data: bytes | memoryview) -> bytes | None: ...
    def encoded_bytes(self, size_bytes: int) -> int: ...

@final
class VarianceCheck:
    def __init__(self, eps: float, tolerance: float, is_converted: bool) -> None: ...
    def apply(self, data: bytes | memoryview) -> bytes | None: ...
    def encoded_bytes(self, size_bytes: int) -> int: ...

@final
class BoolCheck:
    def __init__(self) -> None: ...
    def apply(self, data: bytes | memoryview) -> bytes | None: ...
    def encoded_bytes(self, size_bytes: int) -> int: ...

def extract_payloads(
    message: bytes | memoryview, paths: Sequence[Sequence[int]], max_rest_bytes: int = ...
) -> tuple[bytes, list[memoryview]]: ...
def fault_class(code: int) -> str: ...
def operator_symbols() -> list[str]: ...

@final
class Completions:
    """Completed work. Drain it until every ticket is back: work that stays here keeps its device open."""

    def __init__(self) -> None: ...
    @property
    def file(self) -> int:
        """A descriptor that is readable while there is something to drain."""
    def drain(self) -> list[tuple[Any, Any]]:
        """Returns each ticket with its result or exception, in order of completion."""

class OutputUse:
    """What becomes of an output: nobody wants the last two, and the operator has to write SCRATCH all the same.

    A device that has memory of its own fills RETURNED before the operator runs; RETURNED_WHOLE needs no filling.
    """

    RETURNED: OutputUse
    RETURNED_WHOLE: OutputUse
    SCRATCH: OutputUse
    NULL: OutputUse

@final
class Bools:
    """A list of bools as an attribute, or None for an absent one: a list of Python's is one of integers."""

    def __init__(self, values: Sequence[bool] | None) -> None: ...

@final
class Float:
    """A scalar of type FLOAT as an attribute: a float of Python's is one of type DOUBLE."""

    def __init__(self, value: float) -> None: ...

@final
class View:
    """How a tensor lies over memory of `count` elements."""

    def __init__(self, offset: int, strides: Sequence[int], count: int) -> None: ...

@final
class Gathering:
    """The shape of a tensor that is made row-major in the host's memory before its values are checked."""

    def __init__(self, shape: Sequence[int], item_bytes: int, view: View) -> None: ...

@final
class InPlace:
    """What an operator gets in the place of an input that it would write.

    A tensor of this shape and view over the memory of an output, by its number, which begins as a copy of the input.
    """

    def __init__(self, output: int, shape: Sequence[int], view: View | None = None) -> None: ...

@final
class Constant:
    """Bytes of which a device has one copy, for all calls: made when the first needs it, unless it reads the host's."""

    def __init__(self, data: bytes) -> None: ...

@final
class Input:
    """One input of a call template, as the device has it.

    With `is_prefix`, the bytes may be fewer than the shape takes. A `view` goes to the operator as it is, or if it
    `is_copied` as a row-major copy that the device makes. The contents of a `constant` are None.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: int,
        *,
        is_prefix: bool = False,
        check: IndexCheck | ArgmaxCheck | BoxCheck | VarianceCheck | BoolCheck | None = None,
        view: View | None = None,
        is_copied: bool = False,
        gathering: Gathering | None = None,
        constant: Constant | None = None,
    ) -> None: ...

@final
class CallTemplate:
    def __init__(
        self,
        symbol: str,
        inputs: Sequence[Input | None],
        attributes: Sequence[bool | int | float | str | Sequence[int] | Bools | None],
        outputs: Sequence[tuple[Sequence[int], int, int, bytes, OutputUse]],
        is_empty: bool = False,
        is_spatial: bool = True,
        is_planned_alone: bool = False,
        untouched: Mapping[int, int] = ...,
        in_place: Mapping[int, InPlace] = ...,
        joins: bool = False,
    ) -> None:
        """An absent input is None.

        `untouched` are inputs, by their numbers, whose memory the operator neither reads nor writes, each with the
        number of an output of the same size: without contents, it gets the address of that output. `in_place` are
        inputs that it would write, by their numbers. A call that `joins` has nothing to do if its inputs lie one behind
        the other in its output.

        `outputs` have a shape, a dtype, a size in bytes, what stands before them in a reply, and what becomes of them.
        Tensors that are not spatial have the format ND, others that of their rank.
        """

    @property
    def key(self) -> bytes:
        """What calls of one form share: the operator, dtypes, shapes, attributes and which outputs are wanted."""
    @property
    def is_short(self) -> bool:
        """Whether a call of this plan was run, and the library said that it takes less time than waking a thread."""

@final
class Cancellation:
    def cancel(self) -> None: ...

@final
class StagedTensor:
    """A tensor that is written or read piece by piece, one piece of work at a time."""

    @property
    def size_bytes(self) -> int: ...
    def first(self, size_bytes: int) -> StagedTensor:
        """Returns the first bytes of the tensor, for an input that is a view of them."""

    def read_file(self, ticket: object, file: int, offset: int, deadline: float) -> None: ...
    def write_file(self, ticket: object, file: int, offset: int, deadline: float) -> None: ...
    def close(self) -> None:
        """Gives the tensor's memory back when no work has it."""

@final
class Place:
    """A part of a lane's arena, where a step writes an output that only steps of the lane read. 64-byte aligned.

    It takes its size rounded up to 32, and 32 bytes more, which kernels may touch. A step's output shares no bytes with
    its inputs.
    """

    def __init__(self, offset: int, size_bytes: int) -> None: ...
    @property
    def offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...

_Sink = tuple[Place | StagedTensor | None, bool]
"""Where the operator writes an output, and whether the reply has it."""
_Step = tuple[CallTemplate, Sequence[Any], bytes, Sequence[_Sink] | None, Sequence[int], Sequence[int]]
"""A plan, its contents, a prefix, sinks, the steps before it whose outputs it uses, and guaranteed inputs.

There is a sink for each wanted output; None stands for sinks in the reply alone. A guaranteed input is on the device,
and its values need no check, because the step that made them guarantees them.
"""
_Lane = tuple[Sequence[int], int, int]
"""Steps of one stream in order, the bytes of their arena, and of the workspace that each may have."""
_Write = tuple[StagedTensor, int, bytes | memoryview]
"""Bytes for a tensor, from this offset on."""
_Read = tuple[StagedTensor, int, bytes, int]
"""The offset from which on a tensor is read, a prefix, and how many bytes stand behind it in the message."""

@final
class Device:
    """A device and its threads. Deadlines are times of `time.monotonic`. Each ticket is returned once.

    When the device closes, calls that have not begun end with a RuntimeError. Closing waits for the others.
    """

    def __init__(
        self,
        library: AclLibrary,
        index: int,
        completions: Completions,
        *,
        pool_limit_bytes: int | None,
        stream_limit: int,
        copy_threads: int = 2,
        copy_stream_limit: int = 32,
        pool_high_water_bytes: int | None = None,
        pool_pass_through: bool = False,
        executor_limit: int = 0,
        deterministic: bool = False,
        hang_timeout_ms: int = 60_000,
        process_count: int = 1,
        pinned_limit_bytes: int = ...,
    ) -> None: ...
    def submit(
        self,
        ticket: object,
        plan: CallTemplate,
        contents: Sequence[Any],
        deadline: float,
        wait_until: float | None = None,
        released_ticket: object = None,
        thread: int | None = None,
        workspace_limit: int = ...,
    ) -> Cancellation:
        """Begins no kernel after the deadline; waits for one that has begun until `wait_until`, if that is given.

        Ends with a WorkspaceError if the operator needs a workspace of more than `workspace_limit` bytes.

        Runs on the thread of that number if one is given: there are as many as streams.

        `released_ticket` is returned when the call holds nothing more: if it is abandoned, later than its ticket.
        """
    def run_short(
        self,
        plan: CallTemplate,
        contents: Sequence[bytes | memoryview | StagedTensor | None],
        deadline: float,
        released_ticket: object,
        workspace_limit: int = ...,
    ) -> bytes | None:
        """Runs a call at once and returns its reply; None if it would have to wait, and then nothing is done.

        The ticket is returned only if the call fails.
        """
    def submit_group(
        self,
        ticket: object,
        steps: Sequence[_Step],
        lanes: Sequence[_Lane],
        deadline: float,
        *,
        wait_until: float | None = None,
        released_ticket: object = None,
        streams: int = ...,
        writes: Sequence[_Write] = ...,
        reads: Sequence[_Read] = ...,
    ) -> Cancellation:
        """Runs the steps, each lane on one of at most so many streams; by default on all.

        Makes the writes before the steps, and the reads after them if none has failed. Completes with the reply, an
        exception or None for each step, and a list of the messages that were read. In the reply each step has its
        prefix and its outputs, whose bytes are undefined if it failed.

        A step that needs one that failed ends with an InputFailedError; all others go on. After the deadline, or once
        cancelled, no further lane begins and no further copy is made. If a write or a read fails, the group does.
        """
    def stage(
        self, ticket: object, released_ticket: object, tensors: Sequence[tuple[int, bool]], deadline: float
    ) -> None:
        """Makes a tensor of each size, in host memory if its flag is set.

        `released_ticket` is returned when the memory of all of them is free, also if making them failed.
        """
    def write(self, ticket: object, writes: Sequence[_Write], deadline: float) -> Cancellation: ...
    def read(self, ticket: object, reads: Sequence[_Read], deadline: float) -> Cancellation:
        """Returns a list of messages."""
    def join(self, ticket: object, pieces: Sequence[bytes | memoryview]) -> None: ...
    def release_finished(self, ticket: object) -> None: ...
    def trim(self, ticket: object) -> None: ...
    def state(self, ticket: object) -> None: ...
    def check_steps(self) -> None: ...
    @property
    def oldest_step_s(self) -> float:
        """How long the longest request to the driver has taken; for a wait, the time since its deadline."""
    @property
    def index(self) -> int: ...
    @property
    def pool_limit_bytes(self) -> int: ...
    @property
    def stops_at_faults(self) -> bool:
        """Whether a fault is a lost device, and nothing runs after it. Otherwise the lane's later steps still run."""
    @property
    def pinned_refusal(self) -> str:
        """Why the host gives no pinned memory, so that copies block; empty if it does, or was not asked."""
    @property
    def soc_name(self) -> str: ...
    @property
    def is_deterministic(self) -> bool: ...
