"""aclnnReflectionPad1dBackward: the gradient of reflection padding over one dimension.

Devices add up bfloat16 only for padding from 0 to 3000.
"""

from aclgrad.operators.families.pad.spec import ON_ALL, REFLECTION, pad_spec

SPEC = pad_spec(REFLECTION, 1, ON_ALL)
