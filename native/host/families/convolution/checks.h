// The checks of aclnnConvolution, in CANN's order.
#pragma once

#include <cstdint>

#include "families/convolution/geometry.h"
#include "plan/checks.h"

namespace acl_host {

void CheckConvolution(const ConvolvedArguments& given, const OptionalArgument& bias, int8_t cube_math_type);

}  // namespace acl_host
