#include "held_staging.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <vector>

#include "bindings.h"
#include "buffers.h"
#include "error.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Makes a staging for each tensor.
struct StageTask {
  struct Tensor {
    std::shared_ptr<HeldStaging> held;
    std::size_t size_bytes;
    Staging::Memory kind;
  };

  std::vector<Tensor> tensors;
  Deadline deadline;

  void Run(const Cancellation&) {
    // Held only when all are complete: if one fails, the others are released on this thread, where the driver may be
    // slow.
    if (Deadline::clock::now() >= deadline) throw NotBegun("the call", "its deadline passed before it was staged");
    std::vector<StagingHandle> stagings;
    stagings.reserve(tensors.size());
    for (const auto& [held, size_bytes, kind] : tensors) stagings.push_back(held->Make(size_bytes, kind));
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].held->Hold(std::move(stagings[i]));
  }

  [[nodiscard]] py::object Result() const {
    py::list staged;
    for (const auto& [held, size_bytes, kind] : tensors) staged.append(StagedTensor{held, size_bytes});
    return staged;
  }
};

// Releases a staging, which may be slow in the driver. Also runs if the device closes, because a staging must not
// outlive its device.
class ReleaseWork final : public SubmittedWork {
 public:
  explicit ReleaseWork(StagingHandle staging) : SubmittedWork(py::object()), staging_(std::move(staging)) {}

  void Run() override { staging_.reset(); }

  [[nodiscard]] bool runs_at_close() const noexcept override { return true; }

 private:
  StagingHandle staging_;
};

// Copies a whole tensor from a file or into one, a part at a time; returns how many bytes a file had.
class FileWork final : public SubmittedWork {
 public:
  enum class Direction { kFromFile, kToFile };

  FileWork(py::object given_ticket, StagedTensor tensor, Direction direction, int file, std::size_t file_offset,
           Deadline deadline)
      : SubmittedWork(std::move(given_ticket)),
        tensor_(std::move(tensor)),
        direction_(direction),
        file_(file),
        file_offset_(file_offset),
        deadline_(deadline) {}

  void Run() override {
    Staging& staging = tensor_.held->staging();
    const std::size_t size = std::min(Staging::kPieceBytes, tensor_.size_bytes - count_);
    std::size_t copied = size;
    if (direction_ == Direction::kFromFile) {
      copied = staging.ReadFile(count_, size, file_, file_offset_ + count_, deadline_);
    } else {
      staging.WriteFile(count_, size, file_, file_offset_ + count_, deadline_);
    }
    count_ += copied;
    is_complete_ = copied != size || count_ == tensor_.size_bytes;
  }

  [[nodiscard]] bool is_complete() const noexcept override { return is_complete_; }

  [[nodiscard]] py::object Result() override {
    if (direction_ == Direction::kToFile) return py::none();
    return py::int_(count_);
  }

 private:
  const StagedTensor tensor_;
  const Direction direction_;
  const int file_;
  const std::size_t file_offset_;
  const Deadline deadline_;
  std::size_t count_ = 0;
  bool is_complete_ = false;
};

// Joins buffers into one bytes object.
struct JoinTask {
  std::vector<BufferView> pieces;
  ReplyBuffer joined;

  void Run(const Cancellation&) {
    std::byte* next = joined.payload(0);
    for (const BufferView& each : pieces) {
      std::memcpy(next, each.data(), each.size_bytes());
      next += each.size_bytes();
    }
  }
  [[nodiscard]] py::object Result() const { return joined.object(); }
};

void Join(ServedDevice& served, py::object ticket, const std::vector<py::object>& given) {
  std::vector<BufferView> pieces;
  std::size_t size_bytes = 0;
  for (const py::object& each : given) size_bytes += pieces.emplace_back(each, /*writable=*/false).size_bytes();
  SubmitTask(served.copies, std::move(ticket), JoinTask{std::move(pieces), ReplyBuffer({{{}, size_bytes}})});
}

void Stage(const py::object& self, py::object ticket, py::object released_ticket,
           const std::vector<std::pair<std::size_t, bool>>& tensors, double deadline) {
  auto& served = self.cast<ServedDevice&>();
  const auto released = std::make_shared<const TicketReturn>(served.completions, std::move(released_ticket));
  std::vector<StageTask::Tensor> staged;
  for (const auto& [size_bytes, on_host] : tensors) {
    staged.push_back({std::make_shared<HeldStaging>(self, released), size_bytes,
                      on_host ? Staging::Memory::kHost : Staging::Memory::kDevice});
  }
  SubmitTask(served.stagings, std::move(ticket), StageTask{std::move(staged), DeadlineOf(deadline)});
}

template <FileWork::Direction direction>
void CopyFile(const StagedTensor& tensor, py::object ticket, int file, std::size_t offset, double deadline) {
  if (!tensor.held) throw py::value_error("the tensor is closed");
  tensor.held->device().copies.Submit(
      std::make_unique<FileWork>(std::move(ticket), tensor, direction, file, offset, DeadlineOf(deadline)));
}

}  // namespace

HeldStaging::~HeldStaging() {
  if (staging_) device_.copies.Submit(std::make_unique<ReleaseWork>(std::move(staging_)));
}

void BindStaging(py::module_& module, DeviceClass& device) {
  py::class_<StagedTensor>(module, "StagedTensor")
      .def_readonly("size_bytes", &StagedTensor::size_bytes)
      // Work under way keeps its own references.
      .def("close", [](StagedTensor& tensor) { tensor.held.reset(); })
      .def(
          "first",
          [](const StagedTensor& tensor, std::size_t size_bytes) {
            if (size_bytes > tensor.size_bytes) throw py::value_error("the tensor has fewer bytes");
            StagedTensor part = tensor;
            part.size_bytes = size_bytes;
            return part;
          },
          py::arg("size_bytes"))
      .def("read_file", &CopyFile<FileWork::Direction::kFromFile>, py::arg("ticket"), py::arg("file"),
           py::arg("offset"), py::arg("deadline"))
      .def("write_file", &CopyFile<FileWork::Direction::kToFile>, py::arg("ticket"), py::arg("file"), py::arg("offset"),
           py::arg("deadline"));
  device.def("stage", &Stage, py::arg("ticket"), py::arg("released_ticket"), py::arg("tensors"), py::arg("deadline"))
      .def("join", &Join, py::arg("ticket"), py::arg("pieces"));
}

}  // namespace aclgrad
