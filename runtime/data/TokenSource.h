//===- TokenSource.h - batches for language models from files of token ids --------------------===//
//
//   tokens:FILE[,FILE2,...][,dtype=u16|u32][,vocab=N]
//
// A .npy file holds a one-dimensional array of any integer type; every other file holds nothing but
// little-endian ids, u16 unless `dtype` says otherwise (as nanoGPT and Megatron write them). The files
// are one stream of tokens, the documents one after the other. With sequences of n tokens, window w
// holds the n + 1 tokens from w * n on: the first n are the input, the last n the target, so that
// every token but the first is predicted once per epoch. A batch is as many windows as the model's
// input has rows, in order or in the order that the seed and the epoch give.
//
//   // stream 10 11 12 13 14 15 16, input and target [batch, 3]: windows of 4
//   //   window 0: input 10 11 12, target 11 12 13;  window 1: input 13 14 15, target 14 15 16
//
// The model has one integer input [batch, n]; a target has the same shape. A rank reads its rows and
// its part of the sequence, no more. An id that the model's vocabulary does not have is an error that
// names the file and the place; the vocabulary is `vocab`, or what the plan shows (BatchRequest).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_TOKENSOURCE_H
#define TESSERA_RUNTIME_DATA_TOKENSOURCE_H

#include "runtime/data/Producer.h"

namespace tessera::rt {

Result<std::unique_ptr<BatchProducer>> openTokens(const ProducerContext &context);

} // namespace tessera::rt

#endif
