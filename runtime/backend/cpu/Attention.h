//===- Attention.h - attention without its scores in memory ---------------------------------------------===//
//
// In F32, block by block of rows of q: the scores of a block against all keys lie in the cache of one core, where they
// are made by a matrix product, become probabilities, and are multiplied by v. The gradient makes the scores again.
// With the statistics of the forward pass a score becomes a probability by one subtraction and one exponential, and
// y . dy is the sum that the gradient of a softmax needs. After Dao et al., "FlashAttention" (2022), with whole rows of
// scores in place of their online softmax (Milakov and Gimelshein, 2018): a core's second-level cache holds rows of
// tens of thousands of keys, and whole rows need no rescaling.
//
// Keys beyond the diagonal are skipped where their probability is 0 in F32 anyway.
//
// Operands of BF16 are multiplied as such where the processor can and results are BF16 (attention/Products.h), else
// widened. Scores and softmax are F32 in any case.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_ATTENTION_H
#define TESSERA_RUNTIME_BACKEND_CPU_ATTENTION_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {
void registerTiledAttention(KernelRegistry &registry);
}

#endif
