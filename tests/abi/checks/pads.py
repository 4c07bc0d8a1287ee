"""Padding and its gradients."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import INVALID, Changes, Order, Refused, changed, shapes

# Which dims of self may be 0, by rule, axes and rank, as CANN has it.
EMPTY: dict[tuple[str, int], dict[int, tuple[int, ...]]] = {
    ("replication", 1): {2: (), 3: (0,)},
    ("replication", 2): {3: (), 4: (0,)},
    ("replication", 3): {4: (), 5: (0,)},
    ("reflection", 1): {2: (0,), 3: (0,)},
    ("reflection", 2): {3: (0,), 4: (0,)},
    ("reflection", 3): {4: (), 5: (0,)},
}
BF16_LIMIT = "padding: expected values from 0"
PLANES = (1, 2, 30, 30)


def call(self: tuple[int, ...], padding: tuple[int, ...], kind: DataType = DataType.FLOAT) -> Changes:
    axes = len(padding) // 2
    added = [before + after for before, after in zip(padding[::2], padding[1::2], strict=True)][::-1]
    padded = tuple(size + more for size, more in zip(self[-axes:], added, strict=True))
    given = {"gradOutput": (*self[:-axes], *padded), "self": self, "gradInput": self}
    return {name: {"shape": shape, "data_type": kind} for name, shape in given.items()} | {"padding": padding}


def order(rule: str, axes: int) -> Order:
    shape = (2, 3, 4, 5, 6)[: axes + 2]
    accepted: dict[str, Changes] = {}
    refused = [
        Refused(changed("self", data_type=DataType.INT32), "self: expected data type"),
        Refused(changed("self", format_=Format.FRACTAL_NZ), "self: expected a plain format"),
    ]
    for rank, allowed in EMPTY[rule, axes].items():
        for axis in range(rank):
            empty = call(tuple(0 if each == axis else 4 for each in range(rank)), (0,) * (2 * axes))
            if axis in allowed:
                accepted[f"rank {rank} with no dim {axis}"] = empty
            else:
                refused.append(Refused(empty, ""))
    for side in range(2 * axes if rule == "reflection" else 0):
        size = shape[-1 - side // 2]
        accepted[f"side {side} up to the other border"] = call(shape, padding_of(axes, side, size - 1))
        refused.append(Refused(call(shape, padding_of(axes, side, size)), ""))
    if (rule, axes) == ("replication", 2):
        accepted |= REPLICATED
        refused += NOT_REPLICATED
    return Order(accepted=accepted, refused=tuple(refused), otherwise={Product.ATLAS_A2: SUMS.get((rule, axes), {})})


def padding_of(axes: int, side: int, size: int) -> tuple[int, ...]:
    return tuple(size if each == side else 0 for each in range(2 * axes))


def bf16(shape: tuple[int, ...], *padding: int, message: str = "", code: int = 0) -> Refused:
    return Refused(call(shape, padding, DataType.BF16), message, code)


# What Atlas A2 sums BF16 for; over one and three axes phase 1 takes every padding.
SUMS = {
    ("replication", 1): {"BF16 cropped": bf16((2, 3, 4), -1, 0)},
    ("reflection", 3): {"BF16 cropped": bf16((1, 2, 20, 20, 20), -1, 9, 9, 9, 9, 9)},
    ("reflection", 2): {
        "BF16 by 7": bf16(PLANES, 7, 7, 7, 7),
        "BF16 along rows": bf16(PLANES, 20, 9, 0, 0),
        "BF16 by 8": bf16(PLANES, 8, 0, 0, 1, message=BF16_LIMIT, code=INVALID),
        "BF16 cropped": bf16(PLANES, -1, 0, 0, 0, message=BF16_LIMIT, code=INVALID),
    },
}
REPLICATED: dict[str, Changes] = {
    "padding beyond the dims": call((2, 3, 4, 5), (50, 60, 70, 80)),
    "BF16 by 7": call(PLANES, (7, 7, 7, 7), DataType.BF16),
    "BF16 along rows": call(PLANES, (70, 80, 0, 0), DataType.BF16),
    "cropping": call((2, 3, 4, 5), (-1, -2, -3, 2)),
    "gradOutput cropped away": call((2, 3, 4, 5), (-2, -3, 0, 0)),
}
NOT_REPLICATED = (
    bf16(PLANES, -1, 2, 0, 0, message=BF16_LIMIT, code=INVALID),
    bf16(PLANES, 8, 2, 1, 0, message=BF16_LIMIT, code=INVALID),
    bf16(PLANES, 0, 0, 8, 0, message=BF16_LIMIT, code=INVALID),
    Refused(changed("gradInput", data_type=DataType.INT32), "gradInput: expected data"),
    Refused({"padding": (3, 2, 1, 2)}, "gradOutput: expected dim 2"),
    Refused({"padding": (2**63 - 1, 2, 2, 2)}, "gradOutput: expected dim 3"),
    Refused(call((3, 4, 5), (-2, -3, 0, 0)), "gradOutput: expected no empty"),
    Refused(call((1, 1, 2**62, 2**62), (0, 0, 0, 0)), "gradOutput: expected a view"),
)


def padded(self: tuple[int, ...], *padding: int, out: tuple[int, ...] = ()) -> Changes:
    left, right, top, bottom = padding
    expected = (*self[:-2], self[-2] + top + bottom, self[-1] + left + right)
    return shapes(self=self, out=out or expected) | {"padding": padding}


FORWARD: dict[str, Changes] = {
    "no images": padded((0, 3, 4, 5), 1, 1, 1, 1),
    "no images, cropped to nothing": padded((0, 3, 4, 5), -2, -3, 0, 0),
    "cropping": padded((2, 3, 4, 5), -1, -2, -3, 2),
    "cropped to nothing": padded((2, 3, 4, 5), -2, -3, 0, 0),
    "up to the other border": padded((2, 3, 4, 5), 4, 4, 3, 3),
}
NOT_FORWARD = (
    *(Refused(padded(shape, 1, 1, 1, 1), "self: expected no empty") for shape in ((2, 0, 4, 5), (0, 4, 5))),
    Refused(padded((3, 4, 5), -2, -3, 0, 0), "out: expected no empty"),
    Refused(changed("out", format_=Format.NHWC), "out: expected the format of self"),
    Refused({"padding": (2, 2, 2, 1)}, "out: expected dim 2 to be 8 padded by 2 and 1"),
    Refused({"padding": (1, 2, 2, 2)}, "out: expected dim 3 to be 9 padded by 1 and 2"),
    Refused({"padding": (2, 2, -(2**63), -1)}, "out: expected dim 2"),
)
MORE_OF_SELF = "padding: expected less than the last 2 dims of self"
ORDERS = {
    **{f"{rule}_pad{axes}d_backward": order(rule, axes) for rule, axes in EMPTY},
    "replication_pad2d": Order(
        accepted=FORWARD | {"padding beyond the dims": padded((2, 3, 4, 5), 50, 60, 70, 80)},
        refused=(
            *NOT_FORWARD,
            Refused(padded((2, 3, 0, 5), 1, 1, 1, 1), "self: expected no empty"),
            Refused(padded((0, 3, 4, 5), 1, 1, 1, 1, out=(5, 3, 6, 7)), "out: expected"),
            # Formats are compared before types, and these before shapes.
            Refused(changed("out", format_=Format.NHWC, data_type=DataType.INT32), "out: expected the format"),
        ),
    ),
    "reflection_pad2d": Order(
        # The other dims are compared when it is planned.
        accepted=FORWARD | {"other images, of none": padded((0, 3, 4, 5), 1, 1, 1, 1, out=(5, 3, 6, 7))},
        refused=(
            *NOT_FORWARD,
            *(Refused(padded((2, 3, 4, 5), *padding), MORE_OF_SELF) for padding in ((5, 0, 0, 0), (0, 0, 0, 4))),
            Refused(padded((2, 3, 4, 5), 1, 1, 1, 1, out=(2, 4, 6, 7)), "out: expected"),
            Refused(changed("out", format_=Format.NHWC, data_type=DataType.INT32), "out: expected the data type"),
        ),
    ),
}
