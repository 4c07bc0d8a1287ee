"""Products of matrices, and sums along axes."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format, Scalar

from ..phase_one import NULL, Changes, Order, Refused, changed, shapes

HALF, BF16, DOUBLE = DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
MATRICES = {"self": (2, 3), "mat2": (3, 4), "out": (2, 4)}
BATCHES = {"self": (5, 2, 3), "mat2": (5, 3, 4), "out": (5, 2, 4)}
ADDED = {"self": (4,), "mat1": (2, 3), "mat2": (3, 4), "out": (2, 4)}


def product(valid: dict[str, tuple[int, ...]], accepted: dict[str, Changes], *own: Refused) -> Order:
    """Returns what all products check, and a product's own checks, in their order."""
    tensors = [*valid]
    first = tensors[-3]
    wide_sums = changed(*tensors[:-1], data_type=HALF)
    refused = (
        *(Refused({name: None}, f"{name} must not be null", NULL) for name in tensors),
        *(Refused(changed(name, data_type=DOUBLE), f"{name}: expected data type") for name in tensors),
        *(Refused({"cubeMathType": value}, "cubeMathType: expected a value from 0 to 3") for value in (-1, 4, 127)),
        # The order: types, cubeMathType, ranks, sizes, and what devices do not check.
        Refused({"cubeMathType": 4, **changed("out", data_type=DOUBLE)}, "out: expected data type"),
        Refused({"cubeMathType": 4, **shapes(mat2=(3,) * 7)}, "cubeMathType"),
        Refused(shapes(mat2=(3,) * 7, out=(9,)), "mat2: expected rank"),
        Refused(shapes(**{first: (*valid[first][:-1], 7)}, out=(9,)), "mat2: expected dim"),
        Refused(changed("mat2", data_type=HALF) | shapes(out=(9,)), "out: expected"),
        Refused(shapes(out=(8,)), "out: expected"),
        Refused(changed("mat2", data_type=HALF), "mat2: expected the data type of"),
        Refused(changed("out", data_type=HALF), "out: expected the data type of"),
        *own,
    )
    old = {
        "BF16": Refused(changed(*tensors, data_type=BF16), f"{tensors[0]}: expected data type"),
        **{f"mode {mode}": Refused({"cubeMathType": mode}, "cubeMathType: expected 1 or 2") for mode in (0, 3)},
        **{f"FLOAT sums, mode {mode}": Refused({**wide_sums, "cubeMathType": mode}, "", 0) for mode in (0, 3)},
    }
    modes: dict[str, Changes] = {f"mode {mode}": {"cubeMathType": mode} for mode in range(4)}
    every = {"halves": changed(*tensors, data_type=HALF), "FLOAT sums": wide_sums}
    return Order(
        {**every, **modes, **accepted},
        refused,
        {Product.ATLAS_TRAINING: old, Product.ATLAS_INFERENCE: old},
        valid={**shapes(**valid), "cubeMathType": 1},
    )


def of_shapes(*names: str, **cases: tuple[tuple[int, ...], ...]) -> dict[str, Changes]:
    return {name: shapes(**dict(zip(names, given, strict=True))) for name, given in cases.items()}


MM = product(
    MATRICES,
    of_shapes(*MATRICES, no_rows=((0, 3), (3, 4), (0, 4)), no_depth=((2, 0), (0, 4), (2, 4))),
    Refused(shapes(self=(5, 2, 3)), "self: expected rank 2"),
    Refused(shapes(mat2=(3,)), "mat2: expected rank 2"),
)

MATMUL = product(
    BATCHES,
    of_shapes(
        *BATCHES,
        vectors=((3,), (3,), ()),
        vector_first=((3,), (5, 3, 4), (5, 4)),
        vector_last=((6, 5, 2, 3), (3,), (6, 5, 2)),
        batches=((6, 1, 2, 3), (5, 3, 4), (6, 5, 2, 4)),
        six=((1, 1, 2, 2, 2, 3), (3, 4), (1, 1, 2, 2, 2, 4)),
        empty=((0, 2, 3), (3, 4), (0, 2, 4)),
        no_depth=((5, 2, 0), (0, 4), (5, 2, 4)),
    ),
    Refused(shapes(self=(), out=(9,)), "self: expected rank"),
    Refused(shapes(mat2=(2,)), "mat2: expected dim 0"),
    Refused(shapes(mat2=(4, 3, 4)), "mat2: expected batch dims"),
    # As many elements as the product.
    *(Refused(shapes(out=shape), "out: expected the shape") for shape in ((5, 4, 2), (40,), (1, 5, 2, 4))),
)

BATCH_MAT_MUL = product(
    BATCHES,
    of_shapes(
        *BATCHES,
        one_first=((1, 2, 3), (5, 3, 4), (5, 2, 4)),
        one_last=((5, 2, 3), (1, 3, 4), (5, 2, 4)),
        no_depth=((1, 2, 0), (5, 0, 4), (5, 2, 4)),
        empty=((0, 2, 3), (0, 3, 4), (0, 2, 4)),
    ),
    Refused(shapes(self=(2, 3)), "self: expected rank 3"),
    Refused(shapes(self=(4, 2, 3)), "mat2: expected batch dims"),
)

ADDMM = product(
    ADDED,
    {
        **of_shapes("self", one=((1,),), column=((2, 1),), whole=((2, 4),)),
        **of_shapes("mat1", "mat2", "out", no_depth=((2, 0), (0, 4), (2, 4))),
        # Any empty result will do.
        "no_rows": shapes(mat1=(0, 3), out=(7, 0)),
        "integers": {"beta": Scalar(2, "int64"), "alpha": Scalar(True, "bool")},
    },
    Refused({"alpha": Scalar(1j, "complex64")}, "alpha: expected a real number"),
    *(Refused(shapes(self=shape), "self: expected rank 1 or 2") for shape in ((), (1, 2, 4))),
    *(Refused(shapes(self=shape), "self: expected a shape") for shape in ((2,), (3, 4), (1, 0), (0,))),
    Refused(changed("self", data_type=HALF), "self: expected the data type of mat1"),
    Refused(changed("self", shape=(7,), format_=Format.FRACTAL_NZ), "self: expected a plain format"),
)

ORDERS = {"mm": MM, "matmul": MATMUL, "batch_mat_mul": BATCH_MAT_MUL, "addmm": ADDMM}
