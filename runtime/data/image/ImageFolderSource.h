//===- ImageFolderSource.h - batches from a tree of JPEG and PNG files ------------------------===//
//
//   imagefolder:DIR[,resize=256,min_area=0.08,flip=1,mean=...,std=...,reduce=1,on_error=fail,threads=4]
//
// DIR holds one folder per class (ImageTree.h); or DIR/train and DIR/val do, for training and for
// evaluation. In training a box of random area (`min_area` to all of the image) and random aspect (3:4 to
// 4:3) is resized to the model's height and width and flipped with probability one half; in evaluation,
// and without augmentation, the image is resized so that its shorter side has `resize` pixels, of which
// the middle is taken. Then pixels are scaled to [0, 1] and normalised per channel. These are
// torchvision's RandomResizedCrop, RandomHorizontalFlip, Resize, CenterCrop, ToTensor and Normalize; the
// random numbers are others.
//
// `reduce=1` lets JPEG files be decoded at half, a quarter or an eighth of their size where the result still has no
// fewer pixels than the model wants. A file that cannot be read or decoded ends the run (on_error=fail), or is reported
// once (takeNotices) and replaced by the next good image of its class (on_error=skip). The replacement does not depend
// on the mesh either. Threads decode images side by side.
//
// The model has one float input [batch, 3, height, width]; the target, if there is one, is the class id.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_IMAGE_IMAGEFOLDERSOURCE_H
#define TESSERA_RUNTIME_DATA_IMAGE_IMAGEFOLDERSOURCE_H

#include "runtime/data/Producer.h"

namespace tessera::rt {

Result<std::unique_ptr<BatchProducer>> openImageFolder(const ProducerContext &context);

} // namespace tessera::rt

#endif
