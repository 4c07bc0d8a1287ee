"""aclnnReplicationPad2dBackward: the gradient of replication padding over two dimensions.

Devices add up bfloat16 in one kernel, which takes no negative padding, and large padding only within rows.
"""

from aclgrad.operators.families.pad.spec import ON_ALL, REPLICATION, pad_spec

SPEC = pad_spec(REPLICATION, 2, ON_ALL)
