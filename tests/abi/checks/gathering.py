"""What is taken from tensors, or added to them, by positions."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Scalar

from ..phase_one import Order, Refused, changed, shapes

LATE = 561103
"""Of what a device finds when it copies its result."""

EMBEDDING = Order(
    {"nothing": shapes(indices=(0, 7), out=(0, 7, 3)), "no weight": shapes(weight=(0, 16))},
    (
        Refused(changed("indices", data_type=DataType.INT8), "indices: expected data type"),
        Refused(shapes(out=(3, 7)), "out: expected one dim more"),
        Refused(shapes(out=(3, 8, 16)), "out: expected"),
        Refused(shapes(out=(3, 7, 15)), "out: expected the last dim to be that of weight", LATE),
        Refused(shapes(weight=(10, 4, 4)), "weight: expected rank 2", LATE),
    ),
)

INDEX_SELECT = Order(
    {
        "scalar": {**shapes(self=(), index=(), out=()), "dim": -1},
        "nothing": shapes(self=(0, 9)),
        "no positions": shapes(index=(0,), out=(7,)),
    },
    (
        *(Refused({"dim": dim}, "dim: expected a value from -2 to 1") for dim in (2, -3)),
        Refused(shapes(index=(5, 1)), "index: expected rank 0 or 1"),
        Refused(shapes(out=(5, 8)), "out: expected the shape of self with"),
        Refused({**shapes(self=(), index=(2,), out=()), "dim": 0}, "index: expected one element"),
        Refused({**shapes(self=(), out=(1,)), "dim": 0}, "out: expected rank 0"),
    ),
)

GATHER = Order(
    {
        "scalar": {**shapes(self=(), index=(), out=()), "dim": -1},
        "of a scalar": {**shapes(self=(), index=(4,), out=(4,)), "dim": 0},
        "nothing": shapes(index=(0, 12), out=(0, 12)),
        # Then its type is not looked at.
        "nothing of another type": {**shapes(out=(0, 12)), "index": {"shape": (0, 12), "data_type": DataType.FLOAT}},
        "fewer rows": shapes(index=(3, 12), out=(3, 12)),
    },
    (
        *(Refused({"dim": dim}, "dim: expected a value from -2 to 1") for dim in (2, -3)),
        Refused(shapes(index=(5, 12), out=(5, 12)), "index: expected at most the dims of self"),
        Refused(shapes(self=(4, 0)), "index: expected at most the dims of self"),
        Refused(shapes(index=(4,), out=(4,)), "index: expected the rank of self"),
    ),
)

SCATTER_ADD = Order(
    {
        "no positions": shapes(index=(0, 12), src=(7,)),
        "fewer rows": shapes(index=(3, 5)),
        "scalar": {**shapes(self=(), index=(), src=(), out=()), "dim": -1},
    },
    (
        *(Refused({"dim": dim}, "dim: expected a value from -2 to 1") for dim in (2, -3)),
        Refused(shapes(index=(4, 13)), "index: expected at most the dims of src"),
        Refused(shapes(index=(5, 12), src=(5, 12)), "index: expected at most the dims of self"),
        Refused(shapes(index=(4,)), "index: expected the rank of self"),
        Refused(shapes(out=()), "out: expected the shape of self", LATE),
        Refused({**shapes(index=(0, 12)), "out": {"shape": (4, 8)}}, "out: expected the shape of self", LATE),
        Refused({**shapes(self=(), index=(1,), src=(1,), out=()), "dim": 0}, "index: expected the rank of self"),
    ),
    {
        Product.ASCEND_950: {
            # It takes a scalar for one element.
            "one element": Refused({**shapes(self=(), index=(1,), src=(1,), out=()), "dim": 0}, "", 0),
        }
    },
)

INDEX_ADD = Order(
    {
        "no slices": shapes(index=(0,), source=(0, 9)),
        "scalar": {**shapes(self=(), index=(1,), source=(), out=()), "dim": -1},
        "one element": {**shapes(self=(), index=(), source=(1,), out=()), "dim": 0},
        "other factors": {"alpha": Scalar(2, "int64")},
    },
    (
        *(Refused({"dim": dim}, "dim: expected a value from -2 to 1") for dim in (2, -3)),
        Refused(shapes(index=(4,)), "index: expected an element for each of 5 slices"),
        Refused(shapes(index=(5, 1)), "index: expected rank 0 or 1"),
        Refused(shapes(source=(5, 8)), "source: expected dim 1"),
        Refused(shapes(source=(5,)), "source: expected the rank of self"),
        Refused({"alpha": Scalar(1j, "complex64")}, "alpha: expected a real number"),
    ),
)

ORDERS = {
    "embedding": EMBEDDING,
    "gather": GATHER,
    "index_add": INDEX_ADD,
    "index_select": INDEX_SELECT,
    "scatter_add": SCATTER_ADD,
}
