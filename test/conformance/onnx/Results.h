//===- Results.h - outcomes as text: the expected list -------------------------------------------===//
//
// One line per test: name, operator, outcome; of a refusal the reason, of a pass the inputs that were
// known to the compiler and the graph operators that the model became.
//
//   test_add  Add  passed  -> add
//   test_reshape_reordered_all_dims  Reshape  passed with shape known  -> reshape
//   test_nonzero_example  NonZero  refused: node 'x' (NonZero, opset 13): ...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_ONNX_RESULTS_H
#define TESSERA_TEST_CONFORMANCE_ONNX_RESULTS_H

#include "test/conformance/onnx/NodeTest.h"

namespace tessera::test {

std::string line(const Outcome &outcome);
std::string summary(const std::vector<Outcome> &outcomes);
size_t countOf(const std::vector<Outcome> &outcomes, Status status);

/// Whether nothing fails and the outcomes are those of the file. Prints every line that differs. With `update` it
/// writes the file.
bool compareOrUpdate(const std::vector<Outcome> &outcomes, const std::string &file, bool update);

/// Like the function above, for a whole file.
bool compareOrUpdateFile(const std::string &text, const std::string &file, bool update);

} // namespace tessera::test

#endif
