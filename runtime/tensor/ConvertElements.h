//===- ConvertElements.h - element types of files and buffers ---------------------------------===//
//
// Converts runs of elements between the floating-point types, and between them and integers where a
// data file has another type than the model wants. Rounds to nearest even.
//
//   float x[2] = {1, 2.5f}; double y[2];
//   convertElements(x, plan::F32, y, plan::F64, 2);
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TENSOR_CONVERTELEMENTS_H
#define TESSERA_RUNTIME_TENSOR_CONVERTELEMENTS_H

#include "runtime/plan/plan.pb.h"

#include <cstddef>
#include <cstdint>

namespace tessera::rt {

float halfToFloat(uint16_t bits);
uint16_t floatToHalf(float value);

/// Converts any type to any other. Neither pointer need be aligned. Float to integer truncates.
void convertElements(const void *source, plan::DType sourceType, void *target, plan::DType targetType, size_t count);

} // namespace tessera::rt

#endif
