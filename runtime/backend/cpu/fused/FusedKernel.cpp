#include "runtime/backend/cpu/fused/FusedKernel.h"
#include "runtime/backend/Half.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/fused/OrderedSums.h"
#include "runtime/backend/cpu/fused/TileCode.h"
#include "runtime/backend/reference/ReferenceBackend.h"
#include "runtime/support/Scalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tessera::rt {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u; // its bits; a NaN's are more
constexpr int64_t kSmall = 32 << 10;        // elements below which threads cost more than they bring

int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

class FusedKernel final : public BoundKernel {
public:
  explicit FusedKernel(const KernelCall &call) : call_(call) {}

  bool prepare(const ExpressionCode &code) {
    std::optional<Tape> tape = buildTape(code, call_);
    if (!tape)
      return false;
    tape_ = std::move(*tape);
    // The tile buffers may take about half of the first-level cache.
    int64_t length = tape_.rowLength();
    tile_ = std::clamp<int64_t>(8192 / std::max<int64_t>(tape_.slots, 1), 512, 4096) / 256 * 256;
    tile_ = std::min(tile_, length);
    if (tape_.periodic() && tape_.p <= tile_)
      tile_ -= tile_ % tape_.p; // whole periods
    tilesPerRow_ = (length + tile_ - 1) / tile_;
    int64_t items = tape_.rows() * tilesPerRow_;
    threads_ = items * tile_ < kSmall ? 1 : call_.threads;
    if (tape_.ordered) {
      ordered_.emplace(tape_, threads_, tile_);
      chunks_ = ordered_->shares();
      sumBytes_ = ordered_->bytes();
    } else {
      chunks_ = std::min<int64_t>(items, threads_ * 4);
      placeSums(items);
    }
    laneBytes_ = int64_t(tape_.lanePointers.size()) * kLanes * 8;
    periodBytes_ = tape_.periodic() ? roundUp((tape_.p + tile_) * 8, 64) + 64 : 0;
    slotBytes_ = roundUp(tile_ * (tape_.wide ? 8 : 4), 64) + 64; // + 64: buffers do not map to the same cache sets
    code_ = compileTile(tape_);
    threadBytes_ = laneBytes_ + periodBytes_ * int64_t(tape_.periods.size()) + slotBytes_ * tape_.slots +
                   roundUp(int64_t(tape_.reductions.size()) * kLanes * 8, 64) + kThreadsApart;
    sumBytes_ += kThreadsApart;
    return true;
  }

  std::string describe() const override {
    return std::string("fused ") + vectorOps().isa + " " + std::to_string(tape_.rows()) + "x" +
           std::to_string(tape_.m) + "x" + std::to_string(tape_.p) + " " + std::to_string(tape_.laneOps.size()) + "+" +
           std::to_string(tape_.tileOps.size()) + " ops" + (code_ ? " compiled" : "");
  }

  size_t scratchBytes() const override { return size_t(sumBytes_ + chunks_ * threadBytes_); }

  Status run(std::byte *scratch) override {
    double *sums = reinterpret_cast<double *>(scratch);
    if (ordered_) {
      ordered_->start(sums);
      parallelFor(threads_, chunks_, [&](int64_t first, int64_t last) {
        for (int64_t c = first; c < last; ++c)
          runShare(ordered_->share(c), scratch + sumBytes_ + first * threadBytes_, sums);
      });
      ordered_->finish(call_, sums);
      return Status();
    }
    int64_t items = tape_.rows() * tilesPerRow_;
    // Chunks of groups share one array of sums. Rows that own theirs assign them at their end.
    if (groups_ > 0 && !ownedRows_)
      for (size_t r = 0; r < tape_.reductions.size(); ++r)
        std::fill_n(sumOf(sums, r, 0), tape_.reductions[r].count, neutral(tape_.reductions[r].kind));
    parallelFor(threads_, chunks_, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c) {
        startSums(sums, c);
        runChunk(chunkBegin(c, items), chunkBegin(c + 1, items), scratch + sumBytes_ + first * threadBytes_, sums, c);
      }
    });
    for (size_t r = 0; r < tape_.reductions.size(); ++r)
      finishSum(sums, r);
    return Status();
  }

  bool watch(size_t output, const std::shared_ptr<std::atomic<bool>> &found) override {
    if (call_.outputs[output].dtype != plan::F32)
      return false;
    for (const TapeStore &store : tape_.stores)
      if (store.output == output) {
        watched_.push_back({store.pointer, found});
        return true;
      }
    return false; // a reduction
  }

private:
  /// Chunks are made of whole groups of rows if these have sums of their own, else of tiles.
  int64_t chunkBegin(int64_t c, int64_t items) const {
    if (groups_ > 0)
      return groups_ * c / chunks_ * (tape_.rows() / groups_) * tilesPerRow_;
    return items * c / chunks_;
  }

  void placeSums(int64_t items) {
    if (tape_.reductions.empty())
      return;
    // If every row has its own result elements, chunks share one array of sums.
    ownedRows_ = true;
    int64_t largest = 1;
    for (const TapeReduction &r : tape_.reductions) {
      for (int64_t s : r.place.outer)
        ownedRows_ = ownedRows_ && s != 0;
      largest = std::max(largest, r.count);
    }
    ownedRows_ = ownedRows_ && tape_.rows() >= 16;
    groups_ = ownedRows_ ? tape_.rows() : groupsOfFewTerms(largest);
    if (groups_ > 0)
      chunks_ = std::min<int64_t>(groups_, 16);
    else
      chunks_ = std::clamp<int64_t>((int64_t(4) << 20) / largest, 2, 16);
    if (items * tile_ < kSmall)
      chunks_ = 1;
    chunks_ = std::min(chunks_, items);
    sumBytes_ = 0;
    for (const TapeReduction &r : tape_.reductions) {
      sumAt_.push_back(sumBytes_ / 8);
      sumBytes_ += roundUp(r.count * 8, 64) * (groups_ > 0 ? 1 : chunks_);
    }
  }

  /// Where sums have few terms (the maximum of a pixel's classes), adding up those of several chunks would take longer
  /// than the loop. How many groups of rows there are that share no sum: those of one index of the leading dimensions,
  /// along all of which all sums move. 0 where sums have many terms, or where the groups are too few to be shared out.
  /// The number of threads must not decide it, since sums do not depend on that.
  int64_t groupsOfFewTerms(int64_t largest) const {
    constexpr int64_t kFewTerms = 64, kLeastGroups = 4;
    if (tape_.rows() * tape_.rowLength() >= kFewTerms * largest)
      return 0;
    int64_t groups = 1;
    for (size_t d = 0; d < tape_.outer.size(); ++d) {
      if (std::any_of(tape_.reductions.begin(), tape_.reductions.end(),
                      [&](const TapeReduction &r) { return r.place.outer[d] == 0; }))
        break;
      groups *= tape_.outer[d];
    }
    return groups >= kLeastGroups ? groups : 0;
  }

  double *sumOf(double *sums, size_t r, int64_t chunk) const {
    const TapeReduction &reduction = tape_.reductions[r];
    return sums + sumAt_[r] + (groups_ > 0 ? 0 : chunk * roundUp(reduction.count * 8, 64) / 8);
  }

  static double neutral(plan::Reduction kind) {
    return kind == plan::SUM ? 0 : kind == plan::MAX ? -INFINITY : INFINITY;
  }
  static double combine(plan::Reduction kind, double a, double b) {
    if (kind == plan::SUM)
      return a + b;
    if (a != a || (kind == plan::MAX ? a > b : a < b))
      return a;
    return b;
  }

  void startSums(double *sums, int64_t chunk) const {
    for (size_t r = 0; r < tape_.reductions.size(); ++r) {
      const TapeReduction &reduction = tape_.reductions[r];
      if (groups_ == 0)
        std::fill_n(sumOf(sums, r, chunk), reduction.count, neutral(reduction.kind));
    }
  }

  void finishSum(double *sums, size_t r) const {
    const TapeReduction &reduction = tape_.reductions[r];
    float *out = call_.outputs[reduction.output].as<float>();
    double *first = sumOf(sums, r, 0);
    for (int64_t i = 0; i < reduction.count; ++i) {
      double total = first[i];
      if (groups_ == 0)
        for (int64_t c = 1; c < chunks_; ++c)
          total = combine(reduction.kind, total, sumOf(sums, r, c)[i]);
      out[i] = float(total);
    }
  }

  static int64_t offset(const Shape &strides, const Shape &index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += strides[d] * index[d];
    return at;
  }

  struct Frame {
    std::vector<void *> pointers;
    std::vector<std::byte *> periods;                           // where those of the tape begin
    std::vector<int64_t> inputRow, storeRow, sumRow, sourceRow; // element offsets of the row
    std::vector<int64_t> term;                                  // ordered sums: number of the row's first term
    double *laneSums;
    Shape index;
  };

  /// A frame in a thread's memory that stands at a row.
  Frame frameAt(int64_t row, std::byte *memory) const {
    Frame f;
    f.pointers.assign(tape_.pointers, nullptr);
    for (size_t i = 0; i < tape_.lanePointers.size(); ++i)
      f.pointers[tape_.lanePointers[i]] = memory + int64_t(i) * kLanes * 8;
    memory += laneBytes_;
    for (size_t i = 0; i < tape_.periods.size(); ++i, memory += periodBytes_)
      f.periods.push_back(memory);
    for (auto [pointer, slot] : tape_.slotPointers)
      f.pointers[pointer] = memory + slot * slotBytes_;
    f.laneSums = reinterpret_cast<double *>(memory + slotBytes_ * tape_.slots);
    for (const Tape::Constant &c : tape_.constants)
      if (c.type == plan::I64 || c.type == plan::I32)
        std::fill_n(static_cast<int64_t *>(f.pointers[c.pointer]), kLanes, scalar::convert<int64_t>(c.value));
      else
        std::fill_n(static_cast<float *>(f.pointers[c.pointer]), kLanes,
                    c.type == plan::BOOL ? float(c.value != 0) : float(c.value));
    f.inputRow.resize(tape_.inputs.size());
    f.storeRow.resize(tape_.stores.size());
    f.sumRow.resize(tape_.reductions.size());
    f.term.resize(tape_.reductions.size());
    f.sourceRow.resize(tape_.sources.size());
    f.index.resize(tape_.outer.size());
    for (size_t d = f.index.size(); d-- > 0;) {
      f.index[d] = row % tape_.outer[d];
      row /= tape_.outer[d];
    }
    return f;
  }

  void nextRow(Frame &f) const {
    for (size_t d = f.index.size(); d-- > 0;) {
      if (++f.index[d] < tape_.outer[d])
        break;
      f.index[d] = 0;
    }
  }

  void runShare(const OrderedSums::Share &share, std::byte *memory, double *sums) const {
    Frame f = frameAt(share.firstRow, memory);
    for (int64_t row = share.firstRow; row < share.lastRow; ++row, nextRow(f)) {
      if (!ordered_->owns(share, f.index))
        continue;
      startRow(f, sums);
      for (int64_t t = share.firstTile; t < share.lastTile; ++t)
        runTile(f, t * tile_, std::min(tile_, tape_.rowLength() - t * tile_), sums, 0);
    }
  }

  void runChunk(int64_t begin, int64_t end, std::byte *memory, double *sums, int64_t chunk) const {
    if (begin >= end)
      return;
    Frame f = frameAt(begin / tilesPerRow_, memory);
    for (int64_t item = begin; item < end;) {
      int64_t firstTile = item % tilesPerRow_;
      int64_t lastTile = std::min(tilesPerRow_, firstTile + (end - item));
      startRow(f, sums);
      for (int64_t t = firstTile; t < lastTile; ++t)
        runTile(f, t * tile_, std::min(tile_, tape_.rowLength() - t * tile_), sums, chunk);
      endRow(f, sums, chunk);
      item += lastTile - firstTile;
      nextRow(f);
    }
  }

  /// Every period from its number `phase` on.
  void pointPeriods(Frame &f, int64_t phase) const {
    for (size_t i = 0; i < tape_.periods.size(); ++i)
      f.pointers[tape_.periods[i].pointer] = f.periods[i] + phase * tape_.periods[i].bytes;
  }

  /// Writes every period behind itself, until a tile may begin at any of its numbers.
  void repeatPeriods(Frame &f) const {
    for (size_t i = 0; i < tape_.periods.size(); ++i) {
      const int64_t bytes = tape_.periods[i].bytes, end = (tape_.p + tile_) * bytes;
      for (int64_t at = tape_.p * bytes; at < end; at += tape_.p * bytes)
        std::memcpy(f.periods[i] + at, f.periods[i], size_t(std::min(tape_.p * bytes, end - at)));
    }
  }

  void startRow(Frame &f, double *sums) const {
    pointPeriods(f, 0);
    for (size_t i = 0; i < tape_.inputs.size(); ++i) {
      const TapeInput &in = tape_.inputs[i];
      if (!in.used)
        continue;
      int64_t at = offset(in.place.outer, f.index);
      f.inputRow[i] = at;
      if (in.place.full)
        continue;
      void *lanes = f.pointers[in.pointer];
      const int64_t count = tape_.inPeriod(in.place) ? tape_.p : kLanes;
      if (in.view->dtype == plan::F32 && in.place.laneStride == 1 && tape_.p >= kLanes)
        std::memcpy(lanes, in.view->as<float>() + at, size_t(count) * sizeof(float)); // short rows feel this
      else if (in.view->dtype == plan::F32 && in.place.laneStride == 0)
        std::fill_n(static_cast<float *>(lanes), kLanes, in.view->as<float>()[at]);
      else
        for (int64_t j = 0; j < count; ++j)
          loadLane(*in.view, at + j % tape_.p * in.place.laneStride, lanes, j);
    }
    for (size_t s = 0; s < tape_.sources.size(); ++s)
      f.sourceRow[s] = offset(tape_.sources[s].outer, f.index);
    size_t source = 0;
    for (size_t i = 0; i <= tape_.laneOps.size(); ++i) {
      for (; source < tape_.sources.size() && (tape_.sources[source].full || tape_.sources[source].before == i);
           ++source)
        if (!tape_.sources[source].full)
          runSource(f, source, 0, kLanes);
      if (i == tape_.laneOps.size())
        break;
      const TapeOp &op = tape_.laneOps[i];
      op.run(f.pointers[op.y], f.pointers[op.a], f.pointers[op.b], f.pointers[op.c], op.period ? tape_.p : kLanes);
    }
    repeatPeriods(f);
    for (size_t s = 0; s < tape_.stores.size(); ++s)
      f.storeRow[s] = offset(tape_.stores[s].place.outer, f.index);
    for (size_t r = 0; r < tape_.reductions.size(); ++r) {
      const TapeReduction &reduction = tape_.reductions[r];
      f.sumRow[r] = offset(reduction.place.outer, f.index);
      if (ordered_) {
        f.term[r] = offset(reduction.term, f.index);
        continue;
      }
      std::fill_n(f.laneSums + r * kLanes, kLanes, neutral(reduction.kind));
      if (ownedRows_ && keepsSums(reduction))
        std::fill_n(sumOf(sums, r, 0) + f.sumRow[r], reduction.place.full ? tape_.rowLength() : tape_.p,
                    neutral(reduction.kind));
    }
  }

  /// Whether a row adds to its results at once, not to lanes.
  bool keepsSums(const TapeReduction &r) const { return r.place.full || tape_.inPeriod(r.place); }

  void runTile(Frame &f, int64_t at, int64_t n, double *sums, int64_t chunk) const {
    if (!tape_.periods.empty())
      pointPeriods(f, at % tape_.p);
    for (size_t i = 0; i < tape_.inputs.size(); ++i) {
      const TapeInput &in = tape_.inputs[i];
      if (in.used && in.place.full)
        f.pointers[in.pointer] =
            in.view->as<std::byte>() + (f.inputRow[i] + at) * int64_t(bytesPerElement(in.view->dtype));
    }
    for (size_t s = 0; s < tape_.stores.size(); ++s) {
      const TapeStore &store = tape_.stores[s];
      const TensorView &out = call_.outputs[store.output];
      f.pointers[store.pointer] = out.as<std::byte>() + (f.storeRow[s] + at) * int64_t(bytesPerElement(out.dtype));
    }
    size_t source = 0, next = 0;
    for (size_t i = 0; i <= tape_.tileOps.size(); ++i) {
      for (; source < tape_.sources.size() && (!tape_.sources[source].full || tape_.sources[source].before == i);
           ++source)
        if (tape_.sources[source].full)
          runSource(f, source, at, n);
      if (i == tape_.tileOps.size())
        break;
      if (code_ && next < code_->runs.size() && code_->runs[next].first == i) {
        code_->runs[next].run(f.pointers.data(), n);
        i = code_->runs[next++].last - 1;
        continue;
      }
      const TapeOp &op = tape_.tileOps[i];
      op.run(f.pointers[op.y], f.pointers[op.a], f.pointers[op.b], f.pointers[op.c], n);
    }
    for (size_t r = 0; r < tape_.reductions.size(); ++r)
      reduceTile(f, r, at, n, sums, chunk);
    for (const TapeOp &op : tape_.copyOps)
      op.run(f.pointers[op.y], f.pointers[op.a], f.pointers[op.b], f.pointers[op.c], n);
    for (const auto &[pointer, found] : watched_) // the written numbers are still in the cache
      if (vectorOps().largestPattern(static_cast<const float *>(f.pointers[pointer]), n) >= kInfinity)
        found->store(true, std::memory_order_relaxed);
  }

  static void loadLane(const TensorView &view, int64_t from, void *lanes, int64_t j) {
    switch (view.dtype) {
    case plan::F32:
      static_cast<float *>(lanes)[j] = view.as<float>()[from];
      break;
    case plan::BF16:
      static_cast<float *>(lanes)[j] = toFloat(view.as<Bfloat16>()[from]);
      break;
    case plan::F16:
      static_cast<float *>(lanes)[j] = toFloat(view.as<Half>()[from]);
      break;
    case plan::BOOL:
      static_cast<float *>(lanes)[j] = view.as<uint8_t>()[from] != 0 ? 1.0f : 0.0f;
      break;
    default:
      dispatchNumber(view.dtype,
                     [&](auto tag) { static_cast<int64_t *>(lanes)[j] = int64_t(view.as<decltype(tag)>()[from]); });
    }
  }

  /// n elements of a source from element `at` of the row on (16 lanes of it where it is no full value).
  void runSource(Frame &f, size_t s, int64_t at, int64_t n) const {
    const TapeSource &source = tape_.sources[s];
    if (tape_.periodic()) { // a tile may begin and end within a period
      runPeriods(f, s, at, n);
      return;
    }
    uint64_t first = source.first + uint64_t(f.sourceRow[s] + at / tape_.p * source.strideM);
    // A row without lanes is one period.
    int64_t period = tape_.p == 1 ? n : tape_.p;
    int64_t outer = tape_.p == 1 ? 0 : source.strideM;
    int64_t inner = tape_.p == 1 ? source.strideM : source.strideP;
    makeSource(f, source, 0, first, outer, inner, period, n);
  }

  /// The same of a row of periods.
  void runPeriods(Frame &f, size_t s, int64_t at, int64_t n) const {
    const TapeSource &source = tape_.sources[s];
    for (int64_t done = 0, run; done < n; done += run) {
      const int64_t phase = (at + done) % tape_.p, m = (at + done) / tape_.p;
      run = std::min(n - done, tape_.p - phase);
      const uint64_t first = source.first + uint64_t(f.sourceRow[s] + m * source.strideM + phase * source.strideP);
      makeSource(f, source, done, first, 0, source.strideP, run, run);
    }
  }

  /// n elements from `to` on: element i is number first + i / period * outer + i % period * inner.
  void makeSource(Frame &f, const TapeSource &source, int64_t to, uint64_t first, int64_t outer, int64_t inner,
                  int64_t period, int64_t n) const {
    if (source.op == Op::Random) {
      uint64_t step = uint64_t(*tape_.inputs[source.step].view->as<int64_t>());
      vectorOps().random(static_cast<float *>(f.pointers[source.y]) + to, source.key, first, outer, inner, period, n,
                         step);
      return;
    }
    auto fill = [&](auto *y, auto *count) {
      for (int64_t m = 0; m < n; m += period)
        count(y + m, int64_t(first + uint64_t(m / period * outer)), inner, std::min(period, n - m));
    };
    if (source.type == plan::I64)
      fill(static_cast<int64_t *>(f.pointers[source.y]) + to, vectorOps().countInts);
    else
      fill(static_cast<float *>(f.pointers[source.y]) + to, vectorOps().countFloats);
  }

  /// The function for sums of which each element of a row has its own.
  static auto keptSums(plan::Reduction kind) -> decltype(VectorOps::sumFull) {
    const VectorOps &ops = vectorOps();
    return kind == plan::SUM ? ops.sumFull : kind == plan::MAX ? ops.maxFull : ops.minFull;
  }

  void reduceTile(Frame &f, size_t r, int64_t at, int64_t n, double *sums, int64_t chunk) const {
    const TapeReduction &reduction = tape_.reductions[r];
    const float *x = static_cast<const float *>(f.pointers[reduction.source]);
    if (ordered_) {
      const float *const factor = reduction.dot ? static_cast<const float *>(f.pointers[reduction.factor]) : nullptr;
      ordered_->add(sums, r, f.sumRow[r], f.term[r], at, x, factor, n);
      return;
    }
    if (tape_.inPeriod(reduction.place)) {
      reducePeriods(reduction, sumOf(sums, r, chunk) + f.sumRow[r], x, at % tape_.p, n);
      return;
    }
    double *acc = reduction.place.full ? sumOf(sums, r, chunk) + f.sumRow[r] + at : f.laneSums + r * kLanes;
    if (reduction.dot) {
      vectorOps().dotLanes(acc, x, static_cast<const float *>(f.pointers[reduction.factor]), n);
      return;
    }
    if (reduction.sourceLanes) { // the same lanes for every element of the row
      double *target = acc;
      for (int64_t i = 0; i < n; ++i) {
        double &a = reduction.place.full ? target[i] : target[i % kLanes];
        a = combine(reduction.kind, a, double(x[i % kLanes]));
      }
      return;
    }
    const VectorOps &ops = vectorOps();
    auto *function = reduction.place.full ? keptSums(reduction.kind)
                                          : (reduction.kind == plan::SUM   ? ops.sumLanes
                                             : reduction.kind == plan::MAX ? ops.maxLanes
                                                                           : ops.minLanes);
    function(acc, x, n);
  }

  /// Adds n elements, of which the first has place `phase` in its period, to the sums of a period.
  void reducePeriods(const TapeReduction &reduction, double *acc, const float *x, int64_t phase, int64_t n) const {
    if (reduction.sourceLanes) { // the same lanes everywhere
      for (int64_t i = 0; i < n; ++i) {
        double &a = acc[(phase + i) % tape_.p];
        a = combine(reduction.kind, a, double(x[i % kLanes]));
      }
      return;
    }
    if (reduction.kind == plan::SUM && phase == 0 && n % tape_.p == 0) {
      vectorOps().sumPeriods(acc, x, n, tape_.p);
      return;
    }
    auto *const function = keptSums(reduction.kind);
    for (int64_t done = 0, run; done < n; done += run, phase = 0) {
      run = std::min(n - done, tape_.p - phase);
      function(acc + phase, x + done, run);
    }
  }

  /// Folds the lanes of the row into its result elements: p of them, or one.
  void endRow(Frame &f, double *sums, int64_t chunk) const {
    for (size_t r = 0; r < tape_.reductions.size(); ++r) {
      const TapeReduction &reduction = tape_.reductions[r];
      if (keepsSums(reduction))
        continue;
      const double *lanes = f.laneSums + r * kLanes;
      double *target = sumOf(sums, r, chunk) + f.sumRow[r];
      int64_t distinct = reduction.place.laneStride ? tape_.p : 1;
      if (reduction.kind == plan::SUM && distinct == kLanes && !ownedRows_) {
        for (int64_t j = 0; j < kLanes; ++j)
          target[j] += lanes[j];
        continue;
      }
      for (int64_t j = 0; j < distinct; ++j) {
        double total = lanes[j];
        for (int64_t k = j + distinct; k < kLanes; k += distinct)
          total = combine(reduction.kind, total, lanes[k]);
        double &to = target[j * reduction.place.laneStride];
        to = ownedRows_ ? total : combine(reduction.kind, to, total);
      }
    }
  }

  KernelCall call_;
  Tape tape_;
  std::unique_ptr<TileCode> code_; // for some of the tile's operations
  int threads_ = 1;
  int64_t tile_ = 0, tilesPerRow_ = 1, chunks_ = 1;
  int64_t laneBytes_ = 0, periodBytes_ = 0, slotBytes_ = 0, threadBytes_ = 0, sumBytes_ = 0;
  std::vector<int64_t> sumAt_;
  std::optional<OrderedSums> ordered_;
  int64_t groups_ = 0;     // of rows, with sums of their own; 0: every chunk has all sums
  bool ownedRows_ = false; // every group is a row
  std::vector<std::pair<uint32_t, std::shared_ptr<std::atomic<bool>>>> watched_; // by pointer
};

} // namespace

BindResult bindFusedKernel(const KernelCall &call) {
  Result<ExpressionCode> code = lowerExpression(call);
  if (!code)
    return code.status();
  auto kernel = std::make_unique<FusedKernel>(call);
  if (!kernel->prepare(*code))
    return BindResult(std::unique_ptr<BoundKernel>());
  return BindResult(std::move(kernel));
}

namespace {

/// The functions that a library computes. All other operators have one result.
bool vectorFunctions(Op op, const float *a, const float *b, float *y, int64_t n) {
  switch (op) {
#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, ...)                                                                     \
  case Op::NAME:                                                                                                       \
    if (ElementwiseKind::KIND != ElementwiseKind::FloatUnary && op != Op::Pow)                                         \
      return false;                                                                                                    \
    vectorOps().find(VectorOp::NAME, 0)(y, a, b, nullptr, n);                                                          \
    return true;
#include "runtime/support/Elementwise.def"
  default:
    return false;
  }
}

} // namespace

void registerFusedKernels(KernelRegistry &registry) {
  auto accepts = [](const KernelCall &) { return true; }; // bindFusedKernel declines
  // What it declines depends on shapes and on what is fused.
  auto exact = [](const KernelCall &call) { return call.exact && !call.widen && acceptsPlain(call); };
  auto plain = [](const KernelCall &call) { return bindReferenceExpression(call, vectorFunctions); };
  for (const std::string &name : expressionKernelNames()) {
    registry.add(name, {"fused", accepts, bindFusedKernel});
    registry.add(name, {"plain loops", exact, plain});
  }
}

} // namespace tessera::rt
