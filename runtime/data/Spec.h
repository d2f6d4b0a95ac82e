//===- Spec.h - the text that names a data source ---------------------------------------------===//
//
//   Result<Spec> spec = parseSpec("cifar10:/data/c10,crop=2,flip=0");
//   // spec->kind == "cifar10", spec->paths == {"/data/c10"}
//   TESSERA_RETURN_IF_ERROR(spec->knows({"crop", "flip"}));  // any other option is an error
//   Result<int64_t> crop = spec->integer("crop", 4, 0, 16);  // absent: 4; outside 0..16: an error
//
//   parseSpec("npy:ids=a.npy,shuffle=1")->named == {{"ids", "a.npy"}}    // npy's files may say which input they are
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_SPEC_H
#define TESSERA_RUNTIME_DATA_SPEC_H

#include "runtime/support/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::rt {

struct Spec {
  std::string text; // as given, for messages
  std::string kind;
  std::vector<std::string> paths;
  std::vector<std::pair<std::string, std::string>> named; // input and path, of kinds whose files have names
  std::map<std::string, std::string> options;

  /// Whether this kind also fills inputs without a batch dimension.
  bool fillsWhole() const { return kind == "npy"; }
  /// Whether a part NAME=VALUE names a file, unless NAME is an option of all kinds.
  bool namesFiles() const { return kind == "npy"; }
  /// Checks that every option is one of `names` or of those that all kinds have.
  Status knows(const std::vector<std::string> &names) const;
  /// The option's value, or `otherwise` if it is not there.
  Result<int64_t> integer(const std::string &name, int64_t otherwise, int64_t least, int64_t most) const;
  Result<double> number(const std::string &name, double otherwise, double least, double most) const;
  /// Numbers separated by ':'; exactly as many as `otherwise` has.
  Result<std::vector<double>> numbers(const std::string &name, const std::vector<double> &otherwise) const;
};

Result<Spec> parseSpec(const std::string &text);

} // namespace tessera::rt

#endif
