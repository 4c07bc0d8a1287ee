// The differences between Ascend products that a program can see: one row per product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace acl_host {

enum class Product { k910A, k910B, k910_93, k310P, k310B, k950 };

using Products = std::initializer_list<Product>;

struct ProductFacts {
  const char* name;                 // as in the configuration
  const char* soc_name;             // the result of aclrtGetSocName
  int32_t stream_limit;             // streams of one device, including default streams
  size_t event_limit;               // events of one device
  size_t allocation_padding_bytes;  // added by aclrtMalloc to the rounded size
  bool has_bf16;                    // for operators whose BF16 depends on the product
};

[[nodiscard]] const ProductFacts& FactsOf(Product product);

[[nodiscard]] inline bool HasBf16(Product product) { return FactsOf(product).has_bf16; }

// Throws if there is no such product; the message lists all products.
[[nodiscard]] Product FindProduct(const std::string& name);

}  // namespace acl_host
