"""Where a tensor's elements come from and go to: the source of an input, and the sink of an output.

Both types are closed. Code never asks for the kind: differences between kinds are methods or constants here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from aclgrad.v1 import tensor_pb2


class Source:
    """The source of an input's elements."""

    __slots__ = ()
    has_values: ClassVar[bool] = True
    is_beside: ClassVar[bool] = False
    """Whether the elements come outside the message, and so need memory before their step runs."""
    in_chunks: ClassVar[bool] = False
    """Whether the client decides how long the transfer takes."""

    nbytes: int
    data: memoryview | None = None
    """The bytes, if they are in the message and available here."""

    @property
    def shared(self) -> "SharedRange | None":
        """The range of shared memory with the bytes."""
        return None

    @property
    def step(self) -> int | None:
        """The earlier step that makes it."""
        return None

    @property
    def output_name(self) -> str:
        """The name of that output."""
        return ""

    @property
    def entry(self) -> int | None:
        """Its position in the program's table of tensors."""
        return None

    def content(self, payloads: Sequence[memoryview]) -> memoryview | None:
        """Returns the bytes if they are in the message, from its payloads or its own."""
        return None

    def write(self, tensor: tensor_pb2.Tensor) -> None:
        """Sets the tensor's source field; bytes in the message are written after the tensor instead.

        Raises TypeError if the source has no form on the wire.
        """


class Sink:
    """The sink of an output's elements."""

    __slots__ = ()
    in_reply: ClassVar[bool] = False
    """Whether they go into the reply itself, and not to separate memory."""
    in_chunks: ClassVar[bool] = False
    """Whether the client decides how long the transfer takes."""

    @property
    def shared(self) -> "SharedRange | None":
        """The range of shared memory for the bytes."""
        return None


@dataclass(frozen=True, slots=True)
class InMessage(Source):
    """A payload of a message: its bytes, or its number in the message."""

    nbytes: int
    index: int = 0
    data: memoryview | None = None

    def content(self, payloads: Sequence[memoryview]) -> memoryview:
        return payloads[self.index] if self.data is None else self.data


def in_message(view: memoryview) -> InMessage:
    """Returns the source of bytes in the message."""
    return InMessage(view.nbytes, 0, view)


@dataclass(frozen=True, slots=True)
class InChunks(Source):
    """The tensor at this position in the table, which comes in chunks."""

    is_beside = in_chunks = True

    index: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class SharedRange(Source, Sink):
    """A range of a POSIX shared-memory object; `name` is its name for shm_open."""

    is_beside = True

    name: str
    offset: int
    nbytes: int

    @property
    def shared(self) -> "SharedRange":
        return self

    def write(self, tensor: tensor_pb2.Tensor) -> None:
        tensor.shared_memory.CopyFrom(self.message())

    def message(self) -> tensor_pb2.SharedMemory:
        return tensor_pb2.SharedMemory(name=self.name, offset_bytes=self.offset, size_bytes=self.nbytes)

    def overlaps(self, other: "SharedRange") -> bool:
        """Whether a byte is in both ranges."""
        end = min(self.offset + self.nbytes, other.offset + other.nbytes)
        return self.name == other.name and max(self.offset, other.offset) < end


@dataclass(frozen=True, slots=True)
class OutputOf(Source):
    """An output of an earlier step of the program, or its first `nbytes`."""

    is_beside = True

    producer: int
    output: str
    nbytes: int

    @property
    def step(self) -> int:
        return self.producer

    @property
    def output_name(self) -> str:
        return self.output

    def write(self, tensor: tensor_pb2.Tensor) -> None:
        tensor.output_of.CopyFrom(self.message())

    def message(self) -> tensor_pb2.OutputOf:
        return tensor_pb2.OutputOf(step=self.producer, output=self.output)


@dataclass(frozen=True, slots=True)
class TableEntry(Source):
    """A tensor of the program's table, which several steps may use, or its first `nbytes`."""

    index: int
    nbytes: int

    @property
    def entry(self) -> int:
        return self.index

    def write(self, tensor: tensor_pb2.Tensor) -> None:
        tensor.table_index = self.index


@dataclass(frozen=True, slots=True)
class _ShapeOnly(Source):
    has_values = False

    nbytes: int = 0


class _Reply(Sink):
    __slots__ = ()
    in_reply = True


class _Nowhere(Sink):
    __slots__ = ()


class _Chunks(Sink):
    __slots__ = ()
    in_chunks = True


SHAPE_ONLY: Final[Source] = _ShapeOnly()
"""No elements: the operator does not read them."""
REPLY: Final[Sink] = _Reply()
"""A section of the reply."""
NOWHERE: Final[Sink] = _Nowhere()
"""Only later steps use them."""
CHUNKS: Final[Sink] = _Chunks()
"""Separate messages."""
