//===- Signal.cpp - signal windows ----------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include <cmath>
#include <numbers>

using namespace tessera;
using namespace tessera::compiler;

/// Sum of coefficient[k] cos(2 pi k i / period): a signal window, known at import.
static void window(Node &n, llvm::ArrayRef<double> coefficients) {
  n.in(0);
  auto size = n.knownInts(0, "size");
  bool periodic = n.attrInt("periodic", 1) != 0;
  int64_t to = n.attrInt("output_datatype", onnx::TensorProto::FLOAT);
  auto type = compiler::dtypeOf(int32_t(to));
  if (n.failed())
    return;
  if (size->size() != 1 || (*size)[0] < 1 || (*size)[0] > GraphBuilder::kMaxFolded || !type || !isFloat(*type))
    return (void)n.fail("size must be one positive number and output_datatype floating point");
  int64_t count = (*size)[0];
  if (!n.b.mayFold(count))
    return;
  double period = double(periodic ? count : std::max<int64_t>(1, count - 1));
  std::vector<double> values(count, 0);
  for (int64_t i = 0; i < count; ++i)
    for (size_t k = 0; k < coefficients.size(); ++k)
      values[i] += coefficients[k] * std::cos(2 * std::numbers::pi * double(k) * double(i) / period);
  n.out(0, n.b.known(Constant::floats(*type, {count}, std::move(values))));
}
static void hannWindow(Node &n) { window(n, {0.5, -0.5}); }
static void hammingWindow(Node &n) { window(n, {25.0 / 46, -21.0 / 46}); }
static void blackmanWindow(Node &n) { window(n, {0.42, -0.5, 0.08}); }

llvm::ArrayRef<OpRow> tessera::compiler::signalOps() {
  static const OpRow rows[] = {
      {"BlackmanWindow", 17, 21, blackmanWindow, "t", "size known at import"},
      {"HammingWindow", 17, 21, hammingWindow, "t", "size known at import"},
      {"HannWindow", 17, 21, hannWindow, "t", "size known at import"},
  };
  return rows;
}
