#include "runtime/backend/cuda/run/KernelNames.h"

#include <cctype>
#include <cstdint>
#include <cstdio>

namespace tessera::rt::cuda {

std::string kernelLabel(std::string_view kind, const Shape &shape) {
  std::string label;
  for (char c : kind)
    label += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (label.empty() || std::isdigit(static_cast<unsigned char>(label[0])))
    label = "kernel_" + label;
  const char *between = "_";
  for (int64_t size : shape) {
    label += between + std::to_string(size);
    between = "x";
  }
  return label;
}

std::string kernelLabel(const KernelCall &call) {
  const TensorView *largest = nullptr;
  for (const std::vector<TensorView> *views : {&call.outputs, &call.inputs})
    for (const TensorView &view : *views)
      if (!largest || view.elements() > largest->elements())
        largest = &view;
  return kernelLabel(call.name(), largest ? largest->shape : Shape());
}

NamedKernel nameKernel(const std::string &source, const std::string &label) {
  uint32_t hash = 2166136261u; // FNV-1a
  for (unsigned char c : source)
    hash = (hash ^ c) * 16777619u;
  char digits[16];
  std::snprintf(digits, sizeof digits, "_%08x", hash);
  NamedKernel named{source, label + digits};
  // A source may hold one of several kernels, as its constants say.
  const std::string_view mark = "__global__";
  for (size_t at = named.source.find(mark); at != std::string::npos; at = named.source.find(mark, at + mark.size())) {
    size_t k = named.source.find("k(", at);
    while (k != std::string::npos && !std::isspace(static_cast<unsigned char>(named.source[k - 1])))
      k = named.source.find("k(", k + 1);
    if (k != std::string::npos)
      named.source.replace(k, 1, named.name);
  }
  return named;
}

} // namespace tessera::rt::cuda
