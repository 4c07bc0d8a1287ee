"""aclnnReflectionPad2dBackward: the gradient of reflection padding over two dimensions.

Devices add up bfloat16 in one kernel, which takes no negative padding, and large padding only within rows.
"""

from aclgrad.operators.families.pad.spec import ON_ALL, REFLECTION, pad_spec

SPEC = pad_spec(REFLECTION, 2, ON_ALL)
