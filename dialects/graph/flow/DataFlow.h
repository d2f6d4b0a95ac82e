//===- DataFlow.h - a program as plain data: who makes what, who reads it, how large it is --------===//
//
// Fusion (Fusion.h) and the order of execution (Order.h) need only this data. So a pass can compute them for the
// program that it transforms, and the strategies for a program that does not exist yet.
//
//   DataFlow flow;
//   int x = flow.addValue({8, 4}, 128), y = flow.addValue({8, 4}, 128);
//   flow.addStep(LoopPart::Points, {x}, {y});       // y = relu(x)
//   flow.results = {y};
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_DATAFLOW_H
#define TESSERA_DIALECTS_GRAPH_FLOW_DATAFLOW_H

#include "dialects/dist/ShardingRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace tessera::graph {

/// What a step becomes in a loop (Fusion.h).
enum class LoopPart {
  None,      // a kernel of its own, or none
  Points,    // computes each point of its result from the same point of its operands
  Reduction, // combines points; no step of the same loop may read its result
  Free,      // a splat constant, a broadcast or a widening cast: every loop that reads it computes it again
};

/// The most stages of a pipeline that a rank may have. They are its chunks, numbered in the order of the data.
inline constexpr int kMostChunks = 64;

/// A part of a step (Sections.h), in an order in which nothing reads what stands behind it: the forward passes of the
/// chunks, then their backward passes from the last chunk to the first.
enum class Section : uint8_t {
  Begin = 0,                   // runs once, before the body. A program without micro-batches has no other section.
  Body = 1,                    // runs once for each micro-batch; of a pipeline the forward pass of chunk 0
  Input = 3 * kMostChunks - 1, // of a pipeline: what chunk 0 sends back to the stages before it
  Weight,                      // of a pipeline: the rest of the backward pass of chunk 0
  End,                         // runs once, behind the body
};
inline constexpr size_t kSections = size_t(Section::End) + 1;

/// Whether the section runs once for each micro-batch.
inline bool inBody(Section section) { return section != Section::Begin && section != Section::End; }

/// What an operator belongs to. What recomputation makes again runs in the backward half, and its operands may be there
/// long before.
enum class Half : uint8_t { Forward, Backward, Again };
Half halfOf(mlir::Operation *op);

struct DataFlow {
  struct Value {
    dist::Shape shape;
    int64_t bytes = 0;
    int maker = -1;    // a step; -1: it is there from the start
    int viewOf = -1;   // the value whose bytes it shows
    bool kept = false; // its memory is never freed, or it is written into the memory of such a value
    bool sum = false;  // over all micro-batches: added up in place in the body, there at its end
  };
  struct Step {
    LoopPart part = LoopPart::None;
    llvm::SmallVector<int, 4> reads;
    llvm::SmallVector<int, 2> makes;
    Section section = Section::Begin;
    Half half = Half::Forward;
  };
  std::vector<Value> values;
  std::vector<Step> steps;
  llvm::SmallVector<int> results;           // values that are read at the end
  std::vector<std::pair<int, int>> updates; // values, and the new values that they get

  int addValue(dist::Shape shape, int64_t bytes, bool kept = false);
  int addStep(LoopPart part, llvm::ArrayRef<int> reads, llvm::ArrayRef<int> makes, Section section = Section::Begin,
              Half half = Half::Forward);
  /// The value whose bytes this one shows; itself where it is no view.
  int root(int value) const;
  /// For every value the steps that read it, once per read. The number of steps stands for the end of the program.
  std::vector<llvm::SmallVector<int, 2>> readers() const;
  /// Whether the value is made anew for each micro-batch, or carried from one to the next.
  bool variesInBody(int value) const;
};

/// A function as plain data, with one step per operator of its block. An operator may stand before the producers of its
/// operands. Parameters, states and the results that update an argument are kept. Tensors are ranked and static. Steps
/// have their sections.
///
/// Sends and receives of one section stay in the order in which they stand: each makes a value of no bytes that the
/// next one reads. So nothing is moved together that waits for another rank in between.
struct FunctionFlow {
  explicit FunctionFlow(mlir::func::FuncOp func);

  /// How often an operator runs in a step of the program.
  int64_t times(int step) const { return inBody(flow.steps[size_t(step)].section) ? parts : 1; }

  DataFlow flow;
  int64_t parts = 1;                        // micro-batches
  std::vector<mlir::Operation *> operators; // by step
  std::vector<mlir::Value> tensors;         // by value; null: orders sends and receives
  llvm::DenseMap<mlir::Value, int> index;   // of values; looked up only
};

} // namespace tessera::graph

#endif
