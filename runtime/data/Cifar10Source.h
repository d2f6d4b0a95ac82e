//===- Cifar10Source.h - batches from CIFAR-10 ------------------------------------------------===//
//
//   cifar10:DIR[,crop=4,flip=1,mean=0.4914:0.4822:0.4465,std=0.2470:0.2435:0.2616]
//
// DIR (or DIR/cifar-10-batches-bin, as the archive unpacks) holds the binary version
// (https://www.cs.toronto.edu/~kriz/cifar.html): data_batch_1.bin to data_batch_5.bin for training,
// test_batch.bin for evaluation; every record is one label byte and 3 x 32 x 32 bytes, red, green,
// blue. Files may hold fewer or more records than the original 10000. Training shuffles, crops at
// random from the image padded with `crop` black pixels, and flips; both splits are scaled to [0,
// 1], normalised per channel and resized to the model's height and width.
//
// The model has one float input [batch, 3, height, width]; the target, if there is one, is the
// class id.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_CIFAR10SOURCE_H
#define TESSERA_RUNTIME_DATA_CIFAR10SOURCE_H

#include "runtime/data/Producer.h"

namespace tessera::rt {

Result<std::unique_ptr<BatchProducer>> openCifar10(const ProducerContext &context);

} // namespace tessera::rt

#endif
