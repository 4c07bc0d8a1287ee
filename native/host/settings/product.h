// What distinguishes one Ascend product from another, as far as a program can see it. One row per product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace acl_host {

struct Product {
  const char* name;                 // as the configuration and the operators' product lists spell it
  const char* soc_name;             // what aclrtGetSocName returns
  int32_t stream_limit;             // streams of one device, default streams included
  size_t event_limit;               // events of one device
  size_t allocation_padding_bytes;  // what aclrtMalloc adds to the rounded size
  bool bfloat16;                    // where an operator leaves BF16 to the product
};

// Throws if there is no such product; the message lists those there are.
[[nodiscard]] const Product& FindProduct(const std::string& name);

}  // namespace acl_host
