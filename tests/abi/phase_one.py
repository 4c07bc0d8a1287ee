"""Phase 1 of an operator as data: its arguments, its answer, and mutations of one valid call."""

import ctypes
import re
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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


Tensors = tuple[Tensor | None, ...]

# By the names of the parameters, in their order; an array is a tuple, and None is a null pointer.
Arguments = dict[str, Tensor | Tensors | Scalar | tuple[int, ...] | int | float | bool | str | None]


Changes = dict[str, Tensor | Tensors | Scalar | tuple[int, ...] | int | float | bool | str | dict[str, Any] | None]
"""Arguments in place of a valid call's; a dict has fields of a tensor."""


class Refused(NamedTuple):
    """What is changed about the valid call, how the message begins and the code that it earns."""

    changes: Changes
    message: str
    code: int = INVALID


class Row(NamedTuple):
    """One call, the code that it earns and how the message begins."""

    arguments: Arguments
    code: int = 0
    message: str = ""


@dataclass(frozen=True)
class Order:
    """Calls of an operator that the table does not derive: changes of its first sample, after those of `valid`.

    `otherwise` has what a product answers in another way, under the names of accepted calls or their own; `like` has
    tensors that the sample leaves out, each with one that it resembles.
    """

    accepted: dict[str, Changes] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()
    otherwise: dict[Product, dict[str, Refused]] = field(default_factory=dict)
    valid: Changes = field(default_factory=dict)
    like: dict[str, str] = field(default_factory=dict)

    def rows(self, sample: Arguments, product: Product) -> dict[str, Row]:
        alike = {name: sample[other] for name, other in self.like.items()}
        valid = with_changes({**sample, **alike}, self.valid)
        rows = {name: Row(with_changes(valid, changes)) for name, changes in self.accepted.items()}
        otherwise = self.otherwise.get(product, {})
        replaced = [each.changes for each in otherwise.values()]
        refused = [each for each in self.refused if each.changes not in replaced]
        for name, each in (
            {f"{number} {each.message}": each for number, each in enumerate(refused)} | otherwise
        ).items():
            rows[name] = Row(with_changes(valid, each.changes), each.code, each.message)
        return rows


def with_changes(valid: Arguments, changes: Changes) -> Arguments:
    resolved = {
        name: replace(valid[name], **each) if isinstance(each, dict) else each for name, each in changes.items()
    }
    return {**valid, **resolved}


def changed(*names: str, **fields: object) -> Changes:
    """Changes something about these tensors."""
    return {name: fields for name in names}


def shapes(**given: tuple[int, ...]) -> Changes:
    return {name: {"shape": shape} for name, shape in given.items()}


def create(acl: Library, tensor: Tensor) -> ctypes.c_void_p:
    """Returns an aclTensor without memory, which the caller destroys."""
    return acl.create_tensor(
        tensor.shape, tensor.data_type, format_=tensor.format_, strides=tensor.strides,
        offset=tensor.offset, storage=tensor.storage,
    )  # fmt: skip


def phase_one(acl: Library, name: str, arguments: Arguments) -> tuple[int, str]:
    """Returns the code and the message."""
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    with ExitStack() as stack:
        values = []
        for argument in arguments.values():
            if isinstance(argument, Tensor):
                handle = create(acl, argument)
                stack.callback(acl.call, "aclDestroyTensor", handle)
                values.append(handle)
            elif isinstance(argument, tuple) and any(isinstance(each, Tensor) for each in argument):
                tensors = [each and create(acl, each) for each in argument]
                values.append(stack.enter_context(acl.tensor_list(tensors)))
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


def wrong_answers(acl: Library, symbol: str, rows: dict[str, Row]) -> dict[str, tuple[object, ...]]:
    """Returns the rows that are answered otherwise; a refusal of a tensor or an attribute names one."""
    wrong = {}
    for name, (arguments, code, message) in rows.items():
        got = phase_one(acl, symbol, arguments)
        is_named = re.split("[:, ]", got[1])[0] in arguments or got[1].startswith("there is no tensor")
        is_right = got[1].startswith(acl.told(message)) and (is_named or message != "" or code == 0)
        if got[0] != code or not is_right:
            wrong[name] = (got, code, message)
    return wrong
