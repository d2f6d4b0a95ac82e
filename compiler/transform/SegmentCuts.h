//===- SegmentCuts.h - where a chain of operators is cut into parts -----------------------------------===//
//
// Parts that each go to a stage of a pipeline should take equally long, and little should cross from one to the next. A
// part is about as long as its share. Of the places about a border those count that the fewest bytes cross. Of the cuts
// at such places, these have the shortest longest part, and lie as near to even shares as that allows.
//
//   // Four operators with work 2, 1, 1, 2; their results have 8, 8, 1, 8 bytes that the next one reads.
//   cutEvenly({0, 2, 3, 4, 6}, {0, 8, 8, 1, 0}, 2);   // {3}: few bytes, and no part has more work than 4
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRANSFORM_SEGMENTCUTS_H
#define TESSERA_COMPILER_TRANSFORM_SEGMENTCUTS_H

#include <cstdint>
#include <vector>

namespace tessera::compiler {

/// The operators before which a part but the first begins, ascending; fewer than `parts` - 1 where too few places are
/// good. By place, that is, before each operator and behind the last: `work`, of all operators before it, in any unit;
/// `crossing`, the bytes that would cross a cut there.
std::vector<int> cutEvenly(const std::vector<double> &work, const std::vector<int64_t> &crossing, int parts);

/// Parts of about as many bytes each: near each border the first of the places that the fewest bytes cross. `kept`: by
/// place, the bytes of all operators before it.
std::vector<int> cutByBytes(const std::vector<int64_t> &kept, const std::vector<int64_t> &crossing, int parts);

/// The cuts with which the fewest bytes are in memory; none where no cut gains. Parts run again from the last to the
/// first, so in memory there are what crosses the cuts before the part, what the part keeps, and the gradient of what
/// crosses the cut behind it. The last part does not run again. Where it is the largest, the others could be as large
/// for nothing. So of cuts with which it needs at most 5 % more those are chosen with which the others need least.
///
///   cutForFewestBytes({0, 4, 8, 12, 62}, {0, 1, 1, 1, 0});   // {1, 2, 3}: 53 bytes at last, at most 7 before
std::vector<int> cutForFewestBytes(const std::vector<int64_t> &kept, const std::vector<int64_t> &crossing);

} // namespace tessera::compiler

#endif
