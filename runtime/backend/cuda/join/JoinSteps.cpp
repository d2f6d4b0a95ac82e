#include "runtime/backend/cuda/join/JoinSteps.h"

#include "runtime/backend/cuda/join/AddingConvs.h"
#include "runtime/backend/cuda/join/AttentionResults.h"
#include "runtime/backend/cuda/join/Batches.h"
#include "runtime/backend/cuda/join/ColumnSums.h"
#include "runtime/backend/cuda/join/Epilogue.h"
#include "runtime/backend/cuda/join/SumLoops.h"

#include <algorithm>
#include <map>

namespace tessera::rt::cuda {
namespace {

using Take = std::function<bool(const FoundKernel &)>;

/// A program in which some convolutions add to what memory holds. The loops behind them are other ones then.
class AddingProgram {
public:
  AddingProgram(const plan::Program &program, const std::vector<KernelCall> &calls, const BufferUses &uses)
      : program_(program), calls_(calls), uses_(uses) {}

  void find(JoinedProgram &joins, const BindOptions &options, const Take &take) {
    for (size_t s = 0; s < calls_.size(); ++s)
      if (std::optional<AddingConv> found = addingConvFrom(program_, calls_, s, uses_, joins, options))
        add(*found, joins, options, take);
  }
  /// Takes the loops that have joined nothing.
  void takeLoops(JoinedProgram &joins, const Take &take) const {
    for (const auto &[s, kernel] : loops_)
      if (!joins.taken(s)) {
        const StepSet set{{s}, {joins.accesses()[s]}};
        if (take({{set, kernel}, s, s, FoundKernel::Kind::Loop}))
          joins.join(set, s);
      }
  }

  const plan::Program &program() const { return program_; }
  const std::vector<KernelCall> &calls() const { return calls_; }
  const BufferUses &uses() const { return uses_; }

private:
  void add(const AddingConv &found, JoinedProgram &joins, const BindOptions &options, const Take &take) {
    KernelCall loop = calls_[found.loop];
    const auto &inputs = calls_[found.loop].kernel->inputs();
    const auto sum = std::find(inputs.begin(), inputs.end(), found.sum) - inputs.begin();
    loop.kernel = &found.rest;
    loop.inputs.erase(loop.inputs.begin() + sum);
    Result<std::vector<CudaKernel>> bound = bindCuda(loop, options);
    // Every device runs a kernel that is launches alone. What the convolution has added it need not add again.
    if (!bound || bound->empty() || !std::ranges::all_of(bound->front().actions, [](const Action &action) {
          return std::holds_alternative<Launch>(action);
        }))
      return;
    const StepSet conv{{found.conv}, {found.access}};
    if (!take({{conv, found.kernel}, found.conv, found.conv, FoundKernel::Kind::Product}))
      return;
    joins.join(conv, found.conv);
    StepAccess access = joins.accesses()[found.loop];
    access.reads.erase(access.reads.begin() + sum);
    access.changed = true;
    joins.change(found.loop, std::move(access));
    uses_.addUpdate(found.addend);
    plan::Kernel &kernel = *program_.mutable_steps(int(found.loop))->mutable_kernel();
    kernel = found.rest;
    loop.kernel = &kernel;
    calls_[found.loop] = std::move(loop);
    loops_[found.loop] = std::move(bound->front());
  }

  plan::Program program_;
  std::vector<KernelCall> calls_;
  BufferUses uses_;
  std::map<size_t, CudaKernel> loops_;
};

/// Joins the steps of a program as it is.
void joinAll(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
             const std::vector<ByteRange> &ranges, const BufferUses &uses, const BindOptions &options, Joins which,
             const Take &take) {
  const bool products = which == Joins::All;
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
  auto joinSums = [&](SumsOf which) {
    if (products)
      joinFrom(FoundKernel::Kind::Product,
               [&](size_t s) { return columnSumsFrom(program, calls, s, uses, joins, options, which); });
  };
  auto joinLoops = [&](BatchOf which) {
    joinBatches(joins, program, calls, uses, options, which, [&](const JoinedKernel &batch, size_t place) {
      return take({batch, batch.set.steps.front(), place, FoundKernel::Kind::Batch});
    });
  };
  if (products) {
    joinFrom(FoundKernel::Kind::Product,
             [&](size_t s) { return productFrom(program, calls, s, uses, joins, options); });
    joinSums(SumsOf::NoLoop);
    // Whatever the library refuses, the next one may do.
    for (AttentionBy by : {AttentionBy::Library, AttentionBy::LibraryInParts, AttentionBy::Tiles})
      joinFrom(FoundKernel::Kind::Product,
               [&](size_t s) { return attentionFrom(program, calls, s, uses, joins, options, by); });
  }
  const bool more = which != Joins::Loops;
  if (more)
    joinFrom(FoundKernel::Kind::Rows, [&](size_t s) {
      std::optional<JoinedKernel> rows = rowsFrom(program, calls, s, ranges, uses, joins, options);
      if (rows)
        addSumLoops(*rows, program, calls, uses, joins, options);
      return rows;
    });
  // Behind the rows: what waits for a batch could stand between them.
  joinLoops(BatchOf::LastWrites);
  if (more) {
    joinSums(SumsOf::Any);
    joinFrom(FoundKernel::Kind::Sums, [&](size_t s) { return sumsFrom(program, calls, s, uses, joins, options); });
  }
  joinLoops(BatchOf::Loops);
}

} // namespace

Joins joinsFor(const plan::Plan &plan, const LoadOptions &options) {
  return plan.leaves() > 0 ? Joins::Loops : options.widen ? Joins::NoProducts : Joins::All;
}

void joinSteps(JoinedProgram &joins, const plan::Program &program, const std::vector<KernelCall> &calls,
               const std::vector<ByteRange> &ranges, const BufferUses &uses, const BindOptions &options, Joins which,
               const Take &take) {
  AddingProgram adding(program, calls, uses);
  if (which == Joins::All)
    adding.find(joins, options, take);
  joinAll(joins, adding.program(), adding.calls(), ranges, adding.uses(), options, which, take);
  adding.takeLoops(joins, take);
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
