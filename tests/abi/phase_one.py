"""Phase 1 of an operator as data: its arguments, its answer, and mutations of one valid call."""

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple

from aclgrad.products import Product
from tools.abi.acl import DataType, Format, Library, Scalar

NULL, INVALID, TILING = 161001, 161002, 561002


@dataclass(frozen=True)
class Tensor:
    """The arguments of aclCreateTensor."""

    shape: tuple[int, ...]
    data_type: DataType = DataType.FLOAT
    format_: Format = Format.NCHW
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage: tuple[int, ...] | None = None


# By the names of the parameters, in their order; an array is a tuple, and None is a null pointer.
Arguments = dict[str, Tensor | Scalar | tuple[int, ...] | int | float | bool | str | None]


class Refused(NamedTuple):
    """What is changed about the valid call, how the message begins and the code that it earns."""

    changes: Arguments
    message: str
    code: int = INVALID


class Row(NamedTuple):
    """One call, the code that it earns and how the message begins."""

    arguments: Arguments
    code: int = 0
    message: str = ""


class Order(NamedTuple):
    """The order and the codes of an operator's checks: mutations of a valid call.

    `otherwise` has rows that a product answers in another way, or that only it has.
    """

    valid: Arguments
    accepted: dict[str, Arguments]
    refused: dict[str, Refused]
    otherwise: dict[Product, dict[str, Refused]]

    def rows(self, product: Product) -> dict[str, Row]:
        rows = {name: Row(self.valid | changes) for name, changes in self.accepted.items()}
        for name, each in (*self.refused.items(), *self.otherwise.get(product, {}).items()):
            given = rows[name].arguments if name in rows else self.valid
            rows[name] = Row(given | each.changes, each.code, each.message)
        return rows


def changing(valid: Arguments) -> Callable[..., Arguments]:
    """Returns a function that changes something about tensors of the valid call."""

    def but(*names: str, **changes: object) -> Arguments:
        return {name: replace(valid[name], **changes) for name in names}

    return but


def phase_one(acl: Library, name: str, arguments: Arguments) -> tuple[int, str]:
    """Returns the code and the message."""
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    with ExitStack() as stack:
        values = []
        for argument in arguments.values():
            if isinstance(argument, Tensor):
                tensor = acl.describe(
                    argument.shape, argument.data_type, format_=argument.format_, strides=argument.strides,
                    offset=argument.offset, storage=argument.storage,
                )  # fmt: skip
                values.append(stack.enter_context(tensor))
            else:
                values.append(stack.enter_context(acl.value(argument)))
        code = getattr(acl, name + "GetWorkspaceSize")(*values, ctypes.byref(size), ctypes.byref(executor))
    if code == 0:
        acl.call("aclDestroyAclOpExecutor", executor)
        return 0, ""
    assert executor.value is None
    if "texts" not in acl.abilities:
        acl.message()
        return code, ""
    function, message = acl.message().split(": ", 1)
    assert function == name + "GetWorkspaceSize"
    return code, message
