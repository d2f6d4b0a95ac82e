//===- NpySource.h - batches from NumPy arrays ------------------------------------------------===//
//
//   npy:IN.npy[,IN2.npy,...][,TARGET.npy][,shuffle=1]
//   npy:NAME=IN.npy[,NAME2=IN2.npy,...][,target=TARGET.npy][,shuffle=1]
//
// One file per model input, in order, then the target (which may be left over: a program without a target does not read
// it); or all files by the names of the inputs, in any order. The source warns of a file that is given by its place and
// has another input's name. Dimension 0 of every file counts samples, as many in each; the other dimensions and the
// element type are exactly the model's. An input without a batch dimension (its dimension 0 is not the batch) is the
// same in every batch, and its file has exactly its shape. With as many samples as the global batch, every batch is the
// whole of the files; with more, batch b of an epoch is samples b * batch and on, in file order or, with shuffle=1, in
// an order that the seed and the epoch give; samples that do not fill a batch are left out.
//
//   np.save("x.npy", numpy.float32 array of shape [1000, 3, 32, 32])
//   np.save("y.npy", numpy.int64 array of shape [1000])
//   tessera-run plan/ --data npy:x.npy,y.npy
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_NPYSOURCE_H
#define TESSERA_RUNTIME_DATA_NPYSOURCE_H

#include "runtime/data/Producer.h"

namespace tessera::rt {

Result<std::unique_ptr<BatchProducer>> openNpy(const ProducerContext &context);

} // namespace tessera::rt

#endif
