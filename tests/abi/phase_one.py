"""Phase 1 of an operator as data: a status test mutates one valid call."""

import ctypes
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from tools.abi.acl import DataType, Format, Library

NULL, INVALID = 161001, 161002


@dataclass(frozen=True)
class Tensor:
    """The arguments of aclCreateTensor."""

    shape: tuple[int, ...]
    data_type: DataType = DataType.FLOAT
    format_: Format = Format.NCHW
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage: tuple[int, ...] | None = None


# By the names of the parameters, in their order; an integer array is a tuple, and None is a null pointer.
Arguments = dict[str, Tensor | tuple[int, ...] | int | float | bool | None]


class Refused(NamedTuple):
    """What is changed about the valid call, how the message begins and the code that it earns."""

    changes: Arguments
    message: str
    code: int = INVALID


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
            elif isinstance(argument, tuple):
                values.append(stack.enter_context(acl.int_array(argument)))
            else:
                values.append(argument)
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


def assert_refused(acl: Library, name: str, valid: Arguments, row: Refused) -> None:
    code, message = phase_one(acl, name, {**valid, **row.changes})
    assert (code, message[: len(row.message)]) == (row.code, acl.told(row.message))


def assert_accepted(acl: Library, name: str, valid: Arguments, changes: Arguments) -> None:
    assert phase_one(acl, name, {**valid, **changes}) == (0, "")
