"""Convolutions of (2, 4, 9, 8) by (6, 2, 3, 3) in two groups, and their gradients."""

from typing import Any

from aclgrad.products import Product
from tools.abi.acl import DataType, Format

from ..phase_one import NULL, Changes, Order, Refused, changed, shapes

HALF, BF16, DOUBLE = DataType.FLOAT16, DataType.BF16, DataType.DOUBLE
HUGE = 2**62
NONE = (False, False, False)
INPUTS, OUTPUTS = ("gradOutput", "input", "weight"), ("gradInput", "gradWeight", "gradBias")
LISTS = ("stride", "padding", "dilation", "outputPadding")
FORMATS = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}


def of(
    grad_output: tuple[int, ...], input_: tuple[int, ...], weight: tuple[int, ...], **more: object
) -> dict[str, Any]:
    """A call of these shapes, with lists of ones or zeros unless they are given."""
    axes, format_ = len(input_) - 2, FORMATS.get(len(input_), Format.ND)
    tensors = (grad_output, input_, weight, input_, weight)
    names = (*INPUTS, "gradInput", "gradWeight")
    return {
        **{name: {"shape": shape, "format_": format_} for name, shape in zip(names, tensors, strict=True)},
        "gradBias": {"shape": grad_output[1:2], "format_": Format.ND},
        "biasSizes": grad_output[1:2],
        **{name: (int(name in ("stride", "dilation")),) * axes for name in LISTS},
        "transposed": False,
        "groups": 1,
        **more,
    }


def also(call: dict[str, Any], *names: str, **fields: object) -> dict[str, Any]:
    return call | {name: {**call[name], **fields} for name in names}


VALID = of((2, 6, 9, 8), (2, 4, 9, 8), (6, 2, 3, 3), padding=(1, 1), groups=2)
ROWS = of((2, 6, 9), (2, 4, 9), (6, 2, 3), padding=(1,), groups=2)
VOLUMES = of((2, 6, 5, 9, 8), (2, 4, 5, 9, 8), (6, 2, 3, 3, 3), padding=(1, 1, 1), groups=2)
BACK = of((2, 4, 9, 8), (2, 6, 9, 8), (6, 2, 3, 3), padding=(1, 1), groups=2, transposed=True)
NO_BATCH = of((0, 6, 9, 8), (0, 4, 9, 8), (6, 2, 3, 3), padding=(1, 1), groups=2)
WITHOUT_BIAS: Changes = {"outputMask": (False, True, False), "biasSizes": None}
HALVED: Changes = {**VOLUMES, "cubeMathType": 2}
"""Of which Atlas A2 and A3 refuse the gradient of weight."""

_EMPTY = (
    Refused({**NO_BATCH, "biasSizes": None}, "biasSizes: expected [6], got null"),
    Refused({**NO_BATCH, "biasSizes": (6, 6)}, "biasSizes: expected [6], got [6, 6]"),
    Refused(of((2, 6, 9, 8), (2, 4, 0, 8), (6, 4, 1, 1)), "input: expected no batch or no channels"),
    Refused(shapes(weight=(6, 2, 0, 3), gradWeight=(6, 2, 0, 3)), "input: expected no batch or no channels"),
    Refused({**NO_BATCH, "stride": (1,)}, "stride: expected 2 values"),
    Refused({**NO_BATCH, "groups": 4}, "input: expected dim 1"),
)

_OLD = {
    "BF16": Refused(changed(*INPUTS, *OUTPUTS, data_type=BF16), "gradOutput: expected data type"),
    **{f"mode {mode}": Refused({"cubeMathType": mode}, "cubeMathType: expected 1 or 2") for mode in (0, 3)},
    "three axes": Refused({**VOLUMES, "cubeMathType": 1}, "input: expected one or two spatial axes"),
    "no batch": Refused({**NO_BATCH, "cubeMathType": 1}, "input: expected no empty dim"),
    **{f"empty {number}": Refused(each.changes, "") for number, each in enumerate(_EMPTY)},
    "no batch, without bias": Refused(NO_BATCH | WITHOUT_BIAS, "input: expected no empty dim"),
    "no batch of rows": Refused(of((0, 6, 9), (0, 4, 9), (6, 4, 1)), "input: expected no empty dim"),
    "three axes in FLOAT16": Refused(HALVED, "input: expected one or two"),
    "three axes in FLOAT16, without gradWeight": Refused(
        {**HALVED, "outputMask": (True, False, True)}, "input: expected one or two"
    ),
    "nobody needs gradBias's format": Refused(changed("gradBias", format_=Format.NCHW), "", 0),
}

CONVOLUTION = Order(
    accepted={
        "halves": changed(*INPUTS, *OUTPUTS, data_type=HALF),
        "BF16": changed(*INPUTS, *OUTPUTS, data_type=BF16),
        **{f"mode {mode}": {"cubeMathType": mode} for mode in range(4)},
        "one axis": ROWS,
        "one axis in ND": also(ROWS, *INPUTS, "gradInput", "gradWeight", format_=Format.ND),
        "three axes": VOLUMES,
        "three axes in FLOAT16, without gradWeight": {**HALVED, "outputMask": (True, False, True)},
        "transposed": BACK,
        "transposed, with any format of gradBias": also(BACK, "gradBias", format_=Format.NCHW),
        "transposed, with more": of(
            (2, 4, 20, 26),
            (2, 6, 9, 8),
            (6, 2, 3, 3),
            stride=(2, 3),
            groups=2,
            transposed=True,
            outputPadding=(1, 2),
        ),
        "sides": VALID | {"padding": (0, 2, 2, 0), "outputPadding": (0, 0, 0, 0)},
        "no biasSizes": {"biasSizes": None},
        "biasSizes that nobody needs": {"biasSizes": (7, 7), "outputMask": (True, True, False)},
        "nothing is wanted": {"outputMask": NONE, **dict.fromkeys(OUTPUTS)},
        "unwanted outputs of any shape": {"outputMask": NONE, **changed(*OUTPUTS, shape=(9,))},
        "no batch": NO_BATCH,
        "no batch of rows": of((0, 6, 9), (0, 4, 9), (6, 4, 1)),
        "no batch, without bias": NO_BATCH | WITHOUT_BIAS,
        "steps of one position": of((2, 6, 1, 1), (2, 4, 9, 8), (6, 4, 9, 8), stride=(HUGE, HUGE)),
        "distances of one tap": of((2, 6, 9, 8), (2, 4, 9, 8), (6, 4, 1, 1), dilation=(HUGE, HUGE)),
    },
    refused=(
        # The order of null pointers.
        *(
            Refused(dict.fromkeys(names), f"{names[0]} must not be null", NULL)
            for names in (
                (*INPUTS, *LISTS, "outputMask", *OUTPUTS),
                ("input", "weight", "stride", "outputMask"),
                ("weight", "stride"),
                ("stride", "padding", "gradInput"),
                ("padding", "dilation"),
                ("dilation", "outputPadding"),
                ("outputPadding", "outputMask"),
                ("outputMask", "gradInput"),
                ("gradInput", "gradWeight"),
                ("gradWeight", "gradBias"),
            )
        ),
        Refused({"outputMask": (True,) * 4, "gradInput": None}, "outputMask: expected 3 values", NULL),
        # Types, formats, numbers, cubeMathType, shapes.
        Refused({"gradBias": None, **changed("input", data_type=DOUBLE)}, "gradBias must not be null", NULL),
        Refused(changed("gradBias", data_type=DOUBLE) | {"outputMask": NONE}, "gradBias: expected data type"),
        Refused(changed("weight", data_type=DOUBLE, format_=Format.ND), "weight: expected data type"),
        Refused(changed("weight", format_=Format.ND) | {"stride": (0, 0)}, "weight: expected format NCHW"),
        Refused({"stride": (0, 1), "padding": (-1, 0)}, "stride: expected values above 0"),
        Refused({"padding": (-1, 0), "dilation": (0, 1)}, "padding: expected values of at least 0"),
        Refused({"dilation": (1, 0), "outputPadding": (1, 1)}, "dilation: expected values above 0"),
        Refused({"outputPadding": (0, 1), "groups": 0}, "outputPadding: expected zeros unless transposed"),
        *(Refused({"groups": each, "cubeMathType": 4}, "groups: expected a value above 0") for each in (0, -1)),
        *(
            Refused({"cubeMathType": each, **changed("weight", shape=(5, 2, 3, 3))}, "cubeMathType: expected a value")
            for each in (-1, 4)
        ),
        Refused(changed("gradBias", shape=(1, 6)) | {"stride": (1,)}, "gradBias: expected the channels of gradOutput"),
        Refused({"stride": (1,)} | changed("input", shape=(2, 5, 9, 8)), "gradInput: expected the shape of input"),
        Refused({"stride": (1, 1, 1)}, "stride: expected 2 values"),
        Refused({"padding": (1, 1, 1)}, "padding: expected 2 or 4 values"),
        Refused({**BACK, "outputPadding": (0, 0, 0, 0)}, "outputPadding: expected 2 values"),
        # Channels, and what devices do not check.
        Refused({"groups": 1}, "input: expected dim 1"),
        Refused({"groups": 2**31 - 1}, "input: expected dim 1"),
        Refused(of((2, 5, 9, 8), (2, 4, 9, 8), (5, 2, 1, 1), groups=2), "weight: expected dim 0 to be a multiple"),
        Refused(shapes(gradOutput=(3, 6, 9, 8)), "gradOutput: expected dim 0"),
        Refused(shapes(gradOutput=(2, 6, 9, 7)), "gradOutput: expected dim 3"),
        Refused({"padding": (0, 1)}, "gradOutput: expected dim 2"),
        Refused({"biasSizes": (7,)}, "biasSizes: expected [6]"),
        Refused({**BACK, "outputPadding": (1, 0)}, "outputPadding: expected values below"),
        Refused({**BACK, "outputPadding": (HUGE, 0)}, "outputPadding: expected values below"),
        Refused({**BACK, "outputPadding": (-1, 0)}, "outputPadding: expected values of at least 0"),
        Refused(of((2, 6, 1, 1), (2, 4, 2, 2), (6, 4, 3, 3)), "weight: expected a kernel"),
        *(
            Refused({name: (HUGE, HUGE)}, message)
            for name, message in (
                ("stride", "gradOutput: expected dim 2"),
                ("padding", "weight: expected a kernel"),
                ("dilation", "weight: expected a kernel"),
            )
        ),
        Refused({**BACK, "stride": (HUGE, HUGE)}, "weight: expected a kernel"),
        Refused(changed("weight", strides=(HUGE, HUGE, HUGE, HUGE)), "weight: expected a view"),
        Refused(changed("gradOutput", shape=(2, 6, 0, 8)), "gradOutput: expected no empty dim"),
        Refused(HALVED, "cubeMathType: expected another value than 2"),
        *_EMPTY,
    ),
    otherwise={
        Product.ATLAS_TRAINING: _OLD,
        Product.ATLAS_INFERENCE: _OLD,
        Product.ASCEND_950: {"three axes in FLOAT16": Refused(HALVED, "", 0)},
    },
    valid={**VALID, "cubeMathType": 1},
)


def result(output: tuple[int, ...], input_: tuple[int, ...], weight: tuple[int, ...], **more: object) -> dict[str, Any]:
    """A convolution of these shapes, with lists of ones or zeros unless they are given."""
    axes, format_ = len(input_) - 2, FORMATS.get(len(input_), Format.ND)
    given = zip(("input", "weight", "output"), (input_, weight, output), strict=True)
    return {
        **{name: {"shape": shape, "format_": format_} for name, shape in given},
        "bias": {"shape": output[1:2], "format_": Format.ND},
        **{name: (int(name in ("stride", "dilation")),) * axes for name in LISTS},
        "transposed": False,
        "groups": 1,
        **more,
    }


MADE = result((2, 6, 9, 8), (2, 4, 9, 8), (6, 2, 3, 3), padding=(1, 1), groups=2)
MADE_VOLUMES = result((2, 6, 5, 9, 8), (2, 4, 5, 9, 8), (6, 2, 3, 3, 3), padding=(1, 1, 1), groups=2)
MADE_BACK = result((2, 4, 9, 8), (2, 6, 9, 8), (6, 2, 3, 3), padding=(1, 1), groups=2, transposed=True)
_TENSORS = ("input", "weight", "bias", "output")
_FAR = {
    "taps far beyond the padding": result((1, 1, 258), (1, 1, 1), (1, 1, 258), transposed=True),
    "padding beyond taps of volumes": result(
        (1, 1, 3, 3, 1), (1, 1, 3, 3, 3), (1, 1, 1, 1, 1), padding=(0, 0, 1), transposed=True
    ),
}
_TOO_FAR = dict(zip(_FAR, ("at most", "0 to"), strict=True))

FORWARD = Order(
    accepted={
        "halves": changed(*_TENSORS, data_type=HALF),
        "BF16": changed(*_TENSORS, data_type=BF16),
        **{f"mode {mode}": {"cubeMathType": mode} for mode in range(4)},
        "no bias": {"bias": None},
        "one axis": result((2, 6, 9), (2, 4, 9), (6, 2, 3), padding=(1,), groups=2),
        "sides of one axis": result((2, 6, 9), (2, 4, 9), (6, 4, 3), padding=(0, 2)),
        "sides": MADE | {"padding": (0, 2, 2, 0)},
        "three axes": MADE_VOLUMES,
        "transposed": MADE_BACK,
        "transposed, by the dilation": MADE_BACK
        | {"padding": (2, 2), "dilation": (2, 1), "outputPadding": (1, 0)}
        | changed("output", shape=(2, 4, 10, 6)),
        "any outputPadding that nobody needs": {"outputPadding": (7,) * 9},
        "no batch": result((0, 6, 9, 8), (0, 4, 9, 8), (6, 2, 3, 3), padding=(1, 1), groups=2),
        "no batch, transposed": result((0, 3, 9, 8), (0, 6, 9, 8), (6, 3, 1, 1), transposed=True),
        "no channels": result((2, 0, 9, 8), (2, 4, 9, 8), (0, 4, 1, 1)),
        "steps of one position": result((2, 6, 1, 1), (2, 4, 9, 8), (6, 4, 9, 8), stride=(HUGE, HUGE)),
        "distances of one tap": result((2, 6, 9, 8), (2, 4, 9, 8), (6, 4, 1, 1), dilation=(HUGE, HUGE)),
        "taps far from the others": result((1, 1, 257), (1, 1, 2), (1, 1, 256), transposed=True),
    },
    refused=(
        # The order of null pointers, types, ranks and lengths, formats, numbers, sizes, cubeMathType.
        *(
            Refused(dict.fromkeys(names), f"{names[0]} must not be null", NULL)
            for names in (
                ("input", "weight", "bias", *LISTS, "output"),
                ("weight", "stride"),
                ("stride", "padding"),
                ("padding", "dilation"),
                ("dilation", "output"),
            )
        ),
        Refused(MADE_BACK | {"output": None, "outputPadding": None}, "output must not be null", NULL),
        Refused(MADE_BACK | {"outputPadding": None, "stride": (1,)}, "outputPadding must not be null", NULL),
        Refused(changed("bias", "input", data_type=DOUBLE), "bias: expected data type"),
        Refused(changed("output", data_type=DOUBLE) | {"stride": (1,)}, "output: expected data type"),
        Refused(changed("output", data_type=HALF) | {"stride": (1,)}, "output: expected the data type of input"),
        Refused(shapes(weight=(6, 2, 3), bias=(7,)), "weight: expected the rank of input"),
        Refused(shapes(bias=(6, 1)) | {"stride": (1,)}, "bias: expected rank 1"),
        Refused(shapes(bias=(7,)) | {"stride": (1,)}, "bias: expected dim 0"),
        Refused({"stride": (1,), "dilation": (1,)}, "stride: expected 2 values"),
        Refused({"dilation": (1,), "padding": (1,)}, "dilation: expected 2 values"),
        Refused({"padding": (1, 1, 1), **changed("weight", format_=Format.ND)}, "padding: expected 2 or 4 values"),
        Refused(MADE_VOLUMES | {"padding": (1,) * 6}, "padding: expected 3 values"),
        Refused(MADE_BACK | {"outputPadding": (0,) * 4}, "outputPadding: expected 2 values"),
        Refused(changed("output", "bias", format_=Format.NHWC), "output: expected the format of input"),
        Refused(changed("bias", "weight", format_=Format.NHWC), "bias: expected format ND"),
        Refused(changed("weight", format_=Format.ND) | {"stride": (0, 0)}, "weight: expected format NCHW"),
        Refused(shapes(weight=(6, 2, 0, 3)) | {"stride": (0, 0)}, "weight: expected no empty dim from dim 2 on"),
        Refused({"stride": (0, 1), "dilation": (0, 1)}, "stride: expected values above 0"),
        Refused({"dilation": (1, 0), "groups": 0}, "dilation: expected values above 0"),
        Refused({"padding": (-1, 0)}, "padding: expected values of at least 0"),
        Refused(shapes(weight=(6, 2, 12, 3)) | {"groups": 0}, "weight: expected a kernel that fits"),
        *(Refused({"groups": each, "cubeMathType": 4}, "groups: expected a value above 0") for each in (0, -1)),
        *(Refused({"groups": each, "cubeMathType": 4}, "input: expected dim 1") for each in (1, 2**62)),
        Refused(result((2, 5, 9, 8), (2, 4, 9, 8), (5, 2, 1, 1), groups=2), "weight: expected dim 0 to be a multiple"),
        Refused(MADE_BACK | shapes(weight=(4, 2, 3, 3)), "weight: expected dim 0"),
        *(
            Refused(MADE_BACK | {"outputPadding": (each, 0)}, "outputPadding: expected values from 0 to below")
            for each in (1, -1, HUGE)
        ),
        Refused(result((2, 3, 9, 8), (2, 0, 9, 8), (0, 3, 1, 1), transposed=True), "input: expected dim 1 above 0"),
        *(Refused(_FAR[name], f"weight: expected a kernel that reaches {bounds}") for name, bounds in _TOO_FAR.items()),
        Refused(shapes(output=(3, 6, 9, 8)) | {"cubeMathType": 4}, "output: expected dim 0"),
        Refused(shapes(output=(2, 6, 9, 7)) | {"cubeMathType": 4}, "output: expected dim 3"),
        Refused(result((2, 6, 9, 8), (2, 0, 9, 8), (6, 0, 1, 1)), "output: expected no elements"),
        *(Refused({"cubeMathType": each}, "cubeMathType: expected a value") for each in (-1, 4)),
        *(
            Refused({name: (HUGE, HUGE)}, message)
            for name, message in (
                ("stride", "output: expected dim 2"),
                ("padding", "weight: expected a kernel whose"),
                ("dilation", "weight: expected a kernel that fits"),
            )
        ),
        Refused(MADE_BACK | {"stride": (HUGE, HUGE)}, "weight: expected a kernel whose"),
        Refused(changed("weight", strides=(HUGE, HUGE, HUGE, HUGE)), "weight: expected a view"),
    ),
    otherwise={
        Product.ATLAS_INFERENCE: {
            "BF16": Refused(changed(*_TENSORS, data_type=BF16), "bias: expected data type"),
            **{f"mode {mode}": Refused({"cubeMathType": mode}, "cubeMathType: expected 1 or 2") for mode in (0, 3)},
        },
        Product.ASCEND_950: {name: Refused(each, "", 0) for name, each in _FAR.items()},
    },
    valid={**MADE, "cubeMathType": 1},
)

ORDERS = {"convolution": FORWARD, "convolution_backward": CONVOLUTION}
