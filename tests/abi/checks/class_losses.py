"""The gradients of losses of classes."""

from itertools import pairwise

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, TILING, Changes, Order, Refused, Tensor, changed, shapes

FLOAT, FLOAT16 = DataType.FLOAT, DataType.FLOAT16
HUGE = 2**62
NAN = float("nan")
WITHOUT_HALVES = (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE)


def _nll(names: tuple[str, ...], refused: tuple[Refused, ...], accepted: dict[str, Changes]) -> Order:
    """Returns the rows of both; a null pointer is reported before those behind it."""
    nulls = (Refused({one: None, other: None}, f"{one} must not be null", NULL) for one, other in pairwise(names))
    return Order(
        accepted={
            "numbers of other shapes": shapes(gradOutput=(1,), totalWeight=(1, 1)),
            "the most that is ignored": {"ignoreIndex": 2**31 - 1},
            **{f"reduction {each}": {"reduction": each} for each in (1, 2)},
            **accepted,
        },
        refused=(
            *nulls,
            *(Refused({"reduction": each}, "reduction: expected from 0 to 2") for each in (-1, 3)),
            Refused(shapes(gradOutput=(1, 1)), "gradOutput: expected rank"),
            Refused(shapes(gradOutput=(2,)), "gradOutput: expected as many elements as 1"),
            Refused({"reduction": 0}, "gradOutput: expected the shape of target"),
            Refused(shapes(totalWeight=(2,)), "totalWeight: expected as many elements as 1"),
            # A device compares 32 bits.
            *(Refused({"ignoreIndex": each}, "ignoreIndex: expected 32") for each in (2**31, -(2**31) - 1, 2**40)),
            *refused,
        ),
    )


def rows(rows: int, classes: int) -> Changes:
    return shapes(self=(rows, classes), target=(rows,), weight=(classes,), out=(rows, classes))


ONE_ROW = shapes(self=(10,), target=(), out=(10,))


def pixels(images: int, classes: int, *size: int) -> Changes:
    return changed("self", "out", shape=(images, classes, *size)) | shapes(target=(images, *size), weight=(classes,))


# Cross entropy of (6, 10): CANN generates the operator, so the tiling checks some of the shapes.
WEIGHT = Tensor((10,), FLOAT, Format.ND)
ZLOSS = Tensor((6,), FLOAT, Format.ND)
CROSS_ENTROPY = Order(
    accepted={
        "a mean unless told": {"reductionOptional": None},
        "a gradient for each row": {"reductionOptional": "none", **shapes(gradLoss=(6,))},
        "one gradient in a list": shapes(gradLoss=(1,)),
        "weights": {"weightOptional": WEIGHT},
        "weights of halves": {"weightOptional": WEIGHT, **changed("gradLoss", "logProb", "out", data_type=FLOAT16)},
        "only smoothed": {"labelSmoothing": 1.0},
        "no rows": shapes(logProb=(0, 10), target=(0,), out=(0, 10)),
    },
    refused=(
        Refused({"reductionOptional": "batchmean"}, "reductionOptional: expected none, mean or sum, got batchmean"),
        Refused({"reductionOptional": "none"}, "gradLoss: expected a gradient for each row"),
        Refused(shapes(gradLoss=(6,)), "gradLoss: expected one number"),
        Refused({"weightOptional": Tensor((9,), FLOAT, Format.ND)}, "weightOptional: expected a weight for", TILING),
        Refused({"weightOptional": Tensor((10,), FLOAT16, Format.ND)}, "weightOptional: expected data type"),
        Refused(shapes(target=()), "target: expected a target for each row", TILING),
        Refused(shapes(target=(6, 1)), "target: expected rank 1"),
        Refused(shapes(logProb=(6, 10, 1), out=(6, 10, 1)), "logProb: expected rank 2"),
        # Devices ignore these, or do not look at them.
        Refused({"gradZlossOptional": ZLOSS}, "gradZlossOptional: expected null"),
        Refused({"lseForZlossOptional": ZLOSS}, "lseForZlossOptional: expected null"),
        Refused({"lseSquareScaleForZloss": 0.5}, "lseSquareScaleForZloss: expected 0"),
        *(Refused({"labelSmoothing": each}, "labelSmoothing: expected from 0 to 1") for each in (-0.1, 1.1, NAN)),
        Refused(shapes(logProb=(HUGE, 10), target=(HUGE,), out=(HUGE, 10)), ""),
    ),
)

# CTC of 12 steps, 3 samples, 6 classes, and up to 5 labels.


def sampled(steps: int, samples: int, classes: int, labels: int, kind: DataType = FLOAT) -> Changes:
    return {
        **changed("logProbs", "out", shape=(steps, samples, classes), data_type=kind),
        **changed("gradOut", "negLogLikelihood", shape=(samples,), data_type=kind),
        **changed("logAlpha", shape=(samples, steps, 2 * labels + 1), data_type=kind),
        **shapes(targets=(samples, labels)),
        "inputLengths": (steps,) * samples,
        "targetLengths": (labels,) * samples,
    }


MOST_LABELS = Refused(sampled(12, 3, 6, 1001, FLOAT16), "logProbs: expected at most 8180 samples")
CTC = Order(
    accepted={
        "one target after the other": shapes(targets=(11,)),
        "wide targets and places": shapes(targets=(3, 9), logAlpha=(3, 12, 20)),
        "most labels": sampled(12, 3, 6, 1000, FLOAT16),
        "most labels of float32": sampled(12, 3, 6, 1001),
        "no samples": sampled(12, 0, 6, 5),
        "no labels": sampled(12, 2, 6, 0),
        "no steps of a sample": {"inputLengths": (0, 12, 12)},
        "last blank": {"blank": 5},
    },
    refused=(
        Refused({"inputLengths": None, "logAlpha": None}, "inputLengths must not", NULL),
        Refused({"targetLengths": None, "out": None}, "targetLengths must not", NULL),
        Refused(sampled(0, 3, 6, 5), "logProbs: expected at least one step"),
        *(Refused({"blank": each}, "blank: expected from 0 to 5") for each in (-1, 6, 2**40)),
        *(Refused({"inputLengths": each}, "inputLengths: expected") for each in ((12, 12), (12, 13, 12), (12, -1, 12))),
        *(Refused({"targetLengths": each}, "targetLengths: expected") for each in ((4, 2), (4, 2, 6), (4, -2, 5))),
        Refused(shapes(targets=(12,)), "targets: expected the sum of targetLengths, [11]"),
        Refused(shapes(targets=(3, 4)), "targets: expected as many labels"),
        Refused(shapes(targets=(3, 5, 1)), "targets: expected rank 1 or 2"),
        Refused(shapes(logAlpha=(3, 12, 10)), "targetLengths: expected from 0 to 4"),
        Refused(sampled(12, 3, 6, 0) | shapes(logAlpha=(3, 12, 0)), "logAlpha: expected at least one place"),
        Refused(shapes(logAlpha=(3, 12, HUGE)) | {"targetLengths": (HUGE // 2 - 1,) * 3}, "logAlpha: expected a view"),
        MOST_LABELS,
    ),
    otherwise={
        Product.ASCEND_950: {"more labels": Refused(MOST_LABELS.changes, "", 0)},
        **{
            product: {
                "most labels": Refused(sampled(12, 3, 6, 1000, FLOAT16), "logProbs: expected data type"),
                "more labels": Refused(MOST_LABELS.changes, "logProbs: expected data type"),
            }
            for product in WITHOUT_HALVES
        },
    },
)

ORDERS = {
    "cross_entropy_loss_grad": CROSS_ENTROPY,
    "ctc_loss_backward": CTC,
    "nll_loss_backward": _nll(
        ("gradOutput", "self", "target", "weight", "totalWeight", "out"),
        refused=(
            Refused({"reduction": 3, **shapes(weight=(9,))}, "reduction: expected"),
            Refused(shapes(weight=(1, 10)), "weight: expected a weight for each class"),
            Refused(shapes(target=(6, 1)), "target: expected a target for each sample"),
            # A device compares the first dims.
            Refused({**ONE_ROW, **shapes(target=(10,))}, "target: expected a target for each sample"),
            Refused(rows(HUGE, 10), ""),
        ),
        accepted={
            "one row": ONE_ROW,
            "one row without reduction": ONE_ROW | {"reduction": 0},
            "a gradient for each row": {"reduction": 0, **shapes(gradOutput=(6,))},
            "no rows": rows(0, 10),
            "no classes": rows(6, 0),
        },
    ),
    "nll_loss2d_backward": _nll(
        ("gradOutput", "self", "target", "weight", "out", "totalWeight"),
        refused=(
            Refused({"reduction": 3, **shapes(weight=(9,))}, "weight: expected as many elements as 5"),
            Refused(changed("self", "out", shape=(2, 5, 4)), "self: expected rank 4"),
            Refused(pixels(HUGE, 5, 4, 6), ""),
        ),
        accepted={
            "a gradient for each pixel": {"reduction": 0, **shapes(gradOutput=(2, 4, 6))},
            "weights of another shape": shapes(weight=(1, 5, 1)),
            "no images": pixels(0, 5, 4, 6),
        },
    ),
}
