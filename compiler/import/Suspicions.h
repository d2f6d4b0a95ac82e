//===- Suspicions.h - what an exporter did to a network that is to be trained -----------------===//
//
// Exporters write files for inference unless they are told otherwise. Two of their optimisations change what is
// trained:
//
//   - They keep only one of several parameters of equal values. PyTorch's exporter by TorchScript leaves an Identity:
//         layers.1.norm.weight = Identity(layers.0.norm.weight)
//     An Identity also stands for parameters that are tied in PyTorch. untieMerged distinguishes the two by names and
//     shapes. Vectors, and parameters whose names differ in numbers only ("layers.0.", "layers.1."), were several
//     parameters, because networks tie matrices of different modules (an embedding and the head).
//   - They fold BatchNorm into the convolution before it, which gets a bias that its module does not have:
//         Conv(x, conv1.weight, conv1.weight_bias)      instead of BatchNormalization(Conv(x, conv1.weight), bn1...)
//
// The functions return sentences for warnings.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_SUSPICIONS_H
#define TESSERA_COMPILER_IMPORT_SUSPICIONS_H

#include "compiler/import/Exporter.h"

namespace tessera::compiler {

/// Whether a node of the file is marked as being in training mode. If so, the file was exported for training.
bool isMarkedForTraining(const ModelFile &file);

/// Makes separate parameters of those that an inference export merged, and removes their Identity nodes. Returns one
/// sentence about the parameters that were untied and one about those that stay tied, if there are any.
std::vector<std::string> untieMerged(ModelFile &file);

/// One sentence for each of these that the file shows: BatchNorm was folded; the exporter lists parameters that the
/// file lacks.
std::vector<std::string> findLosses(const ModelFile &file, const ExporterSays &says);

/// "'a', 'b', 'c' and 4 more".
std::string someNames(llvm::ArrayRef<std::string> names, size_t count = 3);

} // namespace tessera::compiler

#endif
