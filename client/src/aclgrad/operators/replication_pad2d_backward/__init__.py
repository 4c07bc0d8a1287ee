"""aclnnReplicationPad2dBackward: the gradient of replication padding over two dimensions."""
