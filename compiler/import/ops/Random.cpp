//===- Random.cpp - tensors of random numbers ----------------------------------------------------===//
//
// A number depends on the seed, the node's place among the random nodes, the training step and the element's global
// index, but not on the mesh. Outside of training all numbers are those of step 0.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include <numbers>

using namespace tessera;
using namespace tessera::compiler;

/// Uniform random numbers in [0, 1).
static Val draw(Node &n, const Shape &shape, llvm::StringRef suffix) {
  if (n.function.literal()) // what a test of the operator expects is another generator's
    return n.b.fail("its numbers are drawn at random, and only a training step does that");
  mlir::Value step = n.function.training() ? n.function.step() : n.b.materialize(n.b.scalar(DType::I64, 0));
  return n.b.random(step, DType::F32, shape, n.function.seed(), n.function.nextStream(), suffix);
}

/// Standard normal numbers by the method of Box and Muller. The logarithm takes 1 - u, which is never 0.
static Val drawNormal(Node &n, const Shape &shape) {
  Val u = draw(n, shape, "random"), v = draw(n, shape, "random");
  Val log = n.b.unary<graph::LogOp>(n.b.sub(n.b.scalarLike(u, 1), u, "rest"), "log");
  Val radius = n.b.unary<graph::SqrtOp>(n.b.scale(log, -2, "minus_twice"), "radius");
  Val angle = n.b.unary<graph::CosOp>(n.b.scale(v, 2 * std::numbers::pi, "angle"), "cos");
  return n.b.mul(radius, angle, "normal");
}

/// The attribute dtype, or `otherwise` without it.
static std::optional<DType> typeOf(Node &n, DType otherwise) {
  int64_t code = n.attrInt("dtype", 0);
  if (code == 0)
    return otherwise;
  auto type = compiler::dtypeOf(int32_t(code));
  if (!type)
    n.fail("the attribute dtype has a type that is not supported");
  return type;
}

static std::optional<DType> floatTypeOf(Node &n, DType otherwise) {
  auto type = typeOf(n, isFloat(otherwise) ? otherwise : DType::F32);
  if (type && !isFloat(*type)) {
    n.fail("the attribute dtype must be a type of floating point");
    return std::nullopt;
  }
  return type;
}

static void uniform(Node &n, const Shape &shape, DType type) {
  double low = n.attrFloat("low", 0), high = n.attrFloat("high", 1);
  Val y = n.b.scale(draw(n, shape, "random"), high - low, "scaled");
  n.out(0, n.b.cast(n.b.add(y, n.b.scalar(DType::F32, low), type == DType::F32 ? "" : "wide"), type));
}

static void normal(Node &n, const Shape &shape, DType type) {
  double mean = n.attrFloat("mean", 0), scale = n.attrFloat("scale", 1);
  Val y = n.b.scale(drawNormal(n, shape), scale, "scaled");
  n.out(0, n.b.cast(n.b.add(y, n.b.scalar(DType::F32, mean), type == DType::F32 ? "" : "wide"), type));
}

template <void (*Draw)(Node &, const Shape &, DType)> static void ofShape(Node &n) {
  n.ignoreAttr("seed"); // of another generator; ImportOptions::seed is used
  auto shape = n.attrInts("shape");
  if (!shape || int64_t(shape->size()) > kMaxRank || !elementCount(*shape))
    return (void)n.fail("the attribute shape is missing or not possible");
  if (auto type = floatTypeOf(n, DType::F32))
    Draw(n, *shape, *type);
}

template <void (*Draw)(Node &, const Shape &, DType)> static void like(Node &n) {
  n.ignoreAttr("seed");
  Val x = n.in(0);
  if (!x)
    return;
  if (auto type = floatTypeOf(n, x.type))
    Draw(n, x.shape, *type);
}

/// 1 where a number in [0, 1) is below the probability.
static void bernoulli(Node &n) {
  n.ignoreAttr("seed");
  Val p = n.floatIn(0);
  if (!p)
    return;
  auto type = typeOf(n, p.type);
  if (!type)
    return;
  Val below = n.b.binary<graph::LtOp>(draw(n, p.shape, "random"), n.b.cast(p, DType::F32, "p"),
                                      *type == DType::I1 ? "" : "drawn");
  n.out(0, n.b.cast(below, *type));
}

llvm::ArrayRef<OpRow> tessera::compiler::randomOps() {
  static const OpRow rows[] = {
      {"Bernoulli", 15, kNewestOpset, bernoulli, "t", ""},
      {"RandomNormal", 1, kNewestOpset, ofShape<normal>, "t", ""},
      {"RandomNormalLike", 1, kNewestOpset, like<normal>, "t", ""},
      {"RandomUniform", 1, kNewestOpset, ofShape<uniform>, "t", ""},
      {"RandomUniformLike", 1, kNewestOpset, like<uniform>, "t", ""},
  };
  return rows;
}
