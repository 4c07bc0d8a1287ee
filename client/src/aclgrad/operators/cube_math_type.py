"""`cube_math_type`: the precision of a product's matrix unit, for matrix products and convolutions.

Sums are FLOAT32 in every mode. Atlas training and inference products multiply only in FLOAT16, so they have no full
float32. The roundings are in the documents of CANN's products and `--allow_hf32`; according to the sources (ops-nn,
matmul_util.cpp), products without bfloat16 do not check the range, and read beyond a table.
"""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.routes import FLOAT16, FLOAT32, HFLOAT32, Precision
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec
from aclgrad.products import Product

KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32 = range(4)
HALVING: Final = (Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING)
"""The products that multiply only in FLOAT16."""
_NAME: Final = "cube_math_type"
_OF_FLOAT32: Final = {
    False: {ALLOW_FP32_DOWN_PRECISION: HFLOAT32, USE_FP16: FLOAT16, USE_HF32: HFLOAT32},
    True: {ALLOW_FP32_DOWN_PRECISION: FLOAT16, USE_FP16: FLOAT16},
}
"""The types to which float32 is rounded, by whether the product multiplies only in FLOAT16."""


def mode_of(arguments: Arguments, product: Product) -> int:
    """Returns the mode of a call; by default the most precise one that the product has."""
    if arguments.attributes[_NAME] is None:
        return ALLOW_FP32_DOWN_PRECISION if product in HALVING else KEEP_DTYPE
    return arguments.int(_NAME)


CUBE_MATH_TYPE: Final = AttributeSpec(
    _NAME,
    "How precisely matrix units multiply float32: 0 in full, 1 in what the product has less, 2 in FLOAT16, 3 in "
    "HFLOAT32 (11 bits). Left out: 0, but 1 on 310P and 910A, which have FLOAT16 alone. A server on a CPU always "
    "multiplies in full.",
    AttributeKind.INT,
    minimum=KEEP_DTYPE,
    maximum=USE_HF32,
    is_optional=True,
    read_as=mode_of,
)


def check_mode(arguments: Arguments, product: Product, leading: str) -> Iterator[Violation]:
    """The product has the mode for the dtype of the leading input."""
    if product not in HALVING or arguments.inputs[leading].dtype.name != "float32":
        return
    if (mode := mode_of(arguments, product)) not in _OF_FLOAT32[True]:
        problem = f"is {mode}, and product {product} multiplies float32 in FLOAT16 alone"
        yield Violation(f"attributes[{_NAME}]", problem, "send 1 or 2, or leave it out")


def precision_of(arguments: Arguments, product: Product, dtype: str) -> Precision:
    """Returns the type to which operands are rounded; FLOAT32 if they are not."""
    if dtype != "float32":
        return FLOAT32
    return _OF_FLOAT32[product in HALVING].get(mode_of(arguments, product), FLOAT32)
