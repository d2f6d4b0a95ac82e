//===- NodeTest.h - one ONNX backend test through compiler and runtime -----------------------------===//
//
// A test is a folder with a model and data sets of inputs and expected outputs, as the ONNX project
// publishes them (Debian: libonnx-testdata). It is compiled as tessera-compile does it, written to a
// plan directory, read and checked again, and executed.
//
//   Outcome o = runNodeTest("/usr/include/onnx/backend/test/data/node/test_add", setup);
//   o.status == Status::Passed, o.operatorName == "Add", o.rules has the key "add"
//
// Operators that need an operand at import (a shape, axes) get it as exporters write it, as an
// initializer: where the model with all its inputs is refused, integer and small operands but the first
// are bound to the test's values, then all of them. What was bound is part of the outcome.
//
// Tolerances are those of ONNX's own runner: 1e-3 relative, 1e-7 absolute; integers must be equal. bfloat16
// may be off by one in the last place: the published values are cut off, not rounded.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_ONNX_NODETEST_H
#define TESSERA_TEST_CONFORMANCE_ONNX_NODETEST_H

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tessera::test {

enum class Status { Passed, Refused, Failed };

struct Outcome {
  std::string name;         // of the test
  std::string operatorName; // that it tests
  int64_t opset = 0;
  Status status = Status::Failed;
  std::string reason;                       // of a refusal or a failure
  std::vector<std::string> bound;           // inputs that were known to the compiler
  std::map<std::string, std::string> rules; // graph operators that the model became, with their rules
};

struct Setup {
  std::string scratch; // an existing folder to write to
  /// The backends to run on. Each must give the expected outputs.
  std::vector<std::string> backends = {"reference", "cpu"};
};

Outcome runNodeTest(const std::string &folder, const Setup &setup);

} // namespace tessera::test

#endif
