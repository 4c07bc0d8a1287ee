// The differences between Ascend products that a program can see: one row per product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace acl_host {

struct Product {
  const char* name;                 // as in the configuration and in the operators' product lists
  const char* soc_name;             // the result of aclrtGetSocName
  int32_t stream_limit;             // streams of one device, including default streams
  size_t event_limit;               // events of one device
  size_t allocation_padding_bytes;  // added by aclrtMalloc to the rounded size
  bool bfloat16;                    // for operators whose BF16 depends on the product
};

// Throws if there is no such product; the message lists all products.
[[nodiscard]] const Product& FindProduct(const std::string& name);

}  // namespace acl_host
