/* What libacl_host.so has beyond CANN. Programs look the function up at run time and do without where it is missing.
 * Usable from C and C++. */
#ifndef ACL_HOST_ACL_HOST_EXT_H_
#define ACL_HOST_ACL_HOST_EXT_H_

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1: any memory of the process may hold the data of tensors, serve as workspace and stand in for device memory in
 * copies, at any byte alignment. 0: only memory from aclrtMalloc may, as with a device of its own memory. */
ACL_FUNC_VISIBILITY aclError aclHostPointersUsable(int32_t* usable);

#ifdef __cplusplus
}
#endif

#endif /* ACL_HOST_ACL_HOST_EXT_H_ */
