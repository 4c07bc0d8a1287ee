"""aclnnReplicationPad1dBackward: the gradient of replication padding over one dimension."""
