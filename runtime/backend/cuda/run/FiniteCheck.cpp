#include "runtime/backend/cuda/run/FiniteCheck.h"

#include "runtime/backend/cuda/run/KernelCache.h"
#include "runtime/backend/cuda/text/Source.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace tessera::rt::cuda {
namespace {

/// Of a piece: what keeps a block busy, and a large tensor many blocks. A multiple of the word.
constexpr uint64_t kPieceBytes = uint64_t(256) << 10;

/// A pattern in each lane of a word.
constexpr uint64_t lanes(uint64_t pattern, int bits) {
  return bits == 64 ? pattern : pattern * (~uint64_t(0) / ((uint64_t(1) << bits) - 1));
}
static_assert(lanes(0x7c00, 16) == 0x7c007c007c007c00);

} // namespace

// With the exponent's bits e of a number w: ~w & e is 0 where all of them are set, and otherwise at least the lowest of
// them, so that adding all bits below the sign carries into the sign and never out of it.
const std::string &finiteCheckSource() {
  static const std::string source = prelude() + R"cuda(
extern "C" __global__ void __launch_bounds__(256) k(const u64 *pieces, u32 *found) {
  const u64 *piece = pieces + (u64)blockIdx.x * 4;
  const u64 *words = (const u64 *)piece[0];
  const u64 bytes = piece[1], exponent = piece[2], low = piece[3];
  const u32 whole = (u32)(bytes / 8);
  u64 finite = ~0ull;
  for (u32 i = threadIdx.x; i < whole; i += 256u)
    finite &= (~words[i] & exponent) + low;
  if (threadIdx.x == 0 && bytes % 8) {
    u64 last = 0;
    for (u32 i = 0; i < (u32)(bytes % 8); ++i)
      last |= (u64)((const u8 *)(words + whole))[i] << (8 * i);
    finite &= (~last & exponent) + low;
  }
  if (~finite & ~low)
    *found = 1;
}
)cuda";
  return source;
}

FiniteCheck::~FiniteCheck() {
  if (code_)
    device_->api().unloadCode(device_->handle(), code_);
}

void FiniteCheck::add(const TensorView &view) {
  const int bits = static_cast<int>(bytesPerElement(view.dtype)) * 8;
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

/// Everything that can be missing, when it is first asked for.
Status FiniteCheck::prepare() {
  const TesseraDeviceApi &api = device_->api();
  if (!code_) {
    Result<std::vector<std::string>> image = compileKernels(api, device_->capability(), {&finiteCheckSource()}, 1);
    if (!image)
      return image.status();
    TESSERA_RETURN_IF_ERROR(Device::check([&](TesseraMessage *m) {
      return api.loadCode(device_->handle(), image->front().data(), image->front().size(), "k", &code_, m);
    }));
  }
  TESSERA_RETURN_IF_ERROR(device_->finish()); // the last check may still use what is freed now
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
  const uint32_t grid[3] = {static_cast<uint32_t>(pieces_.size()), 1, 1};
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
