"""Exchanges whose tensors may be lent to a server in shared memory, without input or output."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad._client.calls.exchange import Exchange
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorType, TensorView

_Result = TypeVar("_Result")
Key = Hashable
"""An exchange's key of one of its tensors."""
TakeOver = Callable[[Key, TensorView], Array]
"""Returns the array of an output that came in shared memory."""


class Lender(Exchange[_Result]):
    """An exchange whose tensors may be outside its message."""

    __slots__ = ()

    @abstractmethod
    def lendable(self) -> tuple[Mapping[Any, memoryview], Mapping[Any, TensorType]]:
        """Returns the bytes of the inputs, and the types of the returned outputs."""

    @property
    @abstractmethod
    def copies_outputs(self) -> bool:
        """Whether outputs go to arrays of the caller."""

    @abstractmethod
    def request_in(self, shared: Mapping[Any, SharedRange], memory: Mapping[Any, SharedRange]) -> bytes:
        """Returns the message with some inputs, and the places of some outputs, in shared memory."""

    @abstractmethod
    def read_from(self, reply: bytes, take_over: TakeOver | None) -> _Result:
        """Returns the content of the reply, whose outputs may be in shared memory."""

    @abstractmethod
    def chunks_for(self, size_bytes: int) -> ChunkedProgram[_Result] | None:
        """Returns the exchange in chunks, or None if this many bytes of tensors fit a message."""
