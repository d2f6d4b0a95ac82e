//===- BoxCopy.h - copies between strided boxes ----------------------------------------------===//
//
// Copies the elements of one box to the elements of another with as many elements, in row-major
// order of either box. The boxes need not have the same dimensions: a box of a plain matrix may go
// to a box of a channel-blocked one, as long as the two walk their elements in the same order.
//
//   // rows 2..3 of a [4, 5] matrix to a packed [2, 5] one: one memcpy of ten elements
//   copyBox(src, {10, {2, 5}, {5, 1}}, dst, {0, {2, 5}, {5, 1}}, 4);
//
// Transports whose ranks see each other's memory copy with it. All others pack and unpack messages with it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_BOXCOPY_H
#define TESSERA_RUNTIME_COMM_BOXCOPY_H

#include "runtime/comm/Communicator.h"

namespace tessera::rt {

/// The number of elements of a box that passed checkBox.
int64_t boxElements(const Box &box);

/// Checks that there are as many counts as strides, that nothing is negative, and that no product overflows.
Status checkBox(const Box &box);

/// "offset 10, count [2, 5], stride [5, 1]", for messages.
std::string describeBox(const Box &box);

/// One loop of a copy: `count` elements, so far apart in the source and in the destination.
struct BoxLoop {
  int64_t count, src, dst;
};

/// The loops that walk both boxes, innermost first, or false if no common loop nest exists: the
/// boxes are cut at different places, as with counts [4, 3] and [3, 4].
bool commonLoops(const Box &a, const Box &b, std::vector<BoxLoop> &loops);

/// Both boxes have passed checkBox and have equally many elements, and their ranges of memory do not overlap.
/// `elementSize` is 1, 2, 4 or 8 bytes.
void copyBox(const void *src, const Box &srcBox, void *dst, const Box &dstBox, size_t elementSize);

} // namespace tessera::rt

#endif
