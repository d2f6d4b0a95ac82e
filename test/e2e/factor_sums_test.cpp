//===- factor_sums_test.cpp - sums that are sent as two factors, beside the formula ----------------===//
//
// A program adds to a parameter the sum over ranks of a product, which is sent as factors (FactorSums.h). What its
// ranks hold after some steps is compared with PowerSGD written down plainly, in float64 throughout.
//
//===----------------------------------------------------------------------------------------------===//
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "runtime/backend/Orthonormalize.h"
#include "test/e2e/RandomStrategies.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

namespace {

//===--------------------------------------------------------------------------------------------===//
// The formula
//===--------------------------------------------------------------------------------------------===//

struct Matrix {
  int64_t rows, columns;
  Values data = Values(size_t(rows * columns), 0);
  double &at(int64_t i, int64_t j) { return data[size_t(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return data[size_t(i * columns + j)]; }
};

Matrix transposed(const Matrix &a) {
  Matrix t{a.columns, a.rows};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j)
      t.at(j, i) = a.at(i, j);
  return t;
}

Matrix operator*(const Matrix &a, const Matrix &b) {
  Matrix y{a.rows, b.columns};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j)
      for (int64_t k = 0; k < a.columns; ++k)
        y.at(i, j) += a.at(i, k) * b.at(k, j);
  return y;
}

Matrix plus(Matrix a, const Matrix &b, double times = 1) {
  for (size_t i = 0; i < a.data.size(); ++i)
    a.data[i] += times * b.data[i];
  return a;
}

double length(const Matrix &a) {
  double square = 0;
  for (double x : a.data)
    square += x * x;
  return std::sqrt(square);
}

/// Column by column; one of which less than 2^-20 is left is what the definition puts there.
Matrix orthonormal(const Matrix &a) {
  Matrix y{a.rows, a.columns};
  for (int64_t j = 0; j < a.columns; ++j)
    for (int64_t attempt = -1; attempt < rt::kOrthonormalAttempts; ++attempt) {
      Matrix v{a.rows, 1};
      for (int64_t i = 0; i < a.rows; ++i)
        v.at(i, 0) = attempt < 0 ? a.at(i, j) : rt::orthonormalFiller(uint32_t(i), uint32_t(j), uint32_t(attempt));
      const double before = length(v);
      for (int twice = 0; twice < 2; ++twice)
        v = plus(v, y * (transposed(y) * v), -1); // columns from j on are zero
      if (length(v) <= rt::kNothingLeft * before)
        continue;
      for (int64_t i = 0; i < a.rows; ++i)
        y.at(i, j) = v.at(i, 0) / length(v);
      break;
    }
  return y;
}

struct Plain {
  Matrix basis;
  std::vector<Matrix> unsent; // by rank

  /// The sum of the ranks' terms, as it is sent.
  Matrix sum(const std::vector<Matrix> &terms) {
    const Matrix directions = orthonormal(basis);
    Matrix left{terms[0].rows, basis.columns}, right{terms[0].columns, basis.columns};
    std::vector<Matrix> whole;
    for (size_t rank = 0; rank < terms.size(); ++rank) {
      whole.push_back(plus(terms[rank], unsent[rank]));
      left = plus(left, whole.back() * directions);
    }
    left = orthonormal(left);
    for (size_t rank = 0; rank < terms.size(); ++rank) {
      const Matrix own = transposed(whole[rank]) * left;
      right = plus(right, own);
      unsent[rank] = plus(whole[rank], left * transposed(own), -1);
    }
    basis = right;
    return left * transposed(right);
  }
};

//===--------------------------------------------------------------------------------------------===//
// The program
//===--------------------------------------------------------------------------------------------===//

/// w of rows x columns becomes w + times * x^T y in every step, where x and y have a row for every rank of `data` and
/// `batch` of them.
struct Setting {
  int64_t ranks, rows, columns, batch, rank;
  double times = 1;
  std::string mesh = "", update = "", held = "[-, -]"; // the mesh, the strategy of the sum, the parameter's sharding
};

std::string programText(const Setting &s) {
  auto type = [](int64_t a, int64_t b) { return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "xf32>"; };
  const int64_t batch = s.ranks * s.batch;
  const std::string x = type(batch, s.rows), y = type(batch, s.columns), w = type(s.rows, s.columns),
                    cut = "dist.sharding = #dist.sharding<\"[data, -]\">, graph.role = \"input\"",
                    held = "dist.sharding = #dist.sharding<\"" + s.held + "\">",
                    by = s.held == "[-, -]"      ? ""
                         : s.held == "[data, -]" ? "b0=data"
                                                 : "b0=model",
                    mesh = s.mesh.empty() ? "data=" + std::to_string(s.ranks) : s.mesh;
  char number[32];
  std::snprintf(number, sizeof number, "%.1e", s.times);
  return "module attributes {dist.mesh = #dist.mesh<\"" + mesh + "\">} {\nfunc.func @train(%x: " + x + " {" + cut +
         ", graph.name = \"x\"}, %y: " + y + " {" + cut + ", graph.name = \"y\"}, %w: " + w + " {" + held +
         ", graph.role = \"parameter\", graph.name = \"w\", graph.update = 0 : i64}) -> (" + w + " {" + held +
         ", graph.role = \"update\", graph.name = \"w\"}) {\n" +
         "  %t = graph.constant {dist.strategy = #dist.strategy<\"\">} dense<" + number + "> : tensor<f32>\n" +
         "  %xt = graph.mul %x, %t {dist.strategy = #dist.strategy<\"b0=data\">} : (" + x + ", tensor<f32>) -> " + x +
         "\n  %g = graph.matmul %xt, %y {transpose_a = true, dist.strategy = #dist.strategy<\"k=data" +
         (s.held == "[model, -]" ? ", m=model" : "") + "\">} : (" + x + ", " + y + ") -> " + w +
         "\n  %s = graph.reshape %g {graph.sent_as = \"powersgd:rank=" + std::to_string(s.rank) +
         "\", graph.update_of = \"w\", dist.strategy = #dist.strategy<\"" + s.update + "\">} : (" + w + ") -> " + w +
         "\n  %n = graph.add %w, %s {dist.strategy = #dist.strategy<\"" + by + "\">} : (" + w + ", " + w + ") -> " + w +
         "\n  return %n : " + w + "\n}\n}\n";
}

struct Harness {
  MLIRContext context;
  Harness() {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }
  std::vector<plan::Plan> plans(const Setting &s, bool fuse = true) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(programText(s), ParserConfig(&context));
    REQUIRE(module);
    return partitioned(*module, fuse);
  }
};

/// The term of a rank in a step: its rows of x and y are inputs.
Matrix termOf(const Setting &s, int64_t rank, int step) {
  auto input = [&](const char *name, int64_t columns) {
    Matrix m{s.batch, columns};
    for (int64_t i = 0; i < s.batch; ++i)
      for (int64_t j = 0; j < columns; ++j)
        m.at(i, j) = uniform(name, size_t((rank * s.batch + i) * columns + j), step) - 0.5;
    return m;
  };
  Matrix x = input("x", s.rows);
  for (double &v : x.data)
    v *= s.times;
  return transposed(x) * input("y", s.columns);
}

Matrix parameter(const Setting &s) {
  Matrix w{s.rows, s.columns};
  for (size_t i = 0; i < w.data.size(); ++i)
    w.data[i] = uniform("w", i, 0) - 0.5;
  return w;
}

/// The matrices of a state [k, rows, columns], by k. A rank has its own alone.
std::vector<Matrix> stateOf(const std::vector<Outcome> &ranks, const std::string &name, int64_t rows, int64_t columns) {
  Values all = ranks[0].at("STATE " + name);
  for (const Outcome &rank : ranks)
    for (size_t i = 0; i < all.size(); ++i)
      if (const double mine = rank.at("STATE " + name)[i]; mine != kElsewhere)
        all[i] = mine;
  std::vector<Matrix> matrices;
  for (size_t at = 0; at < all.size(); at += size_t(rows * columns))
    matrices.push_back(
        {rows, columns, Values(all.begin() + long(at), all.begin() + long(at + size_t(rows * columns)))});
  return matrices;
}

void checkNear(const Matrix &found, const Matrix &expected, double within) {
  REQUIRE(found.data.size() == expected.data.size());
  CHECK(length(plus(found, expected, -1)) <= within * std::max(1.0, length(expected)));
}

} // namespace

TEST_CASE("sums of factors are those of the formula, step by step") {
  Harness harness;
  for (const Setting &s : {Setting{2, 9, 7, 3, 2}, Setting{4, 16, 12, 2, 1}, Setting{4, 6, 30, 5, 3}}) {
    const std::vector<plan::Plan> plans = harness.plans(s);
    Plain plain{{s.columns, s.rank}, std::vector<Matrix>(size_t(s.ranks), Matrix{s.rows, s.columns})};
    Matrix w = parameter(s), whole = w;
    for (int steps = 1; steps <= 5; ++steps) {
      INFO(s.ranks << " ranks, " << s.rows << " x " << s.columns << ", rank " << s.rank << ", step " << steps);
      std::vector<Matrix> terms;
      for (int64_t rank = 0; rank < s.ranks; ++rank) {
        terms.push_back(termOf(s, rank, steps - 1));
        whole = plus(whole, terms.back());
      }
      w = plus(w, plain.sum(terms));
      for (auto [backend, widen, within] : {std::tuple("reference", true, 1e-10), std::tuple("cpu", false, 2e-5)}) {
        INFO(backend);
        const std::vector<Outcome> ranks =
            execute(plans, {.backend = backend, .widen = widen, .threads = 1, .steps = steps});
        checkNear({s.rows, s.columns, ranks[0].at("PARAMETER w")}, w, within);
        for (const Outcome &rank : ranks) { // to the bit
          CHECK(rank.at("PARAMETER w") == ranks[0].at("PARAMETER w"));
          CHECK(rank.at("STATE sent_basis/w") == ranks[0].at("STATE sent_basis/w"));
        }
        const std::vector<Matrix> unsent = stateOf(ranks, "unsent/w", s.rows, s.columns);
        REQUIRE(int64_t(unsent.size()) == s.ranks);
        Matrix all{s.rows, s.columns, ranks[0].at("PARAMETER w")};
        for (int64_t rank = 0; rank < s.ranks; ++rank) {
          checkNear(unsent[size_t(rank)], plain.unsent[size_t(rank)], within);
          all = plus(all, unsent[size_t(rank)]);
        }
        checkNear(all, whole, within); // nothing is lost
        checkNear(stateOf(ranks, "sent_basis/w", s.columns, s.rank)[0], plain.basis, within);
      }
    }
    CHECK(length(plus(w, whole, -1)) > 0.1 * length(whole)); // but late
  }
}

TEST_CASE("terms of a lower rank than the factors are sent whole") {
  Harness harness;
  const Setting s{2, 9, 40, 1, 4}; // two ranks with a term of rank 1 each
  const std::vector<plan::Plan> plans = harness.plans(s);
  Matrix whole = parameter(s);
  for (int steps = 1; steps <= 3; ++steps) {
    for (int64_t rank = 0; rank < s.ranks; ++rank)
      whole = plus(whole, termOf(s, rank, steps - 1));
    const std::vector<Outcome> ranks = execute(plans, {.backend = "cpu", .widen = false, .steps = steps});
    checkNear({s.rows, s.columns, ranks[0].at("PARAMETER w")}, whole, 1e-5);
    for (const Matrix &unsent : stateOf(ranks, "unsent/w", s.rows, s.columns))
      CHECK(length(unsent) < 1e-5);
  }
}

TEST_CASE("terms of zeros, of very small and of very large numbers") {
  Harness harness;
  for (double times : {0.0, 1e-30, 1e30}) {
    Setting s{2, 9, 7, 3, 2};
    s.times = times;
    const std::vector<plan::Plan> plans = harness.plans(s);
    Plain plain{{s.columns, s.rank}, std::vector<Matrix>(2, Matrix{s.rows, s.columns})};
    Matrix sum{s.rows, s.columns};
    for (int steps = 1; steps <= 3; ++steps) {
      INFO(times << ", step " << steps);
      sum = plus(sum, plain.sum({termOf(s, 0, steps - 1), termOf(s, 1, steps - 1)}));
      const std::vector<Outcome> ranks = execute(plans, {.backend = "cpu", .widen = false, .steps = steps});
      const Matrix w{s.rows, s.columns, ranks[0].at("PARAMETER w")};
      CHECK(std::isfinite(length(w)));
      CHECK(ranks[1].at("PARAMETER w") == w.data);
      if (times == 0)
        CHECK(w.data == Values(parameter(s).data));
      if (times > 1) // the parameter itself is nothing beside it
        CHECK(length(plus(w, sum, -1)) < 1e-4 * length(sum));
      const std::vector<Matrix> unsent = stateOf(ranks, "unsent/w", s.rows, s.columns);
      for (size_t rank = 0; rank < 2; ++rank)
        CHECK(length(plus(unsent[rank], plain.unsent[rank], -1)) <= 1e-4 * length(plain.unsent[rank]));
    }
  }
}

TEST_CASE("a rank that holds its part of the sum gets that part") {
  Harness harness;
  Setting whole{2, 16, 12, 3, 1}, part = whole;
  part.update = "r0=data";
  part.held = "[data, -]";
  const std::vector<Outcome> expected = execute(harness.plans(whole), {.steps = 4}),
                             found = execute(harness.plans(part), {.steps = 4});
  const Values &w = expected[0].at("PARAMETER w");
  CHECK(expected[0].count("STATE sent_basis/w") == 1);
  for (size_t rank = 0; rank < 2; ++rank) {
    const Values &mine = found[rank].at("PARAMETER w");
    REQUIRE(mine.size() == w.size());
    for (size_t i = 0; i < w.size(); ++i)
      if (i / (w.size() / 2) == rank)
        CHECK(mine[i] == Approx(w[i]).margin(1e-12));
      else
        CHECK(mine[i] == kElsewhere);
  }
}

TEST_CASE("every block of a parameter that is cut has factors of its own, and padding does not count") {
  Harness harness;
  Setting s{2, 9, 12, 3, 1}; // rows 0 to 4 and 5 to 8, and one of padding
  s.mesh = "data=2,model=2";
  s.update = "r0=model";
  s.held = "[model, -]";
  const std::vector<plan::Plan> plans = harness.plans(s);
  Matrix whole = parameter(s);
  for (int steps = 1; steps <= 4; ++steps) {
    INFO("step " << steps);
    for (int64_t rank = 0; rank < 2; ++rank)
      whole = plus(whole, termOf(s, rank, steps - 1));
    const std::vector<Outcome> ranks = execute(plans, {.steps = steps});
    const std::vector<Matrix> unsent = stateOf(ranks, "unsent/w", 5, 12); // by data, then by model
    REQUIRE(unsent.size() == 4);
    CHECK(stateOf(ranks, "sent_basis/w", 12, 1).size() == 2);
    for (size_t rank = 0; rank < 4; ++rank) {
      const Values &w = ranks[rank].at("PARAMETER w");
      CHECK(w == ranks[rank % 2].at("PARAMETER w"));
      const size_t first = rank % 2 * 5, rows = rank % 2 ? 4 : 5;
      for (size_t i = 0; i < rows * 12; ++i) // nothing is lost
        CHECK(w[first * 12 + i] + unsent[rank % 2].data[i] + unsent[2 + rank % 2].data[i] ==
              Approx(whole.data[first * 12 + i]).margin(1e-10));
    }
  }
}
