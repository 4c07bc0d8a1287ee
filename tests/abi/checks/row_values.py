"""Softmax, gated units and normalisations."""

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, TILING, Changes, Order, Refused, changed, shapes

FLOAT, FLOAT16, BF16, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
HUGE = 2**62
NAN = float("nan")
P310, P910A, P950 = Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING, Product.ASCEND_950


def both(*shape: int) -> Changes:
    return changed("self", "out", shape=shape)


# Softmax of (2, 3, 40).
_SOFTMAX = (
    Refused({"self": None, "out": None}, "self must not be null", NULL),
    Refused(shapes(out=(2, 3, 41)), "out: expected the shape of self"),
    Refused(both(*[1] * 9), "self: expected a rank of at most 8"),
    *(Refused({"dim": dim}, "dim: expected -3 to 2") for dim in (-4, 3, 2**40)),
    Refused({"dim": 3, **shapes(out=(1,))}, "dim: expected"),
    Refused(both(HUGE, 4), ""),
)
_ANY_RESULT = {"another type": changed("out", data_type=FLOAT16), "a scalar": both() | {"dim": 0}}
_WRONG = changed("self", data_type=DOUBLE) | {"dim": 9}
SOFTMAX = Order(
    accepted=_ANY_RESULT | {"empty comes before everything else": _WRONG | shapes(self=(0, 3), out=(5,))},
    refused=(*_SOFTMAX, Refused(_WRONG, "self: expected data type")),
)
LOG_SOFTMAX = Order(
    accepted=_ANY_RESULT | {"empty": both(0, 3, 2)},
    refused=(*_SOFTMAX, Refused(_WRONG, "dim: expected"), Refused(shapes(self=(0, 3, 40)), "out: expected the shape")),
)

# SwiGLU of (2, 128).
_ODD = Refused(shapes(x=(2, 127)), "x: expected dim 1 to be even", TILING)
_EMPTY = shapes(x=(0, 128), out=(0, 64))
_UNALIGNED = shapes(x=(2, 130), out=(2, 65))
SWI_GLU = Order(
    valid=shapes(x=(2, 128), out=(2, 64)),
    accepted={"the first dim": shapes(x=(2, 128), out=(1, 128)) | {"dim": 0}, "halves of any size": _UNALIGNED},
    refused=(
        _ODD,
        *(Refused({"dim": dim}, "dim: expected from -2 to 1", TILING) for dim in (-3, 2)),
        Refused(shapes(out=(2, 128)), "out: expected the shape of x with half of dim"),
        Refused(changed("out", data_type=FLOAT16) | {"dim": 9}, "out: expected the data type of x"),
        Refused(_EMPTY, "x: expected elements", TILING),
    ),
    otherwise={
        P310: {"halves of any size": Refused(_UNALIGNED, "x: expected halves of a multiple of 64 bytes", TILING)},
        P950: {"no rows": Refused(_EMPTY, "", 0)},
    },
)

# Layer normalisation of (2, 3, 4, 5).
SAVED = ("meanOutOptional", "rstdOutOptional")
PARAMETERS = ("weightOptional", "biasOptional")
LAST = "normalizedShape: expected the last sizes of input"


def layered(leading: tuple[int, ...], normalized: tuple[int, ...]) -> Changes:
    return {
        **changed("input", "out", shape=(*leading, *normalized)),
        **changed(*SAVED, shape=(*leading, *[1] * len(normalized))),
        **changed(*PARAMETERS, shape=normalized),
        "normalizedShape": normalized,
    }


_LISTED = changed(*SAVED, shape=(6,))
LAYER_NORM = Order(
    valid=layered((2, 3), (4, 5)),
    accepted={
        "all sizes": layered((), (2, 3, 4, 5)),
        "statistics of other types": changed("out", *SAVED, data_type=FLOAT16),
        "no statistics": dict.fromkeys(SAVED),
        "statistics as lists": _LISTED,
        "no rows": layered((0, 3), (4, 5)),
        "no columns": layered((2, 3), (4, 0)),
        "an eps of 0": {"eps": 0.0},
    },
    refused=(
        Refused({"normalizedShape": None, "out": None}, "normalizedShape must not", NULL),
        Refused(changed("weightOptional", data_type=FLOAT16), "weightOptional: expected the data type of input"),
        Refused(changed("input", *PARAMETERS[:1], data_type=FLOAT16), "weightOptional: expected the data type of bias"),
        Refused(changed(SAVED[1], data_type=DOUBLE) | {"normalizedShape": ()}, "rstdOutOptional: expected data type"),
        *(Refused({"normalizedShape": sizes}, LAST) for sizes in ((4, 4), (2, 3), (), (1, 2, 3, 4, 5))),
        Refused(shapes(weightOptional=(20,)), "weightOptional: expected normalizedShape"),
        Refused(shapes(biasOptional=(5, 4)), "biasOptional: expected normalizedShape"),
        Refused(shapes(out=(6, 20)), "out: expected the shape of input"),
        Refused(shapes(meanOutOptional=(7, 1)), "meanOutOptional: expected one value for each row"),
        Refused(layered((2,), (HUGE, 2)), ""),
    ),
    otherwise={
        P950: {
            "statistics as lists": Refused(_LISTED, "meanOutOptional: expected one value for each row, [2, 3, 1, 1]")
        }
    },
)

# Root mean square normalisation of (2, 3, 40): CANN generates the operator, so the tiling checks the shapes.


def rooted(leading: tuple[int, ...], normalized: tuple[int, ...]) -> Changes:
    rows = changed("x", "yOut", shape=(*leading, *normalized)) | shapes(gamma=normalized)
    return rows | shapes(rstdOut=(*leading, *[1] * len(normalized)))


NARROW = changed("x", "yOut", data_type=FLOAT16)
SHORT = "x: expected a last dim of at least 32 bytes"
RMS_NORM = Order(
    accepted={
        "rows of 32 bytes": rooted((3,), (8,)),
        "a gamma of float32": NARROW,
        "an epsilon of 0": {"epsilon": 0.0},
    },
    refused=(
        Refused(changed("rstdOut", data_type=FLOAT16), "rstdOut: expected data type"),
        Refused(changed("gamma", data_type=FLOAT16), "gamma: expected the data type of x"),
        Refused(changed("yOut", data_type=FLOAT16) | shapes(gamma=(7,)), "yOut: expected the data type of x"),
        Refused(shapes(gamma=(8, 5)), "gamma: expected the last dims", TILING),
        Refused(shapes(rstdOut=(6,)), "rstdOut: expected one value for each row", TILING),
        Refused(rooted((1,) * 8, (8,)), "x: expected 1 to 8 dims", TILING),
        Refused(rooted((2,), (0,)), "x: expected dims above 0", TILING),
        Refused(rooted((0,), (8,)), "x: expected dims above 0", TILING),
        *(Refused({"epsilon": each}, "epsilon: expected at least 0", TILING) for each in (-1e-6, NAN)),
        Refused(rooted((HUGE,), (8,)), ""),
    ),
    otherwise={
        P310: {
            "a gamma of float32": Refused(NARROW, "gamma: expected the data type of x"),
            "a last dim of 1": Refused(rooted((3,), (1,)), SHORT, TILING),
        }
    },
)

# Group normalisation of (2, 6, 5, 7) in 3 groups.


def grouped(shape: tuple[int, ...], group: int, area: int) -> Changes:
    return {
        **both(*shape),
        **changed("meanOut", "rstdOut", shape=(shape[0], group)),
        **changed("gamma", "beta", shape=shape[1:2]),
        "N": shape[0],
        "C": shape[1],
        "HxW": area,
        "group": group,
    }


GROUP_NORM = Order(
    accepted={
        "no area": grouped((2, 6, 0), 3, 0),
        "no samples": grouped((0, 6, 4), 3, 4),
        "neither gamma nor beta": {"gamma": None, "beta": None},
        "two dims": grouped((2, 6), 3, 1),
        "NCHW": changed("self", "out", format_=Format.NCHW),
    },
    refused=(
        Refused({"rstdOut": None, **changed("self", data_type=DOUBLE)}, "rstdOut must not be null", NULL),
        *(
            Refused(changed(name, data_type=FLOAT16) | {"group": 0}, f"{name}: expected the data type of self")
            for name in ("gamma", "beta", "out", "meanOut", "rstdOut")
        ),
        *(Refused({"group": each}, "group: expected more than 0") for each in (0, -3)),
        Refused({"group": 4, "eps": 0.0}, "C: expected a multiple of group, 4"),
        *(Refused({"eps": each, **shapes(out=(2,))}, "eps: expected more than 0") for each in (0.0, -1.0, NAN)),
        Refused(both(6) | {"N": 9}, "self: expected rank"),
        Refused(shapes(out=(2, 6, 7, 5)), "out: expected the shape of self"),
        Refused({"N": 3}, "meanOut: expected N and group"),
        Refused({"C": 9}, "C: expected that of self, 6"),
        Refused({"HxW": 34}, "HxW: expected that of self, 35"),
        Refused(shapes(gamma=(2, 3)), "gamma: expected C"),
        Refused(shapes(beta=(3,)), "beta: expected C"),
        Refused(changed("out", format_=Format.NCHW), "out: expected the format of self"),
        Refused(changed("self", "out", format_=Format.NHWC), "self: expected format ND"),
        Refused(grouped((HUGE, 6, 5, 7), 3, 35), ""),
    ),
)

# Batch normalisation of (4, 3, 6, 7).
OF_CHANNELS = ("weight", "bias", "runningMean", "runningVar", "saveMean", "saveInvstd")
NO_TENSOR = 561103


def batch(*shape: int, format_: Format = Format.ND) -> Changes:
    return changed("input", "output", shape=shape, format_=format_) | changed(*OF_CHANNELS, shape=shape[1:2])


_EVALUATED: Changes = {"training": False}
_UNSAVED = _EVALUATED | dict.fromkeys(OF_CHANNELS[4:])
BATCH_NORM = Order(
    accepted={
        "two dims": batch(4, 3),
        "a volume": batch(4, 3, 2, 2, 2, format_=Format.NCDHW),
        "eight dims": batch(4, 3, 1, 2, 1, 2, 1, 1),
        "statistics of other types": changed(*OF_CHANNELS, data_type=FLOAT16),
        "nothing but the statistics that are saved": dict.fromkeys(OF_CHANNELS[:4]),
        "nothing that is saved": _UNSAVED,
        "unread statistics": _EVALUATED | changed(*OF_CHANNELS[4:], data_type=DOUBLE, shape=(0,)),
        "empty comes before most": changed("input", data_type=DOUBLE, shape=(0,)),
    },
    refused=(
        *(
            Refused({name: None, **changed("input", data_type=DOUBLE)}, f"{name} must not", NULL)
            for name in ("saveMean", "saveInvstd")
        ),
        Refused(changed("input", data_type=DOUBLE, format_=Format.NHWC), "input: expected data type"),
        *(Refused(changed(name, data_type=DOUBLE, shape=(9,)), f"{name}: expected data type") for name in OF_CHANNELS),
        Refused(changed("output", format_=Format.ND, shape=(9,)), "output: expected the format of input"),
        Refused(batch(4, 3, 2, 2, 2, format_=Format.ND), "input: expected format NCDHW"),
        Refused(changed("input", "output", format_=Format.NHWC), "input: expected format ND"),
        Refused(batch(4), "input: expected rank"),
        Refused(shapes(output=(4, 3, 7, 6)), "output: expected the shape of input"),
        *(Refused(shapes(**{name: (4,)}), f"{name}: expected") for name in OF_CHANNELS),
        Refused(changed("output", data_type=FLOAT16), "output: expected the data type of input", NO_TENSOR),
        Refused(changed("output", data_type=FLOAT16) | shapes(bias=(4,)), "bias: expected"),
        Refused(batch(HUGE, 3, 2), ""),
    ),
)

ORDERS = {
    "batch_norm": BATCH_NORM,
    "group_norm": GROUP_NORM,
    "layer_norm": LAYER_NORM,
    "log_softmax": LOG_SOFTMAX,
    "rms_norm": RMS_NORM,
    "softmax": SOFTMAX,
    "swi_glu": SWI_GLU,
}
