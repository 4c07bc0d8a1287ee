"""Losses: of each element by itself, and of classes."""

from aclgrad.products import Product
from tools.abi.acl import DataType

from ..phase_one import NULL, Changes, Order, Refused, changed, shapes

FLOAT16, BF16, DOUBLE = DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
HUGE = 2**62
WITHOUT_BF16 = (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE)
NAN = float("nan")


# The negative log likelihood of (6, 10).


def rows(rows: int, classes: int) -> Changes:
    return shapes(self=(rows, classes), target=(rows,), weight=(classes,))


EACH = {"reduction": 0, **shapes(out=(6,))}
ONE_ROW = shapes(self=(10,), target=(), out=())
MEAN: Changes = {"reduction": 1, **shapes(out=())}
NLL_LOSS = Order(
    valid=MEAN,
    accepted={
        "a loss for each row": EACH,
        "one row": ONE_ROW | {"reduction": 0},
        "results of other types and shapes": changed("out", "totalWeightOut", data_type=FLOAT16, shape=(1,)),
        "the most that is ignored": {"ignoreIndex": 2**31 - 1},
        "no rows": rows(0, 10),
        "neither": rows(0, 0),
    },
    refused=(
        Refused({"weight": None, "out": None}, "weight must not be null", NULL),
        Refused(changed("weight", data_type=FLOAT16) | {"reduction": 9}, "weight: expected the data type of self"),
        *(Refused({"reduction": each, **ONE_ROW}, "reduction: expected from 0 to 2") for each in (-1, 3)),
        Refused(shapes(self=(6, 10, 1)), "self: expected rank"),
        Refused(shapes(target=(6, 1)), "target: expected a target for each sample"),
        Refused(shapes(target=(5,)), "target: expected a target for each sample"),
        Refused(shapes(weight=(1, 10)), "weight: expected a weight for each class"),
        Refused({"reduction": 0}, "out: expected a loss for each sample"),
        Refused(shapes(out=(6,)), "out: expected as many elements as 1"),
        Refused(shapes(out=(1, 1)), "out: expected rank"),
        Refused(shapes(totalWeightOut=(2,)), "totalWeightOut: expected as many elements as 1"),
        *(Refused({"ignoreIndex": each}, "ignoreIndex: expected 32") for each in (2**31, -(2**31) - 1)),
        Refused(rows(6, 0), "self: expected a class for each target"),
        Refused(rows(HUGE, 10), ""),
    ),
)

# Losses of (2, 3, 4, 5) that are not reduced.
SHAPE = (2, 3, 4, 5)


def reduced(reduction: int, output: str, *shape: int) -> Changes:
    return {"reduction": reduction, **shapes(**{output: shape})}


def losses(
    output: str = "out", *, refused: tuple[Refused, ...] = (), accepted: dict[str, Changes] | None = None
) -> Order:
    bfloat16 = changed("self", "target", output, data_type=BF16)
    empty = shapes(self=(0, 3), target=(0, 3))
    return Order(
        accepted={
            "a mean": reduced(1, output),
            "a sum": reduced(2, output),
            "BF16": bfloat16,
            "nothing": empty | reduced(0, output, 0, 3),
            "the mean of nothing": empty | reduced(1, output),
            **(accepted or {}),
        },
        refused=(
            Refused({"target": None, output: None}, "target must not be null", NULL),
            *(Refused({"reduction": each}, "reduction: expected a value") for each in (-1, 3, 2**40)),
            Refused(changed(output, data_type=DOUBLE) | {"reduction": 9}, f"{output}: expected data type"),
            Refused(shapes(**{output: (5,)}), f"{output}: expected the shape"),
            Refused(reduced(1, output, 2), f"{output}: expected one element"),
            Refused(changed("self", "target", output, shape=(1,) * 9), "self: expected a rank of at most 8"),
            Refused(changed("self", "target", output, shape=(HUGE, 4)), ""),
            *refused,
        ),
        otherwise={product: {"BF16": Refused(bfloat16, "self: expected data type")} for product in WITHOUT_BF16},
    )


def _repeated(output: str) -> dict[str, Changes]:
    target = {"target": {"shape": (1, 5), "data_type": FLOAT16}}
    return {"both repeated, of two types": target | shapes(**{"self": (3, 1), output: (3, 5)})}


ORDERS = {
    "binary_cross_entropy_with_logits": losses(
        refused=(
            Refused(shapes(target=(5,)), "target: expected the shape of self"),
            Refused(changed("out", data_type=FLOAT16), "target: expected the data type of out"),
        ),
        accepted={
            "types of self and of the target": changed("target", "out", data_type=FLOAT16),
            "one number in a list": reduced(1, "out", 1, 1),
        },
    ),
    "mse_loss": losses(accepted=_repeated("out"), refused=(Refused(reduced(1, "out", 1), "out: expected rank 0"),)),
    "nll_loss": NLL_LOSS,
    "smooth_l1_loss": losses(
        "result",
        accepted=_repeated("result") | {"one number in a list": reduced(2, "result", 1)},
        refused=(
            *(Refused({"beta": each}, "beta: expected at least 1e-6") for each in (0.0, -1.0, NAN)),
            Refused({"beta": -1.0} | shapes(result=(7,)), "result: expected"),
        ),
    ),
}
