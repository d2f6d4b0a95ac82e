#include "runtime/backend/cuda/join/JoinSteps.h"

#include "runtime/backend/cuda/join/AttentionResults.h"
#include "runtime/backend/cuda/join/Batches.h"
#include "runtime/backend/cuda/join/Epilogue.h"
#include "runtime/backend/cuda/join/SumLoops.h"

namespace tessera::rt::cuda {

void joinSteps(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
               const std::vector<ByteRange> &ranges, const BufferUses &uses, const BindOptions &options, bool products,
               const std::function<bool(const FoundKernel &)> &take) {
  auto joinFrom = [&](FoundKernel::Kind kind, const std::function<std::optional<JoinedKernel>(size_t)> &from) {
    for (size_t s = 0; s < calls.size(); ++s) {
      if (joins.taken(s))
        continue;
      std::optional<JoinedKernel> found = from(s);
      const std::optional<size_t> place = found ? joins.place(found->set) : std::nullopt;
      if (!place)
        continue;
      FoundKernel kernel{std::move(*found), s, *place, kind};
      if (take(kernel))
        joins.join(kernel.kernel.set, *place);
    }
  };
  auto joinLoops = [&](BatchOf which) {
    joinBatches(joins, program, calls, uses, options, which, [&](const JoinedKernel &batch, size_t place) {
      return take({batch, batch.set.steps.front(), place, FoundKernel::Kind::Batch});
    });
  };
  if (products) {
    joinFrom(FoundKernel::Kind::Product,
             [&](size_t s) { return productFrom(program, calls, s, uses, joins, options); });
    joinFrom(FoundKernel::Kind::Product,
             [&](size_t s) { return attentionFrom(program, calls, s, uses, joins, options); });
  }
  joinLoops(BatchOf::LastWrites);
  joinFrom(FoundKernel::Kind::Rows, [&](size_t s) {
    std::optional<JoinedKernel> rows = rowsFrom(program, calls, s, ranges, uses, joins, options);
    if (rows)
      addSumLoops(*rows, program, calls, uses, joins, options);
    return rows;
  });
  joinFrom(FoundKernel::Kind::Sums, [&](size_t s) { return sumsFrom(program, calls, s, uses, joins, options); });
  joinLoops(BatchOf::Loops);
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
