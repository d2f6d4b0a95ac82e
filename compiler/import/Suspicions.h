//===- Suspicions.h - what an exporter did to a network that is to be trained -----------------===//
//
// Exporters write files for inference unless they are told otherwise. Two of their habits change what is trained:
//
//   - They keep one of several parameters of equal values. PyTorch's exporter by TorchScript leaves an Identity behind:
//         layers.1.norm.weight = Identity(layers.0.norm.weight)
//     Such an Identity also stands for parameters that are tied in PyTorch. untieMerged tells them apart as names
//     and shapes can: vectors, and names that differ in numbers only ("layers.0.", "layers.1."), were several
//     parameters, since networks tie matrices of different modules (an embedding and the head).
//   - They fold BatchNorm into the convolution before it, which gets a bias that its module has not:
//         Conv(x, conv1.weight, conv1.weight_bias)      instead of BatchNormalization(Conv(x, conv1.weight), bn1...)
//
// Both speak in sentences for a warning.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_SUSPICIONS_H
#define TESSERA_COMPILER_IMPORT_SUSPICIONS_H

#include "compiler/import/Exporter.h"

namespace tessera::compiler {

/// Does any node of the file say that it is in training mode? Then the file was exported for training.
bool isMarkedForTraining(const ModelFile &file);

/// Makes parameters of their own of those that a file for inference holds once, and removes their Identity. Returns one
/// sentence for those that were untied and one for those that stay tied, if there are any.
std::vector<std::string> untieMerged(ModelFile &file);

/// One sentence for every suspicion: BatchNorm that was folded, parameters that PyTorch lists and the file lacks.
std::vector<std::string> findLosses(const ModelFile &file, const ExporterSays &says);

/// "'a', 'b', 'c' and 4 more".
std::string someNames(llvm::ArrayRef<std::string> names, size_t count = 3);

} // namespace tessera::compiler

#endif
