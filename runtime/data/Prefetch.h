//===- Prefetch.h - a running position over a producer, and a thread that works ahead ---------===//
//
// prefetch(producer, bytes of each request, batch size, depth): up to `depth` batches are prepared
// ahead, each in buffers of its own. With depth 0, next() computes the batch. The thread starts with
// the first next(). `produced` is called for every batch.
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
