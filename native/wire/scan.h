// Extracts the large payloads from a serialized protobuf message: a faster version of aclgrad/wire/scan.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace aclgrad {

// Not a well-formed message.
class MalformedMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The message without its payloads exceeds the limit.
class RestTooLarge : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ByteRange {
  std::size_t start;
  std::size_t stop;
};

struct ExtractedPayloads {
  std::string rest;  // the message with a payload's index, four bytes, in place of each payload
  std::vector<ByteRange> payloads;
};

using FieldPath = std::vector<uint32_t>;

// A payload is a length-delimited field at the end of one of the paths of field numbers, none of which is the beginning
// of another. Throws MalformedMessage, and RestTooLarge as soon as the rest exceeds the limit.
[[nodiscard]] ExtractedPayloads ExtractPayloads(const uint8_t* message, std::size_t size,
                                                const std::vector<FieldPath>& paths, std::size_t max_rest_bytes);

}  // namespace aclgrad
