// Machine code for tile operations, against the functions that it stands for.
#include "runtime/backend/cpu/fused/TileCode.h"
#include "runtime/backend/cpu/InstructionSet.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace tessera::rt;

namespace {

/// Operands and results of a tape that has a tile alone: pointer v is vector v, or the 16 lanes v.
struct Tile {
  static constexpr int64_t kMost = 203;
  Tape tape;
  std::vector<std::vector<float>> memory; // also of narrower elements

  uint32_t add(const std::vector<float> &values) {
    memory.push_back(values);
    memory.back().resize(kMost + kLanes, -7);
    return tape.pointers++;
  }
  uint32_t add() { return add({}); }
  uint32_t result() { // one that must be in memory afterwards
    const uint32_t v = add();
    TapeStore store;
    store.pointer = v;
    tape.stores.push_back(store);
    return v;
  }
  std::vector<void *> pointers() {
    std::vector<void *> table;
    for (std::vector<float> &values : memory)
      table.push_back(values.data());
    return table;
  }

  /// The results after all operations on n elements, one by one or compiled.
  std::vector<std::vector<float>> run(int64_t n, const TileCode *code) const {
    Tile mine = *this;
    const std::vector<void *> p = mine.pointers();
    size_t next = 0;
    for (size_t i = 0; i < tape.tileOps.size(); ++i) {
      if (code && next < code->runs.size() && code->runs[next].first == i) {
        code->runs[next].run(p.data(), n);
        i = code->runs[next++].last - 1;
        continue;
      }
      const TapeOp &op = tape.tileOps[i];
      op.run(p[op.y], p[op.a], p[op.b], p[op.c], n);
    }
    std::vector<std::vector<float>> results;
    for (const TapeStore &store : tape.stores)
      results.push_back(mine.memory[store.pointer]);
    return results;
  }
};

/// Bit for bit, but for what a NaN carries.
void checkEqual(const std::vector<float> &got, const std::vector<float> &wanted) {
  REQUIRE(got.size() == wanted.size());
  size_t differ = 0;
  for (size_t i = 0; i < got.size(); ++i)
    differ += std::memcmp(&got[i], &wanted[i], sizeof(float)) != 0 && !(std::isnan(got[i]) && std::isnan(wanted[i]));
  CHECK(differ == 0);
}

void check(const Tile &tile, const TileCode &code) {
  for (int64_t n : {Tile::kMost, int64_t(192), int64_t(16), int64_t(15), int64_t(1)}) {
    const auto wanted = tile.run(n, nullptr), got = tile.run(n, &code);
    for (size_t r = 0; r < wanted.size(); ++r) {
      CAPTURE(n, r);
      checkEqual(got[r], wanted[r]);
    }
  }
}

std::vector<float> numbers(std::mt19937 &random) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0,   65519, 65520, 6e-8f,  2.9e-8f, -0.0f,   1,           -1,
                           inf, -inf,  nan,   1e-40f, -1e-40f, 3.4e38f, 1.00390625f, 1.01171875f};
  std::uniform_real_distribution<float> some(-3, 3);
  std::vector<float> x;
  for (int64_t i = 0; i < Tile::kMost; ++i)
    x.push_back(random() % 4 == 0 ? special[random() % std::size(special)] : some(random));
  return x;
}

/// The same as memory of BOOL and of BF16, four and two elements in each number.
std::vector<float> packed(const std::vector<float> &x, VectorOp store) {
  std::vector<float> memory(x.size());
  vectorOps().find(store, 0)(memory.data(), x.data(), nullptr, nullptr, int64_t(x.size()));
  return memory;
}

struct Known {
  VectorOp op;
  int operands;
};
const Known kKnown[] = {
    {VectorOp::Copy, 1},    {VectorOp::Neg, 1},       {VectorOp::Abs, 1},        {VectorOp::Relu, 1},
    {VectorOp::Sqrt, 1},    {VectorOp::Rsqrt, 1},     {VectorOp::Reciprocal, 1}, {VectorOp::Not, 1},
    {VectorOp::NotZero, 1}, {VectorOp::RoundBf16, 1}, {VectorOp::RoundF16, 1},   {VectorOp::Exp, 1},
    {VectorOp::Sigmoid, 1}, {VectorOp::Erf, 1},       {VectorOp::Add, 2},        {VectorOp::Sub, 2},
    {VectorOp::Mul, 2},     {VectorOp::Div, 2},       {VectorOp::Max, 2},        {VectorOp::Min, 2},
    {VectorOp::Eq, 2},      {VectorOp::Lt, 2},        {VectorOp::Le, 2},         {VectorOp::And, 2},
    {VectorOp::Or, 2},      {VectorOp::Xor, 2},       {VectorOp::Fma, 3},        {VectorOp::Fms, 3},
    {VectorOp::Fnma, 3},    {VectorOp::MulAdd, 3},    {VectorOp::MulSub, 3},     {VectorOp::SubMul, 3},
    {VectorOp::Select, 3}};

bool rounds(VectorOp op) { return op == VectorOp::RoundBf16 || op == VectorOp::RoundF16; }

/// Whether there must be code here. Sanitizers' and other machines' builds have these cases, too.
bool compiles() {
#ifdef TESSERA_XBYAK
  return instructionSet() == InstructionSet::Avx512;
#else
  return false;
#endif
}

} // namespace

TEST_CASE("compiled tile operations give the bits of the functions") {
  std::mt19937 random(1);
  for (const Known &known : kKnown)
    for (unsigned lanes = 0; lanes < 1u << known.operands; ++lanes) {
      if (rounds(known.op) && lanes)
        continue; // what is rounded is a value of the tile
      Tile tile;
      const uint32_t a = tile.add(numbers(random)), b = tile.add(numbers(random)), c = tile.add(numbers(random));
      const uint32_t t = tile.add(), y = tile.result();
      tile.tape.tileOps.emplace_back(known.op, lanes, t, a, known.operands > 1 ? b : a, known.operands > 2 ? c : a);
      tile.tape.tileOps.emplace_back(VectorOp::Copy, 0, y, t);
      const std::unique_ptr<TileCode> code = compileTile(tile.tape);
      CAPTURE(int(known.op), lanes);
      REQUIRE((code != nullptr) == compiles());
      if (!code)
        return;
      REQUIRE(code->runs.size() == 1);
      CHECK(code->runs[0].last == 2);
      check(tile, *code);
    }
}

TEST_CASE("compiled loads and stores convert as the functions do") {
  std::mt19937 random(2);
  for (auto [load, store] : {std::pair{VectorOp::LoadBf16, VectorOp::StoreBf16},
                             {VectorOp::LoadBool, VectorOp::StoreBool},
                             {VectorOp::LoadF16, VectorOp::StoreF16}})
    for (unsigned lanes : {0u, 1u}) {
      Tile tile;
      const uint32_t memory = tile.add(packed(numbers(random), store)), x = tile.add(), sum = tile.add();
      const uint32_t other = tile.add(numbers(random)), y = tile.result(), z = tile.result();
      tile.tape.tileOps.emplace_back(load, 0, x, memory);
      tile.tape.tileOps.emplace_back(VectorOp::Add, 0, sum, x, other, x);
      tile.tape.tileOps.emplace_back(store, 0, y, sum);
      tile.tape.tileOps.emplace_back(store, lanes, z, other);
      const std::unique_ptr<TileCode> code = compileTile(tile.tape);
      REQUIRE((code != nullptr) == compiles());
      if (code)
        check(tile, *code);
    }
}

TEST_CASE("compiled operations round in place and write over what they read") {
  std::mt19937 random(3);
  Tile tile;
  const uint32_t x = tile.result(), y = tile.add(), sums = tile.add();
  tile.memory[x] = numbers(random);
  tile.memory[x].resize(Tile::kMost + kLanes);
  tile.tape.tileOps.emplace_back(VectorOp::Mul, 0, y, x, x, x);
  tile.tape.tileOps.emplace_back(VectorOp::RoundBf16, 0, y, y);
  tile.tape.tileOps.emplace_back(VectorOp::Add, 0, sums, y, x, y);
  tile.tape.tileOps.emplace_back(VectorOp::Copy, 0, x, y); // x is the result's memory
  TapeStore kept;                                          // as if a sum read it
  kept.pointer = sums;
  tile.tape.stores.push_back(kept);
  const std::unique_ptr<TileCode> code = compileTile(tile.tape);
  REQUIRE((code != nullptr) == compiles());
  if (code)
    check(tile, *code);
}

TEST_CASE("tapes with more values, lanes and operands than registers are cut into runs") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Tile tile;
    std::vector<uint32_t> full, lanes;
    for (unsigned i = 0, count = 2 + random() % 20; i < count; ++i)
      full.push_back(tile.add(numbers(random)));
    for (unsigned i = 0, count = 1 + random() % 30; i < count; ++i)
      lanes.push_back(tile.add(numbers(random)));
    std::vector<uint32_t> results;
    for (unsigned i = 0, count = 20 + random() % 120; i < count; ++i) {
      const bool called = random() % 16 == 0; // no instructions: it stands between two runs
      const Known known = called ? Known{VectorOp::Tanh, 1} : kKnown[random() % std::size(kKnown)];
      uint32_t v[3] = {};
      unsigned mask = 0;
      for (int k = 0; k < 3; ++k)
        if (k >= known.operands)
          v[k] = v[0];
        else if (random() % 3 == 0 && !rounds(known.op)) {
          v[k] = lanes[random() % lanes.size()];
          mask |= 1u << k;
        } else {
          v[k] = full[full.size() - 1 - random() % std::min<size_t>(full.size(), random() % 4 ? 6 : 40)];
        }
      const uint32_t y = random() % 8 == 0 ? tile.result() : tile.add();
      tile.tape.tileOps.emplace_back(known.op, mask, y, v[0], v[1], v[2]);
      full.push_back(y);
    }
    tile.tape.tileOps.emplace_back(VectorOp::Copy, 0, tile.result(), full.back());
    TapeReduction sum{};
    sum.source = full[full.size() / 2];
    sum.dot = true;
    sum.factor = full[full.size() - 3];
    tile.tape.reductions = {sum};
    TapeSource source;
    source.before = tile.tape.tileOps.size() / 2;
    tile.tape.sources = {source};
    const std::unique_ptr<TileCode> code = compileTile(tile.tape);
    REQUIRE((code != nullptr) == compiles());
    if (!code)
      continue;
    size_t end = 0;
    for (const TileRun &run : code->runs) {
      CHECK(run.first >= end);
      CHECK(run.last >= run.first + 2);
      CHECK((run.last <= source.before || run.first >= source.before));
      end = run.last;
    }
    CHECK(end <= tile.tape.tileOps.size());
    // What sums read is in memory, too.
    for (uint32_t v : {sum.source, sum.factor}) {
      TapeStore store;
      store.pointer = v;
      tile.tape.stores.push_back(store);
    }
    CAPTURE(seed);
    check(tile, *code);
  }
}
