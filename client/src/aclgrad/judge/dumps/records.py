"""Findings about the calls of a dump: a row for each forward or backward pass, in rows.jsonl and in reports."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Self

from aclgrad.judge.findings.rows import Element, Verdict

TRAINING: Final = "training"
"""The recorded side."""
SERVER: Final = "server"
"""The side that a server computes from the same inputs."""
ARRIVES_OTHERWISE: Final = "another gradient arrives"
LAST_STEP: Final = "the dump has only the last step of this function's backward pass"
NOT_RECORDED: Final = "training is not judged"
_LONGEST_REASON: Final = 300
"""Most characters."""
PICTURE_SIDE: Final = 24
"""The most rows and columns of a picture."""

Picture = tuple[str, ...]
"""Rows of digits: the largest error of a part of the tensor, from 0 (exact) through 5 (the limit) to 9 (1e4 of it)."""


@dataclass(frozen=True, slots=True)
class Side:
    """One computation of a tensor, compared with the truth. Errors are absolute; None means not finite."""

    verdict: Verdict
    message: str = ""
    error: float | None = 0.0
    """The error of the element with the largest share of its limit."""
    limit: float = 0.0
    """The limit there."""
    outside: int = 0
    """The number of elements beyond their limits."""
    worst: tuple[Element, ...] = ()
    picture: Picture = ()
    """The picture of a failed side, with the tensor as rows and columns: its last axis, and all others together."""

    @property
    def of_limit(self) -> float:
        """The error as a share of the limit."""
        if self.error is None:
            return float("inf")
        return self.error / self.limit if self.limit else (float("inf") if self.error else 0.0)

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"verdict": self.verdict, "error": self.error, "limit": self.limit}
        more = {
            "message": self.message,
            "outside": self.outside,
            # JSON has only finite numbers.
            "worst": [[each.index, repr(each.computed), repr(each.expected)] for each in self.worst],
            "picture": self.picture,
        }
        return fields | {name: each for name, each in more.items() if each}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        worst = tuple(Element(tuple(place), float(a), float(b)) for place, a, b in fields.get("worst", ()))
        return cls(
            Verdict(fields["verdict"]),
            str(fields.get("message", "")),
            fields["error"],
            fields["limit"],
            int(fields.get("outside", 0)),
            worst,
            tuple(fields.get("picture", ())),
        )


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One result of a call: an output of its forward pass, or the gradient of one of its inputs."""

    name: str
    """For example "output.0", or "gradient of input.1"."""
    dtype: str
    shape: tuple[int, ...]
    pytorch_error: float | None
    """The largest error of PyTorch's own run in the call's dtype; None without one."""
    sides: Mapping[str, Side]
    argument: int | None = None
    """For a gradient: the position of its tensor among the arguments' tensors, if it has one."""
    result: int | None = None
    """For a result of the forward pass: its position among the returned tensors."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def to_json(self) -> dict[str, Any]:
        sides = {name: side.to_json() for name, side in self.sides.items()}
        fields = {"name": self.name, "dtype": self.dtype, "shape": self.shape, "pytorch_error": self.pytorch_error}
        places = {"argument": self.argument, "result": self.result}
        return {**fields, "sides": sides} | {name: each for name, each in places.items() if each is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        sides = {str(name): Side.from_json(each) for name, each in fields["sides"].items()}
        shape, places = tuple(fields["shape"]), (fields.get("argument"), fields.get("result"))
        return cls(str(fields["name"]), str(fields["dtype"]), shape, fields["pytorch_error"], sides, *places)


class Digests(NamedTuple):
    """Digests of tensors' values; empty for small tensors, which are often equal by chance."""

    inputs: tuple[str, ...] = ()
    """The tensors among the arguments, and for a backward pass, the gradients given to it."""
    wrong: tuple[str, ...] = ()
    """The wrong results."""
    outputs: tuple[str, ...] = ()
    """The results of a forward pass."""


_NO_DIGESTS: Final = Digests()


@dataclass(frozen=True, slots=True)
class CallRow:
    """A forward or backward pass of one call: one entry of a dump."""

    index: int
    """The position of the entry in its dump, in the order of execution."""
    place: str
    """The dump: "step0/rank0", or empty if there is only one."""
    name: str
    """The entry's name, for example "Functional.conv2d.3.backward"."""
    verdict: Verdict
    """The worst of all sides of its tensors; SKIPPED if nothing was judged."""
    message: str
    """Why it was not judged, or a note."""
    tensors: tuple[TensorRow, ...] = ()
    inputs_are_off: bool = False
    """Whether one of its inputs is a wrong result of an earlier call."""
    unserved: str = ""
    """Why a server has not computed this pass; empty if it has, or without a server."""
    digests: Digests = _NO_DIGESTS
    seconds: float = 0.0
    is_damaged: bool = False
    """Whether a file of its tensors is missing or broken."""

    @property
    def api(self) -> str:
        """The function, "Functional.conv2d", or the class of a module, "Module.Conv2d"."""
        if self.name.startswith("Module."):
            return f"Module.{self.name.rsplit('.', 3)[1]}"
        return self.name.rsplit(".", 2)[0]

    @property
    def is_backward(self) -> bool:
        return not is_forward(self.name)

    @property
    def kind(self) -> str:
        """The pass: "forward" or "backward"."""
        return "backward" if self.is_backward else "forward"

    def has(self, side: str) -> bool:
        """Returns whether this side of one of its tensors was judged."""
        return any(side in each.sides for each in self.tensors)

    @property
    def worst(self) -> tuple[TensorRow, str, Side] | None:
        """The tensor and the side with the largest share of its limit, among those with the row's verdict."""
        found = [
            (tensor, name, side)
            for tensor in self.tensors
            for name, side in tensor.sides.items()
            if side.verdict is self.verdict
        ]
        return max(found, key=lambda each: each[2].of_limit, default=None)

    def to_json(self) -> dict[str, Any]:
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return own | {"tensors": [each.to_json() for each in self.tensors], "seconds": round(self.seconds, 4)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError if the object is not a row."""
        return cls(
            int(fields["index"]),
            str(fields["place"]),
            str(fields["name"]),
            Verdict(fields["verdict"]),
            str(fields["message"]),
            tuple(TensorRow.from_json(each) for each in fields["tensors"]),
            bool(fields["inputs_are_off"]),
            str(fields["unserved"]),
            Digests(*(tuple(map(str, each)) for each in fields["digests"])),
            float(fields["seconds"]),
            bool(fields["is_damaged"]),
        )


def is_forward(name: str) -> bool:
    """Returns whether an entry of a dump is a forward pass; names of modules end with a number."""
    return name.endswith(".forward") or ".forward." in name


def in_order(rows: Sequence[CallRow]) -> list[CallRow]:
    """Returns the rows in the order of execution, dump by dump."""
    places = {place: number for number, place in enumerate(dict.fromkeys(row.place for row in rows))}
    return sorted(rows, key=lambda row: (places[row.place], row.index))


def line_of(text: str) -> str:
    """Returns one line for a terminal: a reason may quote anything from a dump."""
    line = " ".join(text.split())[:_LONGEST_REASON]
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
