//===- Arena.h - what lies where in a rank's arena while a program runs -------------------------------===//
//
// The plan is static: every buffer has its address, and is defined from the step that first writes it to the step that
// last reads it. What a section that repeats reads before it writes it, is defined as long as the section runs. Views
// count as the buffer whose bytes they share.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_ARENA_H
#define TESSERA_TOOLS_PAGE_ARENA_H

#include "runtime/plan/plan.pb.h"
#include "tools/dump/ReportFields.h"

namespace tessera {

/// Of the plan's first program (the training step, if there is one):
///   "arena_bytes", "program", "kinds": ["parameter", ...],
///   "steps": [[name, kernel or collective], ...] in the order of the plan,
///   "sections": [[first step, steps, how often they run], ...],
///   "buffers": [[name, kind, type, shape, offset, bytes, first step, last step], ...] (kind: an index),
///   "live_bytes": by step (what a step reads last and writes over counts once),
///   "peak_step": the index of its maximum, "at_peak": bytes by kind then,
///   "largest_at_peak": indices of buffers.
/// The plan was checked.
Json arenaJson(const plan::Plan &plan);

} // namespace tessera

#endif
