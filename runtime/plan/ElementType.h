//===- ElementType.h - sizes of the plan's element types -----------------------------------------===//
//
//   bytesPerElement(plan::BF16) == 2; 0 for a type that does not exist
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_ELEMENTTYPE_H
#define TESSERA_RUNTIME_PLAN_ELEMENTTYPE_H

#include "runtime/plan/plan.pb.h"

#include <cstdint>

namespace tessera::rt {

inline uint64_t bytesPerElement(plan::DType type) {
  switch (type) {
  case plan::F64:
  case plan::I64:
    return 8;
  case plan::F32:
  case plan::I32:
    return 4;
  case plan::F16:
  case plan::BF16:
    return 2;
  case plan::I8:
  case plan::U8:
  case plan::BOOL:
    return 1;
  default:
    return 0;
  }
}

} // namespace tessera::rt

#endif
