"""Placeholders: inputs of a program whose arrays are given to each run."""

from aclgrad.sources import InMessage
from aclgrad.tensors import DType, TensorType


class Placeholder:
    """Stands in the table of a program for an array of this type. Each is distinct, whatever its type."""

    __slots__ = ("number", "place", "size_bytes", "source", "type")

    def __init__(self, number: int, type: TensorType, place: str = "") -> None:
        self.number = number
        """Its position among the program's placeholders."""
        self.type = type
        self.place = place
        """Where the caller made it; may be empty."""
        self.size_bytes = type.size_bytes
        self.source = InMessage(self.size_bytes)
        """The number of its bytes in a message."""

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __str__(self) -> str:
        return f"placeholder {self.number}"

    @property
    def label(self) -> str:
        """Its name, its type, and where it was made."""
        return f"{self}, {self.type}{self.place and f' of {self.place}'}"
