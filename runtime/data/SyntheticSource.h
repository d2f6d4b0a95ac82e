//===- SyntheticSource.h - a set that can be learned, computed --------------------------------===//
//
//   synthetic[:classes=10,samples=50000,eval_samples=10000,noise=0.3,vocab=256,seed=1]
//
// Deterministic data of whatever shape the model has, for demos, tests and benchmarks. Sample s
// belongs to a class c drawn by its number; every element is a function of (seed, s, its place in
// the sample), the same however batches are cut, and a rank computes only its box.
//
//   float input [batch, channels, ...]     The class's smooth pattern: the sum of four plane waves of at most three
//                                          periods across the image, each with its own weight per channel. Each sample
//                                          shifts it by up to 1/16 of the image, scales it by 0.8 to 1.2, and adds
//                                          `noise` times a nearly normal number per element. Elements have mean about 0
//                                          and variance about 1.
//   float input [batch, features]          One random number per class and feature instead of waves; the same noise.
//   integer input [batch, ..., length]     Token ids below `vocab`. If the target has the input's shape, it is the next
//                                          token of each: the sequence follows one fixed permutation of the vocabulary,
//                                          and a random token interrupts it with the probability `noise`. Otherwise
//                                          six tokens of ten come from the class's share of the vocabulary, and the
//                                          others from all of it.
//   bool input                             True, as masks want it.
//   integer target                         The class id, where it is not the next token.
//   float target [batch, ...]              The class's pattern of that shape, without noise.
//
// At the default noise the nearest class mean of the raw pixels is right for more than 95 % of the
// images (test/unit/data/SyntheticTest.cpp), so a network that trains at all learns the set; more
// noise and more classes make it harder. The evaluation split has other samples of the same classes.
// There is no augmentation.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_SYNTHETICSOURCE_H
#define TESSERA_RUNTIME_DATA_SYNTHETICSOURCE_H

#include "runtime/data/Producer.h"

namespace tessera::rt {

Result<std::unique_ptr<BatchProducer>> openSynthetic(const ProducerContext &context);

} // namespace tessera::rt

#endif
