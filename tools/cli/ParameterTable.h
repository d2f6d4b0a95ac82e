//===- ParameterTable.h - what the tensors of a model are, as a table --------------------------------===//
//
// tessera-compile --list-parameters and tessera-dump --parameters print the same table:
//
//   trained   fc.weight                     f32  10x84   kernel of Gemm
//   constant  model.rotary_emb.inv_freq     f32  16      named like a buffer (a guess)
//   1 trained, 1 constant; 1 of them a guess
//
//===------------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_CLI_PARAMETERTABLE_H
#define TESSERA_TOOLS_CLI_PARAMETERTABLE_H

#include <string>
#include <vector>

namespace tessera {

struct ParameterRow {
  std::string role, name, type, shape, reason;
  bool guess = false;
};

/// The table: one line per row, then the counts.
std::string parameterTable(const std::vector<ParameterRow> &rows);
/// The counts alone: "62 trained, 2 frozen; 1 of them a guess".
std::string parameterCounts(const std::vector<ParameterRow> &rows);

} // namespace tessera

#endif
