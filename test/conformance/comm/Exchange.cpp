#include "test/conformance/comm/Model.h"
#include "test/conformance/comm/Suite.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace tessera::rt::conformance {
namespace {

/// A message of a random pattern that all ranks generate alike.
struct Message {
  int from, to;
  Box source, target;
};

/// A box of up to `dims` dimensions inside a buffer of `shape`, dense or strided, maybe transposed.
Box randomBox(const std::vector<int64_t> &shape, uint64_t &state) {
  auto draw = [&](int64_t n) { return int64_t(mix(state++) % uint64_t(n)); };
  Box box;
  int64_t stride = 1;
  std::vector<std::pair<int64_t, int64_t>> dims; // count, stride
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t step = 1 + (draw(4) == 0), start = draw(shape[d]);
    const int64_t most = (shape[d] - start + step - 1) / step;
    box.offset += start * stride;
    dims.insert(dims.begin(), {1 + draw(most), step * stride});
    stride *= shape[d];
  }
  if (draw(3) == 0)
    std::reverse(dims.begin(), dims.end());
  for (auto [count, s] : dims) {
    box.count.push_back(count);
    box.stride.push_back(s);
  }
  return box;
}

/// A box with as many elements as `source`: the same counts, or all in one dimension, or with the
/// dimensions regrouped, packed at a free place of the target.
Box packedBox(const Box &source, int64_t offset, uint64_t &state) {
  Box box;
  box.offset = offset;
  box.count = source.count;
  int64_t elements = 1;
  for (int64_t c : source.count)
    elements *= c;
  switch (mix(state++) % 4) {
  case 0:
    box.count = {elements};
    break;
  case 1: // a divisor of the whole as the outer dimension: cuts across the source's dimensions
    for (int64_t d = 2; d <= elements; ++d)
      if (elements % d == 0) {
        box.count = {d, elements / d};
        break;
      }
    break;
  default:
    break;
  }
  box.stride.assign(box.count.size(), 1);
  for (size_t d = box.count.size(); d-- > 1;)
    box.stride[d - 1] = box.stride[d] * box.count[d];
  return box;
}

void randomBoxes(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  const std::vector<int64_t> shape = {5, 4, 7};
  const int n = comm->size();
  for (uint64_t round = 0; round < 60; ++round) {
    const plan::DType dtype = kAllTypes[round % kAllTypes.size()];
    const size_t size = elementSize(dtype);
    uint64_t state = round * 100000;
    std::vector<Message> messages;
    std::vector<int64_t> used(n, 3); // elements of each target that are taken; a gap in front
    const int count = 1 + int(mix(round) % (2 * n + 2));
    for (int i = 0; i < count; ++i) {
      Message m;
      m.from = int(mix(state++) % n);
      m.to = int(mix(state++) % n);
      m.source = randomBox(shape, state);
      m.target = packedBox(m.source, used[m.to], state);
      used[m.to] += int64_t(offsets(m.source).size()) + 2;
      messages.push_back(std::move(m));
    }
    // The brute-force model: element by element.
    const int me = comm->rank();
    Bytes out(used[me] * size, 0x01), expected = out;
    std::vector<Transfer> sends, receives;
    for (const Message &m : messages) {
      if (m.from == me)
        sends.push_back({m.to, m.source});
      if (m.to != me)
        continue;
      receives.push_back({m.from, m.target});
      const Bytes in = values(dtype, 5 * 4 * 7, m.from, round);
      const std::vector<int64_t> from = offsets(m.source), to = offsets(m.target);
      for (size_t i = 0; i < from.size(); ++i)
        std::memcpy(expected.data() + to[i] * size, in.data() + from[i] * size, size);
    }
    const Bytes in = values(dtype, 5 * 4 * 7, me, round);
    check.ok(comm->exchange(in.data(), sends, out.data(), receives, dtype), "exchange");
    check.that(out == expected, "exchange " + std::to_string(round) + ": wrong result");
  }
}

/// The all-to-all of a matrix: rows scattered become columns scattered.
void transposeSharding(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  const int64_t n = comm->size(), me = comm->rank();
  for (int64_t scale : {1, 50}) {
    const int64_t rows = n * 2 * scale, columns = n * 3 * scale, r = rows / n, c = columns / n;
    std::vector<float> in(r * columns), out(rows * c, -1);
    for (int64_t i = 0; i < r * columns; ++i)
      in[i] = float(me * r * columns + i); // the element's global index
    std::vector<Transfer> sends, receives;
    for (int peer = 0; peer < n; ++peer) {
      sends.push_back({peer, {peer * c, {r, c}, {columns, 1}}});
      receives.push_back({peer, {peer * r * c, {r, c}, {c, 1}}});
    }
    check.ok(comm->exchange(in.data(), sends, out.data(), receives, plan::F32), "all-to-all");
    bool right = true;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < c; ++j)
        right &= out[i * c + j] == float(i * columns + me * c + j);
    check.that(right, "all-to-all: wrong result");
  }
}

/// A matrix whose rows all members hold goes to fewer members, which hold its columns. The last member sends only.
void fewerMembers(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  const int64_t n = comm->size(), me = comm->rank(), fewer = std::max<int64_t>(1, n - 1);
  for (int64_t scale : {1, 70}) {
    const int64_t r = 2 * scale, rows = n * r, c = 3 * scale, columns = fewer * c;
    std::vector<double> in(size_t(r * columns)), out(me < fewer ? size_t(rows * c) : 0, -1);
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = double(me * r * columns + int64_t(i)); // the element's global index
    std::vector<Transfer> sends, receives;
    for (int64_t peer = fewer; peer-- > 0;)
      sends.push_back({int(peer), {peer * c, {r, c}, {columns, 1}}});
    for (int64_t peer = 0; peer < n && me < fewer; ++peer)
      receives.push_back({int(peer), {peer * r * c, {r, c}, {c, 1}}});
    check.ok(comm->exchange(in.data(), sends, out.data(), receives, plan::F64), "to fewer members");
    bool right = true;
    for (size_t i = 0; i < out.size(); ++i)
      right &= out[i] == double(int64_t(i) / c * columns + me * c + int64_t(i) % c);
    check.that(right, "to fewer members: wrong result");
  }
}

/// Members send border rows to their neighbours. The ends of the line receive from one side only.
void halo(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  const int n = comm->size(), me = comm->rank();
  const int64_t batch = 2, rows = 3, width = 40;
  std::vector<int32_t> in(batch * rows * width), out(batch * (rows + 2) * width, -7);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = me * 10000 + int32_t(i);
  auto inRow = [&](int64_t row) { return Box{row * width, {batch, 1, width}, {rows * width, width, 1}}; };
  auto outRow = [&](int64_t row) { return Box{row * width, {batch, 1, width}, {(rows + 2) * width, width, 1}}; };
  std::vector<Transfer> sends, receives;
  sends.push_back({me, {0, {batch, rows, width}, {rows * width, width, 1}}});
  receives.push_back({me, {width, {batch, rows, width}, {(rows + 2) * width, width, 1}}});
  if (me > 0) {
    sends.push_back({me - 1, inRow(0)});
    receives.push_back({me - 1, outRow(0)});
  }
  if (me + 1 < n) {
    sends.push_back({me + 1, inRow(rows - 1)});
    receives.push_back({me + 1, outRow(rows + 1)});
  }
  check.ok(comm->exchange(in.data(), sends, out.data(), receives, plan::I32), "halo");
  bool right = true;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t row = -1; row <= rows; ++row)
      for (int64_t x = 0; x < width; ++x) {
        const int owner = row < 0 ? me - 1 : row < rows ? me : me + 1;
        const int64_t at = row < 0 ? rows - 1 : row < rows ? row : 0;
        const int64_t expected = owner < 0 || owner >= n ? -7 : owner * 10000 + (b * rows + at) * width + x;
        right &= out[(b * (rows + 2) + row + 1) * width + x] == expected;
      }
  check.that(right, "halo: wrong result");
}

/// Several messages between the same two members match in list order; a box may be a single
/// element.
void order(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  const int n = comm->size(), me = comm->rank();
  const int to = (me + 1) % n, from = (me + n - 1) % n;
  double in[3] = {me + 0.25, me + 0.5, me + 0.75}, out[3] = {0, 0, 0};
  check.ok(comm->exchange(in, {{to, {2, {}, {}}}, {to, {0, {}, {}}}, {to, {1, {1}, {1}}}}, out,
                          {{from, {0, {}, {}}}, {from, {1, {}, {}}}, {from, {2, {}, {}}}}, plan::F64),
           "ordered messages");
  check.that(out[0] == from + 0.75 && out[1] == from + 0.25 && out[2] == from + 0.5, "ordered messages: wrong result");
  check.ok(comm->exchange(in, {}, out, {}, plan::F64), "empty exchange");
  check.ok(comm->exchange(in, {{to, {0, {0, 3}, {3, 1}}}}, out, {{from, {0, {0}, {1}}}}, plan::F64),
           "exchange of an empty box");
}

} // namespace

std::vector<Case> exchangeCases() {
  return {{"randomBoxes", randomBoxes},
          {"transposeSharding", transposeSharding},
          {"fewerMembers", fewerMembers},
          {"halo", halo},
          {"order", order}};
}

} // namespace tessera::rt::conformance
