#include "staged_copies.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "bindings.h"
#include "error.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

void ThrowIfCancelled(const Cancellation& cancellation) {
  if (cancellation.is_cancelled) throw NotBegun("the copy", "its client has gone");
}

template <typename Copies>
struct CopyTask {
  Copies copies;
  Deadline deadline;

  void Run(const Cancellation& cancellation) { copies.Run(cancellation, deadline); }
  [[nodiscard]] py::object Result() const {
    if constexpr (std::is_same_v<Copies, StagedReads>) return copies.Messages();
    return py::none();
  }
};

template <typename Copies, typename Item>
std::shared_ptr<Cancellation> SubmitCopies(ServedDevice& served, py::object ticket, const std::vector<Item>& items,
                                           double deadline) {
  return SubmitTask(served.copies, std::move(ticket), CopyTask<Copies>{Copies(served, items), DeadlineOf(deadline)});
}

}  // namespace

StagedWrites::StagedWrites(const ServedDevice& served, const std::vector<Write>& writes) {
  copies_.reserve(writes.size());
  for (const auto& [tensor, offset, data] : writes) {
    ExpectOn(served, tensor, "write " + std::to_string(copies_.size()));
    copies_.push_back({tensor, offset, BufferView(data, /*writable=*/false)});
  }
}

void StagedWrites::Run(const Cancellation& cancellation, Deadline deadline) const {
  for (const auto& [tensor, offset, bytes] : copies_) {
    ThrowIfCancelled(cancellation);
    tensor.held->staging().Write(offset, bytes.data(), bytes.size_bytes(), deadline);
  }
}

StagedReads::StagedReads(const ServedDevice& served, const std::vector<Read>& reads) {
  copies_.reserve(reads.size());
  for (const auto& [tensor, offset, prefix, size_bytes] : reads) {
    ExpectOn(served, tensor, "read " + std::to_string(copies_.size()));
    copies_.push_back({tensor, offset, size_bytes, ReplyBuffer({{std::string_view(prefix), size_bytes}})});
  }
}

void StagedReads::Run(const Cancellation& cancellation, Deadline deadline) const {
  for (const auto& [tensor, offset, size_bytes, message] : copies_) {
    ThrowIfCancelled(cancellation);
    tensor.held->staging().Read(offset, message.payload(0), size_bytes, deadline);
  }
}

py::list StagedReads::Messages() const {
  py::list messages;
  for (const Copy& each : copies_) messages.append(each.message.object());
  return messages;
}

void BindStagedCopies(DeviceClass& device) {
  device.def("write", &SubmitCopies<StagedWrites, Write>, py::arg("ticket"), py::arg("writes"), py::arg("deadline"))
      .def("read", &SubmitCopies<StagedReads, Read>, py::arg("ticket"), py::arg("reads"), py::arg("deadline"));
}

}  // namespace aclgrad
