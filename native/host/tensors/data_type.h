// Names and sizes of aclDataType and aclFormat.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "acl/acl_base.h"

namespace acl_host {

// "FLOAT16"; for values outside the enum "data type 99".
[[nodiscard]] std::string DataTypeName(aclDataType type);

// The names of all data types, and the data type of one of them.
[[nodiscard]] std::vector<std::string> DataTypeNames();
[[nodiscard]] aclDataType FindDataType(const std::string& name);

// "NCHW"; for values outside the enum "format 99".
[[nodiscard]] std::string FormatName(aclFormat format);

// Formats whose memory layout does not follow the view's dims.
[[nodiscard]] bool IsPrivateFormat(aclFormat format);

}  // namespace acl_host
