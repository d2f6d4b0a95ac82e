//===- KeepScale.h - attention with dropout -----------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_KEEPSCALE_H
#define TESSERA_RUNTIME_PLAN_KEEPSCALE_H

namespace tessera::rt {

/// Attribute of attention and its gradient: the last operand says what dropout keeps of the probabilities, and what is
/// kept is multiplied by this number (runtime/backend/AttentionGeometry.h). A plan with it needs version 10.
inline constexpr char kKeepScale[] = "keep_scale";

} // namespace tessera::rt

#endif
