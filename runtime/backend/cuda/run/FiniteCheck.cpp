#include "runtime/backend/cuda/run/FiniteCheck.h"

#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/run/KernelCache.h"
#include "runtime/backend/cuda/run/KernelNames.h"
#include "runtime/backend/cuda/text/Source.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace tessera::rt::cuda {
namespace {

/// The size of a piece. It keeps a block busy, and gives a large tensor many blocks. It is a
/// multiple of a word.
constexpr uint64_t kPieceBytes = uint64_t(256) << 10;

/// A pattern in each lane of a word.
constexpr uint64_t lanes(uint64_t pattern, int bits) {
  return bits == 64 ? pattern : pattern * (~uint64_t(0) / ((uint64_t(1) << bits) - 1));
}
static_assert(lanes(0x7c00, 16) == 0x7c007c007c007c00);

} // namespace

const std::string &finiteCheckSource() {
  static const std::string source = prelude() + kernels::kFiniteCheck;
  return source;
}

FiniteCheck::~FiniteCheck() {
  if (code_)
    device_->api().unloadCode(device_->handle(), code_);
}

void FiniteCheck::add(const TensorView &view) {
  const int bits = int(bytesPerElement(view.dtype)) * 8;
  uint64_t exponent = 0;
  switch (view.dtype) {
  case plan::F64:
    exponent = 0x7ff0000000000000;
    break;
  case plan::F32:
    exponent = 0x7f800000;
    break;
  case plan::F16:
    exponent = 0x7c00;
    break;
  case plan::BF16:
    exponent = 0x7f80;
    break;
  default:
    return;
  }
  const uint64_t all = view.bytes(), begin = reinterpret_cast<uint64_t>(view.as<char>());
  for (uint64_t at = 0; at < all; at += kPieceBytes)
    pieces_.push_back({begin + at, std::min(kPieceBytes, all - at), lanes(exponent, bits),
                       lanes((uint64_t(1) << (bits - 1)) - 1, bits)});
  prepared_ = false;
}

/// Allocates and compiles at first use all that the check needs.
Status FiniteCheck::prepare() {
  const TesseraDeviceApi &api = device_->api();
  if (!code_) {
    const NamedKernel kernel = nameKernel(finiteCheckSource(), "finite_check");
    Result<std::vector<std::string>> image = compileKernels(api, device_->capability(), {&kernel.source}, 1);
    if (!image)
      return image.status();
    TESSERA_RETURN_IF_ERROR(Device::check([&](TesseraMessage *m) {
      return api.loadCode(device_->handle(), image->front().data(), image->front().size(), kernel.name.c_str(), &code_,
                          m);
    }));
  }
  TESSERA_RETURN_IF_ERROR(device_->finish()); // the last check may still use the memory that is freed now
  const size_t bytes = pieces_.size() * sizeof(Piece);
  for (auto [memory, size, kind] : {std::tuple{&table_, bytes, MemoryKind::Device},
                                    {&flag_, sizeof(uint32_t), MemoryKind::Device},
                                    {&answer_, std::max(bytes, sizeof(uint32_t)), MemoryKind::Pinned}}) {
    Result<DeviceMemory> made = DeviceMemory::allocate(device_, size, kind);
    if (!made)
      return made.status().context("looking for what is not finite");
    *memory = std::move(*made);
  }
  std::memcpy(answer_.data(), pieces_.data(), bytes);
  TESSERA_RETURN_IF_ERROR(device_->copy(TESSERA_COMPUTE_STREAM, table_.data(), answer_.data(), bytes));
  prepared_ = true;
  return device_->finish();
}

Status FiniteCheck::enqueue() {
  if (pieces_.empty())
    return Status();
  if (!prepared_)
    TESSERA_RETURN_IF_ERROR(prepare());
  const TesseraDeviceApi &api = device_->api();
  TESSERA_RETURN_IF_ERROR(Device::check([&](TesseraMessage *m) {
    return api.fill(device_->handle(), TESSERA_COMPUTE_STREAM, flag_.data(), 0, sizeof(uint32_t), m);
  }));
  void *table = table_.data(), *flag = flag_.data();
  void *arguments[] = {&table, &flag};
  const uint32_t grid[3] = {uint32_t(pieces_.size()), 1, 1};
  TESSERA_RETURN_IF_ERROR(Device::check([&](TesseraMessage *m) {
    return api.launch(device_->handle(), TESSERA_COMPUTE_STREAM, code_, grid, 256, arguments, 2, m);
  }));
  asked_ = true;
  return device_->copy(TESSERA_COMPUTE_STREAM, answer_.data(), flag_.data(), sizeof(uint32_t));
}

void FiniteCheck::collect() {
  uint32_t answer = 0;
  if (!std::exchange(asked_, false))
    return;
  std::memcpy(&answer, answer_.data(), sizeof answer);
  if (answer != 0)
    *found_ = true;
}

} // namespace tessera::rt::cuda
