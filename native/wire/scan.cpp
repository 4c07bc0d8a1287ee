#include "scan.h"

namespace aclgrad {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kLength = 2, kGroupStart = 3, kGroupEnd = 4, kFixed32 = 5 };

constexpr unsigned kMaxVarintBytes = 10;
// The most bytes of a varint that is a tag or a length, as protobuf reads them; longer encodings are refused.
constexpr unsigned kMaxSizeBytes = 5;
// Far more than any real message has; limits the time for a message of tiny fields.
constexpr int kMaxFields = 20'000;

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7F) | 0x80));
  out.push_back(static_cast<char>(value));
}

// The paths that a field may belong to, a bit for each.
using Paths = uint32_t;

class Scanner {
 public:
  Scanner(const uint8_t* message, const std::vector<FieldPath>& paths, std::size_t max_rest_bytes)
      : message_(message), paths_(paths), max_rest_bytes_(max_rest_bytes) {}

  // Appends the range to rest, with an index in place of each payload; the paths lead there with their first fields.
  void Replace(std::size_t position, std::size_t end, std::size_t depth, Paths paths, std::string& rest);

  std::vector<ByteRange> payloads;

 private:
  // Drops bits beyond the 64th, which no tag or length has.
  // Those of the paths that go on with this field.
  [[nodiscard]] Paths With(Paths paths, std::size_t depth, uint64_t field) const;
  [[nodiscard]] bool IsEnd(Paths paths, std::size_t depth) const;
  uint64_t ReadVarint(std::size_t& position, std::size_t end, unsigned max_bytes) const;
  void Append(std::string& rest, std::size_t start, std::size_t stop) const {
    rest.append(reinterpret_cast<const char*>(message_) + start, stop - start);
  }

  const uint8_t* message_;
  const std::vector<FieldPath>& paths_;
  const std::size_t max_rest_bytes_;
};

uint64_t Scanner::ReadVarint(std::size_t& position, std::size_t end, unsigned max_bytes) const {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 7 * max_bytes && position < end; shift += 7) {
    const uint8_t byte = message_[position++];
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  throw MalformedMessage("byte " + std::to_string(position) + " of the message is inside a varint that does not end");
}

Paths Scanner::With(Paths paths, std::size_t depth, uint64_t field) const {
  Paths found = 0;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    if ((paths >> i & 1U) != 0 && paths_[i][depth] == field) found |= Paths{1} << i;
  }
  return found;
}

bool Scanner::IsEnd(Paths paths, std::size_t depth) const {
  std::size_t first = 0;
  while ((paths >> first & 1U) == 0) ++first;
  return depth + 1 == paths_[first].size();
}

void Scanner::Replace(std::size_t position, std::size_t end, std::size_t depth, Paths paths, std::string& rest) {
  std::size_t kept = position;
  std::size_t open_groups = 0;
  int field_count = 0;
  while (position < end) {
    if (++field_count > kMaxFields) {
      throw MalformedMessage("the message has more than " + std::to_string(kMaxFields) +
                             " fields; send fewer steps or inputs in one message");
    }
    const std::size_t start = position;
    const uint64_t tag = ReadVarint(position, end, kMaxSizeBytes);
    const auto wire_type = static_cast<int>(tag & 7);
    // A field that does not fit ends beyond the end, whatever its length.
    std::size_t stop = end + 1;
    if (wire_type == kLength) {
      const uint64_t length = ReadVarint(position, end, kMaxSizeBytes);
      if (length <= end - position) stop = position + length;
      const Paths further = stop <= end && open_groups == 0 ? With(paths, depth, tag >> 3) : 0;
      if (further != 0) {
        Append(rest, kept, start);
        AppendVarint(rest, tag);
        if (IsEnd(further, depth)) {
          const auto index = static_cast<uint32_t>(payloads.size());
          payloads.push_back({position, stop});
          AppendVarint(rest, sizeof index);
          for (unsigned shift = 0; shift < 32; shift += 8) rest.push_back(static_cast<char>(index >> shift & 0xFF));
        } else {
          std::string body;
          Replace(position, stop, depth + 1, further, body);
          AppendVarint(rest, body.size());
          rest += body;
        }
        kept = stop;
      }
    } else if (wire_type == kVarint) {
      static_cast<void>(ReadVarint(position, end, kMaxVarintBytes));
      stop = position;
    } else if (wire_type == kFixed64 || wire_type == kFixed32) {
      const std::size_t width = wire_type == kFixed64 ? 8 : 4;
      if (width <= end - position) stop = position + width;
    } else if (wire_type == kGroupStart) {
      ++open_groups;
      stop = position;
    } else if (wire_type == kGroupEnd && open_groups != 0) {
      --open_groups;
      stop = position;
    } else {
      throw MalformedMessage("byte " + std::to_string(start) + " of the message does not start a field (wire type " +
                             std::to_string(wire_type) + ")");
    }
    if (stop > end) {
      throw MalformedMessage("the field at byte " + std::to_string(start) + " of the message ends beyond it");
    }
    position = stop;
    if (rest.size() + (position - kept) > max_rest_bytes_) {
      throw RestTooLarge("more than " + std::to_string(max_rest_bytes_) + " bytes of the message are not payload");
    }
  }
  if (open_groups != 0) throw MalformedMessage("the message ends inside a group");
  Append(rest, kept, end);
}

}  // namespace

ExtractedPayloads ExtractPayloads(const uint8_t* message, std::size_t size, const std::vector<FieldPath>& paths,
                                  std::size_t max_rest_bytes) {
  Scanner scanner(message, paths, max_rest_bytes);
  std::string rest;
  scanner.Replace(0, size, 0, (Paths{1} << paths.size()) - 1, rest);
  return {std::move(rest), std::move(scanner.payloads)};
}

}  // namespace aclgrad
