"""Sums, means and largest elements along axes."""

from tools.abi.acl import DataType

from ..phase_one import Order, Refused, shapes

DOUBLE, INT32, BOOL = DataType.DOUBLE, DataType.INT32, DataType.BOOL
VALID = {"self": {"shape": (2, 3, 4)}, "out": {"shape": (3, 4)}}

REDUCE_SUM = Order(
    {
        "all axes": {"dims": (), "out": {"shape": ()}},
        "axes that remain": {"dims": (-1, 0), "keepDims": True, "out": {"shape": (1, 3, 1)}},
        "nothing to add": shapes(self=(0, 3, 4)),
        "other sums": {"dtype": DOUBLE, "out": {"data_type": DOUBLE}},
    },
    (
        *(Refused({"dims": dims}, "dims: expected values from -3 to 2") for dims in ((3,), (-4,))),
        Refused({"dims": (1, -2)}, "dims: expected each axis once"),
        Refused({"dtype": DOUBLE, "dims": (9,)}, "out: expected the data type of dtype"),
        Refused({"keepDims": True}, "out: expected the shape of self without the axes in dims"),
        *(
            Refused({"dtype": kind, "out": {"data_type": kind}}, "dtype: expected a type that holds sums")
            for kind in (INT32, BOOL)
        ),
    ),
    valid={**VALID, "dims": (0,), "keepDims": False},
)

MEAN = Order(
    {
        "all axes": {"dim": (), "out": {"shape": ()}},
        "axes that remain": {"dim": (-1, 0), "keepDim": True, "out": {"shape": (1, 3, 1)}},
        "other means": {"dtype": DataType.FLOAT16, "out": {"data_type": DOUBLE}},
        # Whatever the shape of out is.
        "no elements": shapes(self=(0, 3, 4), out=(5,)),
    },
    (
        *(Refused({"dim": dim}, "dim: expected values from -3 to 2") for dim in ((3,), (-4,))),
        Refused({"dim": (1, -2)}, "dim: expected each axis once"),
        Refused({"dtype": BOOL, "dim": (9,)}, "dtype: expected a data type of self"),
        Refused({"dtype": INT32, "dim": (9,)}, "dtype: expected a type that holds sums"),
        Refused({"out": {"data_type": INT32}, "dim": (9,)}, "out: expected a type that holds"),
        Refused({"keepDim": True}, "out: expected the shape of self without the axes in dim"),
    ),
    valid={**VALID, "dim": (0,), "keepDim": False},
)

AMAX = Order(
    {
        "all axes": {"dim": (), "out": {"shape": ()}},
        "axes that remain": {"dim": (-1, 0), "keepDim": True, "out": {"shape": (1, 3, 1)}},
        "no results": shapes(self=(2, 0, 4), out=(0, 4)),
        # Nothing is written then.
        "no elements": {"dim": (), "self": {"shape": (0, 3, 4)}, "out": {"shape": ()}},
    },
    (
        *(Refused({"dim": dim}, "dim: expected values from -3 to 2") for dim in ((3,), (-4,))),
        Refused({"dim": (1, -2)}, "dim: expected each axis once"),
        Refused(shapes(self=(0, 3, 4)), "dim: expected axes with elements"),
        Refused({"out": {"data_type": INT32}, "dim": (9,)}, "out: expected the data type of self"),
        Refused({"keepDim": True}, "out: expected the shape of self without the axes in dim"),
    ),
    valid={**VALID, "dim": (0,), "keepDim": False},
)

ORDERS = {"amax": AMAX, "mean": MEAN, "reduce_sum": REDUCE_SUM}
