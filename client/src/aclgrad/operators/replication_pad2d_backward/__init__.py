"""aclnnReplicationPad2dBackward: the gradient of padding the last two dimensions with copies of the edge."""
