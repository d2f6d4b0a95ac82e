//===- NullBackend.h - executes nothing, checks everything ------------------------------------===//
//
// Loads a plan with all the checks of a real backend (buffers, operands, attributes, overlap) and
// then launches nothing: a dry run of a plan, the measure of the executor's own cost, and the
// skeleton to copy for a new backend (docs/adding-a-backend.md).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_NULL_NULLBACKEND_H
#define TESSERA_RUNTIME_BACKEND_NULL_NULLBACKEND_H

#include "runtime/backend/Backend.h"

namespace tessera::rt {
std::unique_ptr<Backend> createNullBackend();
}

#endif
