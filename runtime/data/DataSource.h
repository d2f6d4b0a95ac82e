//===- DataSource.h - where batches come from -------------------------------------------------===//
//
// A data source hands each rank its own boxes of one global batch after the other. What a global
// batch holds depends only on the seed, the epoch and the global sample index, never on how many
// ranks there are or how the plan shards its inputs; a rank reads or computes only the box that it
// asked for.
//
//   // rank 1 of two: rows 16..31 of a batch of 32 images, and all labels
//   std::vector<BatchRequest> requests = {
//       {{32, 3, 32, 32}, {16, 0, 0, 0}, {16, 3, 32, 32}, plan::F32, false},
//       {{32}, {0}, {32}, plan::I64, true}};
//   Result<std::unique_ptr<DataSource>> data =
//       openDataSource("cifar10:/data/cifar10", requests, {});
//   for (int64_t i = 0; i < (*data)->batchesPerEpoch(); ++i)
//     status = (*data)->next({images, labels});      // fills the two host buffers
//
// A source is written KIND:PART,PART,... where a part NAME=VALUE is an option and every other part
// is a path (write a path that contains '=' as ./a=b; a path cannot contain a comma):
//
//   npy:IN.npy[,IN2.npy,...][,TARGET.npy]    NumPy arrays, in the order of the model's inputs,
//   npy:NAME=IN.npy,...,target=TARGET.npy    then the target, or by name; see NpySource.h
//   cifar10:DIR                              CIFAR-10, binary version; see Cifar10Source.h
//   imagefolder:DIR                          JPEG and PNG files, a folder per class; see
//                                            ImageFolderSource.h
//   tokens:FILE[,FILE2,...]                  token ids for language models; see TokenSource.h
//   synthetic[:classes=10,samples=50000,...] a set that can be learned, computed;
//                                            see SyntheticSource.h
//
// Options of all kinds: shuffle=0|1, augment=0|1 (override DataOptions), seed=N.
//
// The sequence of batches repeats over epochs without end; samples that do not fill a global batch
// are left out of their epoch. A thread of the source works ahead of the caller.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_DATASOURCE_H
#define TESSERA_RUNTIME_DATA_DATASOURCE_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// The box of one model input (or of the target) that a rank holds. Dimension 0 counts samples, except in inputs
/// without a batch dimension (batchOf).
struct BatchRequest {
  std::vector<int64_t> globalShape, offset, shape;
  plan::DType dtype = plan::F32;
  bool target = false;
  int64_t idLimit = 0;   // values are below this, ids of a vocabulary; 0: not known
  std::string name = {}; // the input's name in the model; an input with an initializer may be left out of a list
};

struct DataOptions {
  uint64_t seed = 0;                    // of shuffling and augmentation
  bool train = true;                    // the training split, shuffled and augmented; else the evaluation split
  std::optional<bool> shuffle, augment; // instead of what `train` and the kind of source imply
  int threads = 1;                      // threads that decode samples, where decoding takes time
  int prefetch = 2;                     // batches prepared ahead by a thread; 0: none, next() computes
  bool leader = true;                   // gives the notices that would be the same on all ranks
  /// Called for every batch by the thread that prepared it; may be null.
  using Time = std::chrono::steady_clock::time_point;
  using Produced = std::function<void(int64_t batch, Time begin, Time end)>;
  Produced produced;
};

class DataSource {
public:
  virtual ~DataSource() = default;
  /// Fills one buffer per request, in their order, with this rank's boxes of the next global batch, row-major and in
  /// the request's dtype. After an error the next call tries the same batch again.
  virtual Status next(const std::vector<void *> &hostBuffers) = 0;
  /// Global batches in an epoch, at least 1; the same on all ranks.
  virtual int64_t batchesPerEpoch() const = 0;
  /// Global samples in a batch (batchOf).
  virtual int64_t batchSize() const = 0;
  /// Global samples in an epoch that are used.
  int64_t samplesPerEpoch() const { return batchesPerEpoch() * batchSize(); }
  /// Sets the number of the next batch, counted from the first of epoch 0: epoch e begins with e * batchesPerEpoch().
  virtual Status seek(int64_t batch) = 0;
  /// Messages for a person since the last call, such as files that were skipped.
  virtual std::vector<std::string> takeNotices() = 0;
  /// One line for people: "cifar10 /data/cifar10: 50000 samples, 10 classes, shuffled".
  virtual std::string describe() const = 0;
};

/// The size of the global batch: dimension 0 of the target. Without a target, it is dimension 0 of the first input that
/// is no scalar; 0 if there is none. An input whose dimension 0 differs has no batch dimension.
int64_t batchOf(const std::vector<BatchRequest> &requests);

/// Opens a source. `requests` has one request per model input, in order, and then that of the target if the program has
/// one. Only `npy` fills inputs without a batch dimension.
Result<std::unique_ptr<DataSource>> openDataSource(const std::string &spec, const std::vector<BatchRequest> &requests,
                                                   const DataOptions &options);

/// The files and folders that a specification names; none where it is wrong.
std::vector<std::string> dataPaths(const std::string &spec);

} // namespace tessera::rt

#endif
