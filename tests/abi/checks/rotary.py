"""The gradients of the rotary position embedding, of (2, 3, 5, 10) with cosines of (1, 1, 5, 10)."""

from aclgrad.products import Product
from tools.abi.acl import DataType

from ..phase_one import NULL, TILING, Changes, Order, Refused, changed, shapes

OF_DY, OF_COS = ("dy", "xOptional", "dxOut"), ("cos", "sin", "dcosOut", "dsinOut")
HUGE = 2**61
P950 = Product.ASCEND_950
UNKNOWN, COLUMNS = "cos: expected dims of dy", "dy: expected an even last dim up to"


def rotary(dy: tuple[int, ...], cos: tuple[int, ...], mode: int = 0) -> Changes:
    return changed(*OF_DY, shape=dy) | changed(*OF_COS, shape=cos) | {"mode": mode}


def on_950(*changes: Changes) -> dict[str, Refused]:
    return {f"taken {number}": Refused(each, "", 0) for number, each in enumerate(changes)}


HEADS = rotary((2, 3, 5, 4), (1, 3, 5, 4))
NO_POSITIONS = rotary((2, 3, 5, 4), (1, 1, 1, 4))
FEW_POSITIONS = rotary((5, 3, 5, 4), (5, 1, 5, 4))
ALL_OF_PAIRS = rotary((2, 3, 5, 4), (2, 3, 5, 4), 1)
BATCH_OF_PAIRS = rotary((2, 3, 5, 4), (2, 1, 5, 4), 1)
LONG = rotary((2, 3, 5, 898), (1, 1, 5, 898))
ORDERS = {
    "rotary_position_embedding_grad": Order(
        accepted={
            "positions, then heads": rotary((2, 3, 5, 4), (1, 3, 1, 4), 1),
            "positions first": rotary((2, 3, 5, 4), (2, 1, 1, 4), 1),
            "positions and batch": rotary((2, 3, 5, 4), (2, 3, 1, 4)),
            "batch, one for all heads": rotary((2, 3, 5, 4), (2, 1, 5, 4)),
            "as many positions as a batch": rotary((3, 3, 5, 4), (3, 3, 1, 4)),
            "nothing shared": rotary((2, 3, 5, 4), (2, 3, 5, 4)),
            "the longest": rotary((2, 3, 5, 896), (1, 1, 5, 896)),
            # No device compares a batch and heads with their limits.
            "a large batch": rotary((2000, 3, 5, 4), (1, 1, 5, 4)),
            "no gradients of cos and sin": {"xOptional": None, **changed("dcosOut", "dsinOut", shape=(1, 1, 1, 0))},
        },
        refused=(
            Refused({"xOptional": None, "dcosOut": None}, "dcosOut must not be null", NULL),
            Refused({"mode": 2}, "mode: expected 0 (half) or 1 (interleave), got 2", TILING),
            Refused({"mode": 256}, "mode: expected 0 (half) or 1 (interleave), got 256", TILING),
            Refused({"mode": -1} | changed("sin", data_type=DataType.FLOAT16), "sin: expected the data type of dy"),
            Refused({"mode": -1} | shapes(sin=(1, 1, 5, 4)), "mode: expected", TILING),
            Refused(shapes(sin=(1, 3, 5, 10)), "sin: expected the shape of cos, [1, 1, 5, 10]", TILING),
            Refused(shapes(xOptional=(2, 3, 5, 8)), "xOptional: expected the shape of dy, [2, 3, 5, 10]", TILING),
            Refused(rotary((2, 3, 5, 5), (1, 1, 5, 5)), COLUMNS, TILING),
            Refused(rotary((2, 3, 5, 1026), (1, 1, 5, 1026)), COLUMNS, TILING),
            Refused(rotary((2, 3, 5, 4), (1, 1, 5, 2)), "cos: expected the last dim of dy, 4", TILING),
            Refused(rotary((2, 3, 5, 4), (1, 1, 4, 4)), UNKNOWN, TILING),
            Refused(rotary((0, 3, 5, 4), (1, 1, 5, 4)), "dy: expected elements", TILING),
            Refused(rotary((2, 3, HUGE, 4), (1, 1, HUGE, 4)), ""),
            *(Refused(each, UNKNOWN, TILING) for each in (HEADS, NO_POSITIONS, FEW_POSITIONS)),
            *(Refused(each, UNKNOWN, TILING) for each in (ALL_OF_PAIRS, BATCH_OF_PAIRS)),
            Refused(LONG, COLUMNS, TILING),
        ),
        otherwise={P950: on_950(HEADS, NO_POSITIONS, FEW_POSITIONS, ALL_OF_PAIRS, BATCH_OF_PAIRS, LONG)},
    ),
}
