"""aclnnReplicationPad3dBackward: the gradient of replication padding over three dimensions.

Negative padding, which CANN accepts, is refused: the kernel of Atlas A2 and A3 reads it as unsigned. The products
without bfloat16 compute on the AI CPU.
"""

from aclgrad.operators.families.pad.spec import BFLOAT16_ON_SOME, REPLICATION, pad_spec

SPEC = pad_spec(REPLICATION, 3, BFLOAT16_ON_SOME)
