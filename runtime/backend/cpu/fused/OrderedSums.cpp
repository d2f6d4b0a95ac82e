#include "runtime/backend/cpu/fused/OrderedSums.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tessera::rt {

static_assert(kTurns == kPartialSums);

namespace {

/// The fewest elements of a tile where rows are cut for threads: four vectors.
constexpr int64_t kLeastTile = 4 * kLanes;

int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Adds lines of n elements that follow each other, or their products, to kLines results that are `apart`.
void addLines(double *sums, int64_t apart, int64_t plane, int64_t term, const float *x, const float *factor,
              int64_t n) {
  double partial[kLines * kPartialSums];
  const int64_t turn = term % kPartialSums;
  const auto each = [&](auto one) {
    for (int64_t line = 0; line < kLines; ++line)
      for (int64_t t = 0; t < kPartialSums; ++t)
        one(partial[line * kPartialSums + t], sums[line * apart + t * plane]);
  };
  each([](double &own, double &sum) { own = sum; });
  factor ? vectorOps().dotLinesInTurn(partial, x, factor, n, n, turn)
         : vectorOps().sumLinesInTurn(partial, x, n, n, turn);
  each([](double &own, double &sum) { sum = own; });
}

} // namespace

OrderedSums::OrderedSums(const Tape &tape, int threads, int64_t &tile) : tape_(tape), owner_(tape.outer.size(), 0) {
  bool keepsRow = true;
  for (const TapeReduction &r : tape_.reductions) {
    keepsRow = keepsRow && r.place.full;
    at_.push_back(bytes_ / 8);
    plane_.push_back(roundUp(r.count, 8));
    bytes_ += plane_.back() * kPartialSums * 8;
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

void OrderedSums::start(double *memory) const { std::fill_n(memory, bytes_ / 8, 0.0); }

void OrderedSums::add(double *memory, size_t r, int64_t result, int64_t term, int64_t at, const float *x,
                      const float *factor, int64_t n) const {
  const TapeReduction &reduction = tape_.reductions[r];
  const int64_t plane = plane_[r];
  double *sums = memory + at_[r] + result;
  if (const int64_t segment = reduction.place.segment) {
    for (int64_t done = 0; done < n;) {
      const int64_t inside = (at + done) % segment, apart = reduction.place.segmentStride;
      double *const first = sums + (at + done) / segment * apart;
      const float *const from = x + done, *const by = factor ? factor + done : nullptr;
      if (inside == 0 && n - done >= kLines * segment) {
        addLines(first, apart, plane, term, from, by, segment);
        done += kLines * segment;
      } else {
        const int64_t some = std::min(segment - inside, n - done);
        addAlong(first, r, term + inside, from, by, some);
        done += some;
      }
    }
    return;
  }
  if (reduction.place.full) {
    double *const acc = sums + term % kPartialSums * plane + at;
    factor ? vectorOps().dotFull(acc, x, factor, n) : vectorOps().sumFull(acc, x, n);
    return;
  }
  addAlong(sums, r, term + at / lanesOf(r), x, factor, n);
}

int64_t OrderedSums::lanesOf(size_t r) const { return tape_.reductions[r].place.laneStride == 0 ? 1 : tape_.p; }

void OrderedSums::addAlong(double *sums, size_t r, int64_t term, const float *x, const float *factor, int64_t n) const {
  const int64_t lanes = lanesOf(r), plane = plane_[r], stride = tape_.reductions[r].place.laneStride;
  alignas(64) double partial[kPartialSums * kLanes];
  // Rows may be as short as a vector or two, so that copies one number at a time would take longer than the sums.
  const bool together = stride == 1 && lanes == kLanes;
  const auto copy = [&](auto one) {
    for (int64_t t = 0; t < kPartialSums; ++t)
      if (together)
        one(t * kLanes, t * plane, std::integral_constant<int64_t, kLanes>());
      else
        for (int64_t j = 0; j < lanes; ++j)
          one(t * lanes + j, t * plane + j * stride, std::integral_constant<int64_t, 1>());
  };
  copy([&](int64_t i, int64_t s, auto count) { std::memcpy(partial + i, sums + s, size_t(count) * sizeof(double)); });
  const int64_t turn = term % kPartialSums;
  factor ? vectorOps().dotInTurn(partial, x, factor, n, lanes, turn)
         : vectorOps().sumInTurn(partial, x, n, lanes, turn);
  copy([&](int64_t i, int64_t s, auto count) { std::memcpy(sums + s, partial + i, size_t(count) * sizeof(double)); });
}

void OrderedSums::finish(const KernelCall &call, const double *memory) const {
  for (size_t r = 0; r < tape_.reductions.size(); ++r) {
    const TapeReduction &reduction = tape_.reductions[r];
    const double *sums = memory + at_[r];
    const int64_t plane = plane_[r];
    auto *out = call.outputs[reduction.output].as<float>();
    for (int64_t i = 0; i < reduction.count; ++i)
      out[i] = float(sumOfPartials(sums[i], sums[plane + i], sums[2 * plane + i], sums[3 * plane + i]));
  }
}

} // namespace tessera::rt
