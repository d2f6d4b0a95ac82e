// Communicator::fill in host memory.
#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/Communicator.h"
#include "runtime/plan/ElementType.h"
#include "runtime/tensor/ConvertElements.h"

#include <vector>

namespace tessera::rt {

Status Communicator::fill(void *out, const std::vector<Box> &boxes, plan::DType dtype, double value) {
  const size_t size = bytesPerElement(dtype);
  char element[8];
  convertElements(&value, plan::F64, element, dtype, 1);
  for (const Box &box : boxes) {
    // With strides of 0, every index of this box reads the same element.
    Box still = box;
    still.offset = 0;
    still.stride.assign(box.stride.size(), 0);
    copyBox(element, still, out, box, size);
  }
  return Status();
}

} // namespace tessera::rt
