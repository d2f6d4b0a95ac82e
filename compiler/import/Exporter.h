//===- Exporter.h - what the exporter says of a file's tensors --------------------------------===//
//
// PyTorch's exporter by torch.export (`torch.onnx.export(..., dynamo=True)`) writes metadata beside the graph. Three
// places say what a tensor was in PyTorch. The first that names the tensor counts:
//
//   metadata_props of the initializer, of its value_info, or of the graph input of its name:
//       pkg.torch.export.graph_signature.InputSpec.kind        PARAMETER, BUFFER, CONSTANT_TENSOR
//       pkg.torch.export.graph_signature.InputSpec.persistent  True, False: is a buffer in the state_dict?
//   metadata_props of the graph, one text for all tensors:
//       pkg.torch.export.ExportedProgram.graph_signature       "p_fc_weight: PARAMETER target='fc.weight'"
//
// The optimiser that runs after the exporter (optimize=True) creates tensors that the metadata does not name. It also
// removes tensors that the graph's text still names: those that it folded into others, merged with equal ones, or found
// unused.
//
//   ExporterSays says = readExporter(file);
//   says.find("model.rotary_emb.inv_freq")->kind     TensorKind::Buffer
//   says.missing                                     {"bn1.running_mean", ...}: named in the text, not in the file
//
// Beside a node stands the operator of PyTorch that it was made of, "%detach : ... = call_function[target=
// torch.ops.aten.detach.default](args = ...": Tensor.detach() is an Identity in the file.
//
// The text is not trusted: what cannot be read of it says nothing.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_EXPORTER_H
#define TESSERA_COMPILER_IMPORT_EXPORTER_H

#include "compiler/import/ModelFile.h"

namespace tessera::compiler {

enum class TensorKind { Parameter, Buffer, Constant };

struct TensorSays {
  TensorKind kind = TensorKind::Parameter;
  bool persistent = false; // of buffers: in PyTorch's state_dict
};

struct ExporterSays {
  /// The file has metadata of torch.export. That exporter writes training_mode = 0 into every BatchNormalization.
  bool torchExport = false;
  /// The graph's text lists every tensor that the model had.
  bool complete = false;
  std::map<std::string, TensorSays> tensors;
  std::vector<std::string> missing; // names in `tensors` that are no initializer and no graph input, in text order
  bool parametersMissing = false;   // some of these are parameters

  /// What the metadata says of the tensor; null if it does not name it.
  const TensorSays *find(llvm::StringRef name) const {
    auto it = tensors.find(name.str());
    return it == tensors.end() ? nullptr : &it->second;
  }
};

ExporterSays readExporter(const ModelFile &file);

/// Does the exporter say that the node was a Tensor.detach(), through which PyTorch hands no gradient?
bool isDetach(const onnx::NodeProto &node);

/// The value of a key among the entries; empty: there is none.
llvm::StringRef metadata(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> &entries,
                         llvm::StringRef key);

} // namespace tessera::compiler

#endif
