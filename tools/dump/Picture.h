//===- Picture.h - a plan as a picture -----------------------------------------------------------===//
//
// The picture has one line per group of operators (PictureRows.h). A line has the result as one cell per tensor
// dimension, coloured by the mesh axes that cut it, with the size that one rank holds; then the predicted compute time;
// then what one rank sends, forward and backward. A [16, 512] result that is cut [data, -] on data=2 is a cell "8" in
// data's colour and a cell "512". Tooltips tell the bytes that are sent. Their sum is what one rank sends per step.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_PICTURE_H
#define TESSERA_TOOLS_DUMP_PICTURE_H

#include "tools/dump/ReportFile.h"

namespace tessera {

/// Draws the report's first function (the training step, if there is one) as an SVG document for light and dark pages.
std::string toSvg(const Report &report);

} // namespace tessera

#endif
