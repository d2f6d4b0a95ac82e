//===- Producer.h - the random access that a data source is built on --------------------------===//
//
// A kind of source implements this; DataSource.cpp adds the running position and the thread that works ahead. produce()
// is a function of the batch number: it gives the same bytes in any order and any number of times.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_PRODUCER_H
#define TESSERA_RUNTIME_DATA_PRODUCER_H

#include "runtime/data/DataSource.h"
#include "runtime/data/Spec.h"

namespace tessera::rt {

class BatchProducer {
public:
  virtual ~BatchProducer() = default;
  virtual int64_t batchesPerEpoch() const = 0;
  virtual Status produce(int64_t batch, const std::vector<void *> &buffers) = 0;
  virtual std::string describe() const = 0;
  /// Like DataSource's function. May be called from any thread.
  virtual std::vector<std::string> takeNotices() { return {}; }
};

/// The facts that every kind of source gets. The requests were checked: boxes lie inside their shapes and sizes fit.
/// Dimension 0 is the batch, except for kinds that also fill inputs without one (Spec::fillsWhole).
struct ProducerContext {
  const Spec &spec;
  const std::vector<BatchRequest> &requests;
  const DataOptions &options;
  int64_t batch; // global batch size
};

/// Full batches of `batch` among `samples`, or an error that says there is none.
Result<int64_t> fullBatches(const std::string &what, int64_t samples, int64_t batch);

} // namespace tessera::rt

#endif
