#include "tensors/half.h"

#include "acl/acl_base.h"

float aclFloat16ToFloat(aclFloat16 value) { return acl_host::Float16{value}.ToFloat(); }

aclFloat16 aclFloatToFloat16(float value) { return acl_host::Float16::FromFloat(value).bits; }
