"""aclnnReplicationPad1dBackward: the gradient of replication padding over one dimension.

Devices add up bfloat16 only without negative padding.
"""

from aclgrad.operators.families.pad.spec import ON_ALL, REPLICATION, pad_spec

SPEC = pad_spec(REPLICATION, 1, ON_ALL)
