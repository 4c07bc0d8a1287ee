/* The extension of libacl_host.so to CANN's ABI. Programs look the function up at run time, and work without it.
 * Usable from C and C++. */
#ifndef ACL_HOST_ACL_HOST_EXT_H_
#define ACL_HOST_ACL_HOST_EXT_H_

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1: any memory of the process may hold the data of tensors, serve as workspace and stand in for device memory in
 * copies, at any byte alignment. 0: only memory from aclrtMalloc may, as on a device with its own memory. */
ACL_FUNC_VISIBILITY aclError aclHostPointersUsable(int32_t* usable);

#ifdef __cplusplus
}
#endif

#endif /* ACL_HOST_ACL_HOST_EXT_H_ */
