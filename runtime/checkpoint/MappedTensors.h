//===- MappedTensors.h - a weight set under other names ---------------------------------------===//
//
// A mapping file says what the tensors of the plan are called in a weight set from elsewhere:
//
//   {"encoder.*": "bert.encoder.layer.*",              one star on each side stands for the same text
//    "fc.weight": {"name": "cls.kernel", "transpose": true},
//    "head.*": null}                                   keeps the plan's own values
//
// An entry with the exact name takes precedence over patterns, and the first pattern that matches over later ones. A
// name that no entry matches stays unchanged.
//
//   Result<NameMap> map = NameMap::parse(text);
//   MappedTensors tensors(std::move(file), std::move(plansOwn), std::move(*map), plan);
//   tensors.typeOf("encoder.0.w");                     // that of bert.encoder.layer.0.w
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_MAPPEDTENSORS_H
#define TESSERA_RUNTIME_CHECKPOINT_MAPPEDTENSORS_H

#include "runtime/tensor/TensorSource.h"

#include <map>
#include <memory>
#include <string_view>

namespace tessera::rt {

class NameMap {
public:
  struct Target {
    std::optional<std::string> name; // none: the plan's own values are kept
    bool transpose = false;          // the two dimensions change places
  };

  static Result<NameMap> parse(std::string_view json);
  Target of(const std::string &name) const;
  /// An error for an entry that matches no tensor of the plan, and for one that transposes a tensor that is no matrix.
  /// A pattern may also match vectors, which transposing leaves alone.
  Status check(const plan::Plan &plan) const;

private:
  struct Pattern {
    std::string before, after; // the text before and after the star
    Target target;
    bool matches(const std::string &name) const {
      return name.size() >= before.size() + after.size() && name.starts_with(before) && name.ends_with(after);
    }
  };
  std::map<std::string, Target> names_;
  std::vector<Pattern> patterns_;
};

class MappedTensors : public TensorSource {
public:
  /// `own` may be null where the plan has no weights of its own.
  MappedTensors(std::unique_ptr<TensorSource> from, std::unique_ptr<TensorSource> own, NameMap map,
                const plan::Plan &plan);

  const std::string &path() const override { return from_->path(); }
  /// The plan's names of the tensors that are found, and the names in the weight set that no tensor of the plan uses.
  std::vector<std::string> names() const override { return names_; }
  std::optional<TensorType> typeOf(const std::string &name) const override;
  std::string nameThere(const std::string &name) const override { return map_.of(name).name.value_or(name); }
  Status read(const std::string &name, const Block &block, plan::DType type, void *out) const override;

private:
  std::unique_ptr<TensorSource> from_, own_;
  NameMap map_;
  std::vector<std::string> names_;
};

} // namespace tessera::rt

#endif
