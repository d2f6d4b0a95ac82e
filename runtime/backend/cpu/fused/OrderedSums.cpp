#include "runtime/backend/cpu/fused/OrderedSums.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tessera::rt {

static_assert(kTurns == kPartialSums && kTerms == kTermsOfBlock);

namespace {

/// The fewest elements of a tile where rows are cut for threads: four vectors.
constexpr int64_t kLeastTile = 4 * kLanes;

int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

} // namespace

OrderedSums::OrderedSums(const Tape &tape, int threads, int64_t &tile) : tape_(tape), owner_(tape.outer.size(), 0) {
  bool keepsRow = true;
  for (const TapeReduction &r : tape_.reductions) {
    keepsRow = keepsRow && r.place.full;
    at_.push_back(bytes_ / 8);
    plane_.push_back(roundUp(r.count, 8));
    bytes_ += plane_.back() * int64_t(sizeof(double) + kPartialSums * sizeof(float));
  }
  for (size_t d = tape_.outer.size(); d-- > 0;)
    if (std::ranges::all_of(tape_.reductions, [&](const TapeReduction &r) { return r.place.outer[d] != 0; })) {
      owner_[d] = owners_;
      owners_ *= tape_.outer[d];
    }
  const int64_t length = tape_.rowLength();
  if (keepsRow && owners_ < threads) {
    byOwner_ = false;
    tile = std::min(tile, roundUp((length + threads - 1) / threads, kLeastTile));
  }
  tiles_ = (length + tile - 1) / tile;
  shares_ = std::min<int64_t>(threads, byOwner_ ? owners_ : tiles_);
}

OrderedSums::Share OrderedSums::share(int64_t number) const {
  Share share = {0, tape_.rows(), 0, owners_, 0, tiles_};
  const int64_t all = byOwner_ ? owners_ : tiles_;
  (byOwner_ ? share.firstOwner : share.firstTile) = all * number / shares_;
  (byOwner_ ? share.lastOwner : share.lastTile) = all * (number + 1) / shares_;
  if (owners_ == tape_.rows()) { // a row is its own owner
    share.firstRow = share.firstOwner;
    share.lastRow = share.lastOwner;
  }
  return share;
}

bool OrderedSums::owns(const Share &share, const Shape &index) const {
  int64_t owner = 0;
  for (size_t d = 0; d < index.size(); ++d)
    owner += owner_[d] * index[d];
  return owner >= share.firstOwner && owner < share.lastOwner;
}

void OrderedSums::start(double *memory) const { std::memset(memory, 0, size_t(bytes_)); }

OrderedSums::Place OrderedSums::place(double *memory, size_t r) const {
  double *const sums = memory + at_[r];
  return {sums, reinterpret_cast<float *>(sums + plane_[r])};
}

void OrderedSums::add(double *memory, size_t r, int64_t result, int64_t term, int64_t at, const float *x,
                      const float *factor, int64_t n) const {
  const TapeReduction &reduction = tape_.reductions[r];
  const Place first = place(memory, r).from(result);
  if (const int64_t segment = reduction.place.segment) {
    for (int64_t done = 0; done < n;) {
      const int64_t inside = (at + done) % segment, apart = reduction.place.segmentStride;
      const Place own = first.from((at + done) / segment * apart);
      const float *const from = x + done, *const by = factor ? factor + done : nullptr;
      if (inside == 0 && n - done >= kLines * segment) {
        addLines(own, apart, r, term, from, by, segment);
        done += kLines * segment;
      } else {
        const int64_t some = std::min(segment - inside, n - done);
        addAlong(own, r, term + inside, from, by, some);
        done += some;
      }
    }
    return;
  }
  if (reduction.place.full) {
    const Place own = first.from(at);
    float *const partial = own.partial + term % kPartialSums * plane_[r];
    factor ? productAdd_(partial, x, factor, partial, n) : add_(partial, partial, x, nullptr, n);
    if ((term + 1) % kTermsOfBlock == 0)
      vectorOps().endBlock(own.sums, own.partial, plane_[r], n);
    return;
  }
  addAlong(first, r, term + at / lanesOf(r), x, factor, n);
}

int64_t OrderedSums::lanesOf(size_t r) const { return tape_.reductions[r].place.laneStride == 0 ? 1 : tape_.p; }

void OrderedSums::addLines(const Place &place, int64_t apart, size_t r, int64_t term, const float *x,
                           const float *factor, int64_t n) const {
  double sums[kLines];
  float partial[kLines * kPartialSums];
  const auto each = [&](auto one) {
    for (int64_t line = 0; line < kLines; ++line) {
      one(sums[line], place.sums[line * apart]);
      for (int64_t t = 0; t < kPartialSums; ++t)
        one(partial[line * kPartialSums + t], place.partial[line * apart + t * plane_[r]]);
    }
  };
  each([](auto &own, auto &sum) { own = sum; });
  factor ? vectorOps().dotLinesInTurn(sums, partial, x, factor, n, n, term)
         : vectorOps().sumLinesInTurn(sums, partial, x, n, n, term);
  each([](auto &own, auto &sum) { sum = own; });
}

void OrderedSums::addAlong(const Place &place, size_t r, int64_t term, const float *x, const float *factor,
                           int64_t n) const {
  const int64_t lanes = lanesOf(r), plane = plane_[r], stride = tape_.reductions[r].place.laneStride;
  alignas(64) double sums[kLanes];
  alignas(64) float partial[kPartialSums * kLanes];
  // Rows may be as short as a vector or two, so that copies one number at a time would take longer than the sums.
  const bool together = stride == 1 && lanes == kLanes;
  const auto each = [&](auto copy) {
    for (int64_t t = -1; t < kPartialSums; ++t)
      for (int64_t j = 0; j < (together ? 1 : lanes); ++j) {
        const auto line = [&](auto *own, auto *all) {
          together ? copy(own, all, std::integral_constant<int64_t, kLanes>())
                   : copy(own + j, all + j * stride, std::integral_constant<int64_t, 1>());
        };
        t < 0 ? line(sums, place.sums) : line(partial + t * lanes, place.partial + t * plane);
      }
  };
  each([](auto *own, auto *all, auto count) { std::memcpy(own, all, size_t(count) * sizeof *own); });
  factor ? vectorOps().dotInTurn(sums, partial, x, factor, n, lanes, term)
         : vectorOps().sumInTurn(sums, partial, x, n, lanes, term);
  each([](auto *own, auto *all, auto count) { std::memcpy(all, own, size_t(count) * sizeof *own); });
}

void OrderedSums::finish(const KernelCall &call, double *memory) const {
  for (size_t r = 0; r < tape_.reductions.size(); ++r) {
    const TapeReduction &reduction = tape_.reductions[r];
    const Place all = place(memory, r);
    vectorOps().endBlock(all.sums, all.partial, plane_[r], reduction.count);
    auto *out = call.outputs[reduction.output].as<float>();
    for (int64_t i = 0; i < reduction.count; ++i)
      out[i] = float(all.sums[i]);
  }
}

} // namespace tessera::rt
