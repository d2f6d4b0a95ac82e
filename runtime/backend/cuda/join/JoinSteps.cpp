#include "runtime/backend/cuda/join/JoinSteps.h"

#include "runtime/backend/cuda/join/Epilogue.h"

namespace tessera::rt::cuda {

void joinSteps(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
               const std::vector<ByteRange> &ranges, const BufferUses &uses, const BindOptions &options, bool products,
               const std::function<bool(const FoundKernel &)> &take) {
  for (const bool rows : {false, true})
    for (size_t s = 0; s < calls.size(); ++s) {
      if (joins.taken(s) || !(rows || products))
        continue;
      std::optional<JoinedKernel> found = rows ? rowsFrom(program, calls, s, ranges, uses, joins)
                                               : productFrom(program, calls, s, uses, joins, options);
      const std::optional<size_t> place = found ? joins.place(found->set) : std::nullopt;
      if (!place)
        continue;
      FoundKernel kernel{std::move(*found), s, *place, rows};
      if (take(kernel))
        joins.join(kernel.kernel.set, *place);
    }
}

std::vector<ByteRange> byteRanges(const std::vector<TensorView> &buffers, const char *base) {
  std::vector<ByteRange> ranges;
  for (const TensorView &v : buffers) {
    const uint64_t begin = uint64_t(v.as<char>() - base);
    ranges.push_back({begin, begin + v.bytes()});
  }
  return ranges;
}

} // namespace tessera::rt::cuda
