//===- OperatorsPage.h - docs/operators.md from the importer's table, the rules and the tests ------===//
//
// Nothing on the page is written by hand: the operators are those of ONNX opset 21, what is supported of
// them is the importer's table, what they become and how many tests pass is what the node tests showed,
// and the rules are those that the graph operators' own tests (test/e2e/operators.mlir) give.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_ONNX_OPERATORSPAGE_H
#define TESSERA_TEST_CONFORMANCE_ONNX_OPERATORSPAGE_H

#include "test/conformance/onnx/NodeTest.h"

namespace tessera::test {

/// `examples`: path of operators.mlir.
std::string operatorsPage(const std::vector<Outcome> &outcomes, const std::string &examples);

} // namespace tessera::test

#endif
