#include "runtime/backend/cuda/run/CudaInput.h"

namespace tessera::rt::cuda {

Result<std::unique_ptr<InputPath>> CudaInput::create(std::shared_ptr<Device> device,
                                                     const std::vector<Target> &targets) {
  std::unique_ptr<CudaInput> input(new CudaInput(std::move(device)));
  input->targets_ = targets;
  size_t bytes = 0;
  for (const Target &target : targets) {
    input->places_.push_back(bytes);
    bytes += (target.bytes + 255) / 256 * 256;
  }
  for (DeviceMemory *memory : {&input->pinned_[0], &input->pinned_[1], &input->incoming_}) {
    Result<DeviceMemory> made = DeviceMemory::allocate(
        input->device_, bytes, memory == &input->incoming_ ? MemoryKind::Device : MemoryKind::Pinned);
    if (!made)
      return made.status().context("input");
    *memory = std::move(*made);
  }
  for (TesseraEvent **event : {&input->arrived_, &input->taken_})
    TESSERA_RETURN_IF_ERROR(Device::check(
        [&](TesseraMessage *m) { return input->device_->api().createEvent(input->device_->handle(), event, m); }));
  return std::unique_ptr<InputPath>(std::move(input));
}

CudaInput::~CudaInput() {
  // No work may use the memory that is freed now.
  for (int stream : {TESSERA_COPY_STREAM, TESSERA_COMPUTE_STREAM})
    static_cast<void>(device_->finish(stream));
  for (TesseraEvent *event : {arrived_, taken_})
    if (event)
      device_->api().destroyEvent(device_->handle(), event);
}

Status CudaInput::mark(int stream, TesseraEvent *event) {
  return Device::check([&](TesseraMessage *m) { return device_->api().record(device_->handle(), stream, event, m); });
}

Status CudaInput::await(int stream, TesseraEvent *event) {
  return Device::check([&](TesseraMessage *m) { return device_->api().wait(device_->handle(), stream, event, m); });
}

Result<void *> CudaInput::host(size_t i, int set) {
  if (leaving_[set]) {
    TESSERA_RETURN_IF_ERROR(device_->finish(TESSERA_COPY_STREAM));
    leaving_[0] = leaving_[1] = false;
  }
  return static_cast<void *>(pinned_[set].data() + places_[i]);
}

Status CudaInput::send(int set) {
  if (received_) // before the first receive() no program reads what is overwritten
    TESSERA_RETURN_IF_ERROR(await(TESSERA_COPY_STREAM, taken_));
  leaving_[set] = true;
  for (size_t i = 0; i < targets_.size(); ++i)
    TESSERA_RETURN_IF_ERROR(device_->copy(TESSERA_COPY_STREAM, incoming_.data() + places_[i],
                                          pinned_[set].data() + places_[i], targets_[i].bytes));
  return mark(TESSERA_COPY_STREAM, arrived_);
}

Status CudaInput::receive() {
  TESSERA_RETURN_IF_ERROR(await(TESSERA_COMPUTE_STREAM, arrived_));
  for (size_t i = 0; i < targets_.size(); ++i)
    TESSERA_RETURN_IF_ERROR(
        device_->copy(TESSERA_COMPUTE_STREAM, targets_[i].memory, incoming_.data() + places_[i], targets_[i].bytes));
  received_ = true;
  return mark(TESSERA_COMPUTE_STREAM, taken_);
}

} // namespace tessera::rt::cuda
