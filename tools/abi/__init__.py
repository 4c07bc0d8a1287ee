"""The ACL and aclnn C ABI from Python, by the prototypes of native/include."""
