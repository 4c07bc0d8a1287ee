"""The order and codes of the checks of the gradients of padding: one row is one mutation of a valid call.

What follows from the operator table alone is in test_table_status.py, and what is special about ReplicationPad2d in a
file of its own.
"""

from dataclasses import replace

import pytest

from tools.abi.acl import DataType, Format, Library

from .phase_one import INVALID, NULL, Arguments, Tensor, phase_one

OPERATORS = [
    ("Replication", 1), ("Replication", 3), ("Reflection", 1), ("Reflection", 2), ("Reflection", 3),
]  # fmt: skip
BF16 = DataType.BF16


def call(self: tuple[int, ...], padding: tuple[int, ...], kind: DataType = DataType.FLOAT) -> Arguments:
    axes = len(padding) // 2
    added = [before + after for before, after in zip(padding[::2], padding[1::2], strict=True)][::-1]
    padded = [size + more for size, more in zip(self[-axes:], added, strict=True)]
    tensor = Tensor(self, kind)
    return {
        "gradOutput": Tensor((*self[:-axes], *padded), kind), "self": tensor, "padding": padding, "gradInput": tensor,
    }  # fmt: skip


def code(acl: Library, operator: tuple[str, int], arguments: Arguments) -> tuple[int, str]:
    rule, axes = operator
    return phase_one(acl, f"aclnn{rule}Pad{axes}dBackward", arguments)


def valid(axes: int) -> Arguments:
    return call((2, 3, 4, 5, 6)[: axes + 2], (1, 2, 1, 0, 2, 1)[: 2 * axes])


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_null_comes_first(acl: Library, operator: tuple[str, int]) -> None:
    arguments = valid(operator[1]) | {"gradOutput": Tensor((1,)), "gradInput": None}
    assert code(acl, operator, arguments) == (NULL, acl.told(f"gradInput must not be null [{NULL}]"))


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("self", {"data_type": DataType.INT32}, "self: expected data type"),
        ("gradInput", {"data_type": BF16}, "gradInput: expected the data type of self"),
        ("self", {"format_": Format.FRACTAL_NZ}, "self: expected a plain format"),
        ("gradOutput", {"format_": Format.ND}, "gradOutput: expected the format of self"),
        ("gradInput", {"format_": Format.ND}, "gradInput: expected the format of self"),
        ("gradInput", {"shape": (1,)}, "gradInput: expected the shape of self"),
        ("gradOutput", {"shape": (1,)}, "gradOutput: expected the rank of self"),
        ("gradInput", {"offset": -1}, "gradInput: expected a view inside its storage"),
    ],
)
def test_a_tensor_is_refused(acl: Library, operator: tuple[str, int], name: str, change: dict, message: str) -> None:
    arguments = valid(operator[1])
    answer, text = code(acl, operator, arguments | {name: replace(arguments[name], **change)})
    assert (answer, text[: len(message)]) == (INVALID, acl.told(message))


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_every_size_of_grad_output_is_compared(acl: Library, operator: tuple[str, int]) -> None:
    arguments = valid(operator[1])
    shape = arguments["gradOutput"].shape
    for axis in range(len(shape)):
        longer = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])
        answer, text = code(acl, operator, arguments | {"gradOutput": Tensor(longer)})
        assert (answer, text[:21]) == (INVALID, acl.told("gradOutput: expected ")), axis


# Which dims of self may be 0, by operator and rank, as CANN has it.
EMPTY = {
    ("Replication", 1): {2: (), 3: (0,)},
    ("Replication", 3): {4: (), 5: (0,)},
    ("Reflection", 1): {2: (0,), 3: (0,)},
    ("Reflection", 2): {3: (0,), 4: (0,)},
    ("Reflection", 3): {4: (), 5: (0,)},
}


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_empty_dims(acl: Library, operator: tuple[str, int]) -> None:
    axes = operator[1]
    for rank, allowed in EMPTY[operator].items():
        for axis in range(rank):
            self = tuple(0 if each == axis else 4 for each in range(rank))
            answer, _ = code(acl, operator, call(self, (0,) * (2 * axes)))
            assert answer == (0 if axis in allowed else INVALID), (rank, axis)


@pytest.mark.parametrize("operator", [each for each in OPERATORS if each[0] == "Reflection"], ids=str)
def test_a_reflection_ends_before_the_other_border(acl: Library, operator: tuple[str, int]) -> None:
    axes = operator[1]
    self = (2, 3, 4, 5, 6)[: axes + 2]
    for side in range(2 * axes):
        size = self[-1 - side // 2]
        for pad, expected in ((size - 1, 0), (size, INVALID)):
            padding = tuple(pad if each == side else 0 for each in range(2 * axes))
            assert code(acl, operator, call(self, padding))[0] == expected


def test_what_bfloat16_is_summed_for(acl: Library) -> None:
    self = (1, 2, 30, 30)
    for padding, expected in {
        (7, 7, 7, 7): 0, (20, 9, 0, 0): 0, (8, 0, 0, 1): INVALID, (-1, 0, 0, 0): INVALID,
    }.items():  # fmt: skip
        assert code(acl, ("Reflection", 2), call(self, padding, BF16))[0] == expected
    # Over one and three axes phase 1 takes every padding.
    assert code(acl, ("Replication", 1), call((2, 3, 4), (-1, 0), BF16))[0] == 0
    assert code(acl, ("Reflection", 3), call((1, 2, 20, 20, 20), (-1, 9, 9, 9, 9, 9), BF16))[0] == 0
