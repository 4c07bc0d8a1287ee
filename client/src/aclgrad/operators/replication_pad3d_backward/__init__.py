"""aclnnReplicationPad3dBackward: the gradient of replication padding over three dimensions."""
