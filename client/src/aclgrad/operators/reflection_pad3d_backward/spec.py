"""aclnnReflectionPad3dBackward: the gradient of reflection padding over three dimensions.

Negative padding, which CANN accepts, is refused: the kernels of Atlas A2 and A3 are not written for it. The products
without bfloat16 compute on the AI CPU.
"""

from aclgrad.operators.families.pad.spec import BFLOAT16_ON_SOME, REFLECTION, pad_spec

SPEC = pad_spec(REFLECTION, 3, BFLOAT16_ON_SOME)
