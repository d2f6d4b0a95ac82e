//===- Prefetch.h - a running position over a producer, and a thread that works ahead ---------===//
//
// prefetch(producer, requests, samples per epoch, depth): `depth` batches are kept ready in buffers
// of their own; depth 0 computes in next(). The thread starts with the first next(). `produced` is told of
// every batch.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_PREFETCH_H
#define TESSERA_RUNTIME_DATA_PREFETCH_H

#include "runtime/data/Producer.h"

namespace tessera::rt {

std::unique_ptr<DataSource> prefetch(std::unique_ptr<BatchProducer> producer, std::vector<uint64_t> requestBytes,
                                     int64_t batchSize, int depth, DataOptions::Produced produced = nullptr);

} // namespace tessera::rt

#endif
