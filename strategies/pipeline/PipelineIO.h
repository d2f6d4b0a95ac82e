//===- PipelineIO.h - pipelines and orders as files -----------------------------------------------===//
//
// A pipeline is one JSON object. Every number is checked, and a bad file gives one sentence.
//
//   {"micro_batches": 8,
//    "stages": [{"device": 0, "forward": 10, "input": 10, "weight": 8, "held": 4, "kept": 2},
//               {"device": 1, "forward": 12, "input": 11, "weight": 9, "held": 4, "kept": 2}],
//    "transfers": [1],
//    "limits": [32, null]}
//
// Left out may be a device (then stage s lies on device s), times and bytes of 0, transfers and limits.
//
// An order is a table, as in PyTorch: a line for each device, and in it "2F0" for Forward of micro-batch 0 in stage 2,
// "2I0" for Input, and "2W0" for Weight. Where it is read, "2B0" stands for Input and Weight behind it, cells may be
// empty, and blanks do not count.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_PIPELINEIO_H
#define TESSERA_STRATEGIES_PIPELINE_PIPELINEIO_H

#include "strategies/pipeline/Pipeline.h"

#include <optional>
#include <string_view>

namespace tessera::strategies {

/// The checked pipeline, or nothing and a sentence in `error` that begins with `name`.
std::optional<Pipeline> parsePipeline(const std::string &text, const std::string &name, std::string &error);

std::string toCsv(const PipelineOrder &order);

/// "2F0".
std::string taskText(PipelineTask task);

/// The order, or nothing and a sentence in `error` that begins with `name` and the line. Only the form is checked
/// (CheckOrder.h has the rest).
std::optional<PipelineOrder> parseOrder(std::string_view text, const std::string &name, std::string &error);

} // namespace tessera::strategies

#endif
