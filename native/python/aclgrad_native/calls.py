"""The form of an operator call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aclgrad_native._native import ReplyPart, StagedTensor

OperatorInput = tuple[Sequence[int], int, "bytes | memoryview | StagedTensor | None"]
"""Shape, aclDataType and content; without content the values are unspecified."""

OperatorCall = tuple[
    str, Sequence[OperatorInput], Sequence[bool | int | float | Sequence[int]], Sequence[int], int,
    "ReplyPart | StagedTensor", Sequence[int],
]  # fmt: skip
"""Symbol of phase 2, inputs and attributes in aclnn order, shape and aclDataType of the output and where it goes, and
the positions of the inputs whose content may end early."""
