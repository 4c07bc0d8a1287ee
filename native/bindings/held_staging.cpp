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

// Makes a staging and its tensors.
class StageWork final : public SubmittedWork {
 public:
  // The size of each tensor, and whether it goes to host memory.
  using Tensors = std::vector<std::pair<std::size_t, bool>>;

  StageWork(py::object given_ticket, py::object released_ticket, py::object device, Tensors tensors, Deadline deadline)
      : SubmittedWork(std::move(given_ticket)),
        held_(std::make_shared<HeldStaging>(std::move(device), std::move(released_ticket))),
        tensors_(std::move(tensors)),
        deadline_(deadline) {}

  void Run() override {
    // Held only when it is complete: if this fails, the staging is released on this thread, where the driver may be
    // slow.
    if (Deadline::clock::now() >= deadline_) throw NotBegun("the call", "its deadline passed before it was staged");
    StagingHandle staging = held_->Make();
    for (const auto& [size_bytes, on_host] : tensors_) {
      numbers_.push_back(on_host ? staging->ReserveOnHost(size_bytes) : staging->Reserve(size_bytes));
    }
    held_->Hold(std::move(staging));
  }

  [[nodiscard]] py::object Result() override {
    py::list tensors;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      tensors.append(StagedTensor{held_, numbers_[i], tensors_[i].first});
    }
    return tensors;
  }

 private:
  const std::shared_ptr<HeldStaging> held_;
  const Tensors tensors_;
  const Deadline deadline_;
  std::vector<std::size_t> numbers_;
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
      copied = staging.ReadFile(tensor_.number, count_, size, file_, file_offset_ + count_, deadline_);
    } else {
      staging.WriteFile(tensor_.number, count_, size, file_, file_offset_ + count_, deadline_);
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
class JoinWork final : public SubmittedWork {
 public:
  JoinWork(py::object given_ticket, const std::vector<py::object>& pieces) : SubmittedWork(std::move(given_ticket)) {
    std::size_t size_bytes = 0;
    for (const py::object& each : pieces) {
      size_bytes += pieces_.emplace_back(each, /*writable=*/false).size_bytes();
    }
    joined_ = std::make_unique<ReplyBuffer>(std::vector<ReplyBuffer::Section>{{{}, size_bytes}});
    next_ = joined_->payload(0);
  }

  void Run() override {
    for (const BufferView& each : pieces_) {
      std::memcpy(next_, each.data(), each.size_bytes());
      next_ += each.size_bytes();
    }
  }

  [[nodiscard]] py::object Result() override { return joined_->object(); }

 private:
  std::vector<BufferView> pieces_;
  std::unique_ptr<ReplyBuffer> joined_;
  std::byte* next_;
};

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
      .def("read_file", &CopyFile<FileWork::Direction::kFromFile>, py::arg("ticket"), py::arg("file"),
           py::arg("offset"), py::arg("deadline"))
      .def("write_file", &CopyFile<FileWork::Direction::kToFile>, py::arg("ticket"), py::arg("file"), py::arg("offset"),
           py::arg("deadline"));
  device.def(
      "stage",
      [](const py::object& self, py::object ticket, py::object released_ticket, StageWork::Tensors tensors,
         double deadline) {
        self.cast<ServedDevice&>().stagings.Submit(std::make_unique<StageWork>(
            std::move(ticket), std::move(released_ticket), self, std::move(tensors), DeadlineOf(deadline)));
      },
      py::arg("ticket"), py::arg("released_ticket"), py::arg("tensors"), py::arg("deadline"));
  device.def(
      "join",
      [](ServedDevice& served, py::object ticket, const std::vector<py::object>& pieces) {
        served.copies.Submit(std::make_unique<JoinWork>(std::move(ticket), pieces));
      },
      py::arg("ticket"), py::arg("pieces"));
}

}  // namespace aclgrad
