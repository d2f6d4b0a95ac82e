//===- Sections.h - what runs once in a step, and what once for each micro-batch ---------------------===//
//
// A program with micro-batches is written for one of them. graph.micro_rows takes its rows of a batch, and
// graph.accumulate adds up over all. The section of every operator follows from data flow and is stored nowhere:
//
//   body    takes rows of a micro-batch, adds up, reads another operator of the body, or reads an argument to which an
//           operator of the body gives a new value (it is carried from micro-batch to micro-batch)
//   begin   is read by the body and is not of it; runs once before it
//   end     everything else; runs once behind it. What graph.accumulate makes is there only now.
//
//   %r = graph.micro_rows %x {parts = 4}        body
//   %t = graph.transpose %w                     begin
//   %g = graph.matmul %r, %t                    body
//   %s = graph.accumulate %g {parts = 4}        body
//   %u = graph.sub %w, %s                       end
//
// A program runs begin, then the body for the micro-batches 0, 1, ..., then end. A program without micro-batches has
// the section begin alone.
//
// A rank of a pipeline sees only a part of this data flow. There the sections are stored: the function carries the
// number of micro-batches and of its chunks (stages that lie on this rank), every operator its section, and the body
// has three for each chunk. Calls run them in many orders; what surelyBefore() says holds in all of them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_SECTIONS_H
#define TESSERA_DIALECTS_GRAPH_FLOW_SECTIONS_H

#include "dialects/graph/flow/DataFlow.h"

namespace tessera::graph {

constexpr Section forwardOf(int chunk) { return Section(int(Section::Body) + chunk); }
constexpr Section inputOf(int chunk) { return Section(int(Section::Input) - 2 * chunk); }
constexpr Section weightOf(int chunk) { return Section(int(Section::Weight) - 2 * chunk); }

// Of a section of the body:
constexpr bool isForward(Section section) { return section < forwardOf(kMostChunks); }
constexpr bool isWeight(Section section) { return !isForward(section) && (int(Section::End) - int(section)) % 2 == 1; }
constexpr int chunkOf(Section section) {
  return isForward(section) ? int(section) - int(Section::Body) : (int(Section::Weight) - int(section)) / 2;
}

/// Whether the one has run for a micro-batch whenever the other begins, in every order of a pipeline's actions.
bool surelyBefore(Section first, Section then);

/// How many chunks the function of a pipeline's rank has; 1 if it does not say.
int chunksOf(mlir::func::FuncOp func);
/// How many sections such a function has.
constexpr size_t sectionsOf(int chunks) { return 3 * size_t(chunks) + 2; }
/// The place of a section among them, and the section at a place.
size_t placeOf(Section section, int chunks);
Section sectionAt(size_t place, int chunks);

/// The section that an operator carries, of a rank of a pipeline; Begin if it carries none.
Section sectionOf(mlir::Operation *op);
void setSection(mlir::Operation *op, Section section);

/// Sets the sections of all steps. Those that take rows or add up are in the body already.
void findSections(DataFlow &flow);

/// Emits an error if sums over all micro-batches are read in the body, if a value of the body is returned that is no
/// new value of an argument, or if two numbers of micro-batches occur. The function has one block and static tensors.
llvm::LogicalResult verifySections(mlir::func::FuncOp func);

} // namespace tessera::graph

#endif
