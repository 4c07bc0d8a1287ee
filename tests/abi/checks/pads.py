"""The gradients of padding, which share their checks; what is special about ReplicationPad2d is in its own table."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Arguments, Order, Refused, Tensor, changing

# Which dims of self may be 0, by rule, axes and rank, as CANN has it.
EMPTY: dict[tuple[str, int], dict[int, tuple[int, ...]]] = {
    ("replication", 1): {2: (), 3: (0,)},
    ("replication", 3): {4: (), 5: (0,)},
    ("reflection", 1): {2: (0,), 3: (0,)},
    ("reflection", 2): {3: (0,), 4: (0,)},
    ("reflection", 3): {4: (), 5: (0,)},
}
BF16 = DataType.BF16


def call(self: tuple[int, ...], padding: tuple[int, ...], kind: DataType = DataType.FLOAT) -> Arguments:
    axes = len(padding) // 2
    added = [before + after for before, after in zip(padding[::2], padding[1::2], strict=True)][::-1]
    padded = [size + more for size, more in zip(self[-axes:], added, strict=True)]
    tensor = Tensor(self, kind)
    return {
        "gradOutput": Tensor((*self[:-axes], *padded), kind), "self": tensor, "padding": padding, "gradInput": tensor,
    }  # fmt: skip


PLANES = (1, 2, 30, 30)
# What Atlas A2 sums BF16 for; over one and three axes phase 1 takes every padding.
SUMS = {
    ("reflection", 2): {
        "BF16 by 7": Refused(call(PLANES, (7, 7, 7, 7), BF16), "", 0),
        "BF16 along rows": Refused(call(PLANES, (20, 9, 0, 0), BF16), "", 0),
        "BF16 by 8": Refused(call(PLANES, (8, 0, 0, 1), BF16), ""),
        "BF16 cropped": Refused(call(PLANES, (-1, 0, 0, 0), BF16), ""),
    },
    ("replication", 1): {"BF16 cropped": Refused(call((2, 3, 4), (-1, 0), BF16), "", 0)},
    ("reflection", 3): {"BF16 cropped": Refused(call((1, 2, 20, 20, 20), (-1, 9, 9, 9, 9, 9), BF16), "", 0)},
}


def order(rule: str, axes: int) -> Order:
    shape = (2, 3, 4, 5, 6)[: axes + 2]
    valid = call(shape, (1, 2, 1, 0, 2, 1)[: 2 * axes])
    but = changing(valid)
    accepted = {"as it is": valid}
    refused = {
        "null comes first": Refused(
            {"gradOutput": Tensor((1,)), "gradInput": None}, "gradInput must not be null", NULL
        ),
        "data type of self": Refused(but("self", data_type=DataType.INT32), "self: expected data type"),
        "gradInput unlike self": Refused(but("gradInput", data_type=DataType.DOUBLE), "gradInput: expected the data"),
        "private format": Refused(but("self", format_=Format.FRACTAL_NZ), "self: expected a plain format"),
        "format of gradOutput": Refused(
            but("gradOutput", format_=Format.ND), "gradOutput: expected the format of self"
        ),
        "format of gradInput": Refused(but("gradInput", format_=Format.ND), "gradInput: expected the format of self"),
        "shape of gradInput": Refused(but("gradInput", shape=(1,)), "gradInput: expected the shape of self"),
        "rank of gradOutput": Refused(but("gradOutput", shape=(1,)), "gradOutput: expected the rank of self"),
        "before the storage": Refused(but("gradInput", offset=-1), "gradInput: expected a view inside its storage"),
    }
    grad_shape = valid["gradOutput"].shape
    for axis, size in enumerate(grad_shape):
        longer = (*grad_shape[:axis], size + 1, *grad_shape[axis + 1 :])
        refused[f"dim {axis} of gradOutput"] = Refused(but("gradOutput", shape=longer), "gradOutput: expected ")
    for rank, allowed in EMPTY[rule, axes].items():
        for axis in range(rank):
            empty = call(tuple(0 if each == axis else 4 for each in range(rank)), (0,) * (2 * axes))
            if axis in allowed:
                accepted[f"rank {rank} with no dim {axis}"] = empty
            else:
                refused[f"rank {rank} with no dim {axis}"] = Refused(empty, "")
    for side in range(2 * axes if rule == "reflection" else 0):
        size = shape[-1 - side // 2]
        accepted[f"side {side} up to the other border"] = call(shape, padding_of(axes, side, size - 1))
        refused[f"side {side} beyond the other border"] = Refused(call(shape, padding_of(axes, side, size)), "")
    return Order(valid, accepted, refused, {Product.ATLAS_A2: SUMS.get((rule, axes), {})})


def padding_of(axes: int, side: int, size: int) -> tuple[int, ...]:
    return tuple(size if each == side else 0 for each in range(2 * axes))


ORDERS = {f"{rule}_pad{axes}d_backward": order(rule, axes) for rule, axes in EMPTY}
