"""The ABI suite: what any library that exports the ACL and aclnn ABI must do."""
