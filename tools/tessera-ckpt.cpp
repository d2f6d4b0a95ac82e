//===- tessera-ckpt.cpp - looks at checkpoints and turns them into others -------------------------===//
//
//   tessera-ckpt show run/                                # what it is, tensor by tensor
//   tessera-ckpt verify run/step-00000030                 # every checksum
//   tessera-ckpt merge run/ -o whole/                     # whole tensors
//   tessera-ckpt split run/ --plan other/ -o parts/       # as the ranks of another plan hold them
//   tessera-ckpt compare a/ b/                            # exit code 1 if they differ
//   tessera-ckpt export run/ -o model.safetensors         # parameters, for other programs
//
// Where a checkpoint is wanted, the folder of a run stands for its latest; compare and export take plain
// safetensors files, too. Exit codes: 1 for a failure or a difference, 2 for a wrong command line.
//
//===------------------------------------------------------------------------------------------===//
#include "runtime/checkpoint/ConvertCheckpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Layout.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/Printable.h"
#include "tools/cli/CommandLine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sys/resource.h>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

struct CommandLine {
  std::string input, other, output, plan, type;
  int parts = 0;
  double tolerance = 0;
  bool json = false, all = false;
};

using Json = nlohmann::ordered_json;

void print(const Json &json) { std::printf("%s\n", json.dump(1, ' ', false, Json::error_handler_t::replace).c_str()); }
void print(const std::string &line) { std::printf("%s\n", printable(line).c_str()); }

/// How many files of a checkpoint stay open: of two that are read, or of one while another is written.
size_t openFiles() {
  constexpr rlim_t most = 8192;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 16;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, most)); // the soft one is for select()
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
  return size_t(std::min(limit.rlim_cur, most) / 3);
}

Result<Checkpoint> openCheckpoint(const std::string &path) {
  Result<std::string> found = findCheckpoint(path);
  if (!found)
    return found.status();
  Result<Checkpoint> checkpoint = Checkpoint::open(*found);
  if (checkpoint)
    checkpoint->keepOpen(openFiles());
  return checkpoint;
}

Result<std::unique_ptr<TensorSource>> openTensors(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    Result<Checkpoint> checkpoint = openCheckpoint(path);
    if (!checkpoint)
      return checkpoint.status();
    return std::unique_ptr<TensorSource>(std::make_unique<Checkpoint>(std::move(*checkpoint)));
  }
  Result<Safetensors> file = Safetensors::open(path);
  if (!file)
    return file.status();
  return std::unique_ptr<TensorSource>(std::make_unique<Safetensors>(std::move(*file)));
}

Status show(const CommandLine &c) {
  Result<Checkpoint> checkpoint = openCheckpoint(c.input);
  if (!checkpoint)
    return checkpoint.status();
  const Manifest &m = checkpoint->manifest();
  if (c.json) {
    std::printf("%s", formatManifest(m).c_str());
    return Status();
  }
  uint64_t bytes = 0;
  for (const Manifest::File &file : m.files)
    bytes += file.sums.bytes;
  std::string mesh;
  for (const auto &[axis, size] : m.mesh)
    mesh += (mesh.empty() ? "" : ", ") + axis + "=" + std::to_string(size);
  print(checkpoint->path() + ": " + m.model + (m.modelHash.empty() ? "" : " (" + m.modelHash + ")") + " after step " +
        std::to_string(m.position.step) + ", written by " + (mesh.empty() ? "one rank" : mesh));
  print("next: sample " + std::to_string(m.position.sample) + " of epoch " + std::to_string(m.position.epoch) + " of " +
        m.data.source + ", seed " + std::to_string(m.data.seed) + ", batches of " + std::to_string(m.position.batch));
  print(std::to_string(m.files.size()) + (m.files.size() == 1 ? " file, " : " files, ") + std::to_string(bytes) +
        " bytes:");
  for (const Manifest::File &file : m.files)
    print("  " + file.name + "  " + std::to_string(file.sums.bytes));
  print(std::to_string(m.tensors.size()) + " tensors (role, type, shape, cut, blocks in files):");
  for (const auto &[name, tensor] : m.tensors)
    print("  " + quoted(name) + "  " + roleName(tensor.role) + "  " + typeName(tensor.type) + " " +
          shapeText(tensor.shape) + "  " + shapeText(tensor.split) + "  " + std::to_string(tensor.pieces.size()));
  return Status();
}

Status verify(const CommandLine &c) {
  Result<Checkpoint> checkpoint = openCheckpoint(c.input);
  if (!checkpoint)
    return checkpoint.status();
  std::vector<std::string> damages = damagesOf(*checkpoint);
  if (c.json)
    print(Json{{"checkpoint", checkpoint->path()}, {"damages", damages}});
  else if (damages.empty())
    print(checkpoint->path() + ": whole");
  if (damages.empty())
    return Status();
  for (const std::string &damage : damages)
    if (!c.json)
      print(damage);
  return Status::error(checkpoint->path() + ": " + std::to_string(damages.size()) +
                       (damages.size() == 1 ? " stretch is" : " stretches are") + " damaged");
}

/// Writes the same tensors in another layout.
Status convert(const CommandLine &c, const std::function<Status(Manifest &)> &layOut) {
  Result<Checkpoint> checkpoint = openCheckpoint(c.input);
  if (!checkpoint)
    return checkpoint.status();
  Manifest manifest = checkpoint->manifest();
  TESSERA_RETURN_IF_ERROR(layOut(manifest));
  TESSERA_RETURN_IF_ERROR(rewrite(*checkpoint, manifest, c.output));
  print(c.output + ": " + std::to_string(manifest.tensors.size()) + " tensors of step " +
        std::to_string(manifest.position.step) + " in " + std::to_string(manifest.files.size()) +
        (manifest.files.size() == 1 ? " file" : " files"));
  return Status();
}

Status layOutAs(const std::string &path, Manifest &manifest, const TensorSource &source) {
  Result<PlanDirectory> directory = readPlanDirectory(path);
  if (!directory)
    return directory.status();
  const BoundTensors tensors(directory->ranks);
  TESSERA_RETURN_IF_ERROR(checkWeights(tensors.plan(), &source, /*strict=*/true));
  if (std::vector<std::string> unused = unusedWeights(tensors.plan(), source); !unused.empty())
    return Status::error(path + ": the plan has no use for " + namesText(unused) + "; is it of another optimizer?");
  Manifest as = describe(tensors, sharesOf(tensors), /*integrated=*/false,
                         [&](int tensor) { return manifest.tensors.at(tensors.binding(tensor).name()).type; });
  as.position = manifest.position;
  as.data = manifest.data;
  as.model = manifest.model;
  as.modelHash = manifest.modelHash;
  manifest = std::move(as);
  return Status();
}

Status split(const CommandLine &c) {
  Result<Checkpoint> checkpoint = openCheckpoint(c.input);
  if (!checkpoint)
    return checkpoint.status();
  return convert(c, [&](Manifest &manifest) {
    if (c.parts > 0) {
      layOutParts(manifest, c.parts);
      return Status();
    }
    return layOutAs(c.plan, manifest, *checkpoint);
  });
}

Status compareBoth(const CommandLine &c) {
  Result<std::unique_ptr<TensorSource>> a = openTensors(c.input), b = openTensors(c.other);
  for (auto *source : {&a, &b})
    if (!*source)
      return source->status();
  Result<std::vector<Difference>> differences = compare(**a, **b);
  if (!differences)
    return differences.status();
  size_t over = 0;
  Json told = {{"first", (*a)->path()}, {"second", (*b)->path()}, {"tensors", (*a)->names().size()}};
  told["differences"] = Json::array();
  for (const Difference &d : *differences) {
    const bool fails = !d.what.empty() || !(d.relative <= c.tolerance);
    over += fails;
    if (c.json) {
      Json one = {{"name", d.name}, {"fails", fails}};
      one.update(d.what.empty() ? Json{{"elements", d.elements}, {"largest", d.largest}, {"relative", d.relative}}
                                : Json{{"what", d.what}});
      told["differences"].push_back(std::move(one));
      continue;
    }
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "%llu elements differ, by at most %.3g (relative %.3g)%s",
                  static_cast<unsigned long long>(d.elements), d.largest, d.relative,
                  fails ? "" : ", within the tolerance");
    print(quoted(d.name) + ": " + (d.what.empty() ? numbers : d.what));
  }
  if (c.json)
    print(told);
  if (over > 0)
    return Status::error((*a)->path() + " and " + (*b)->path() + " differ in " + std::to_string(over) +
                         (over == 1 ? " tensor" : " tensors"));
  if (!c.json)
    print(std::string(differences->empty() ? "identical" : "the same within the tolerance") + ": " +
          std::to_string((*a)->names().size()) + " tensors");
  return Status();
}

Status exportWeights(const CommandLine &c) {
  Result<std::unique_ptr<TensorSource>> source = openTensors(c.input);
  if (!source)
    return source.status();
  std::vector<std::string> names;
  const auto *checkpoint = dynamic_cast<const Checkpoint *>(source->get());
  for (const std::string &name : (*source)->names())
    if (!checkpoint || c.all || checkpoint->manifest().tensors.at(name).role != TensorRole::Optimizer)
      names.push_back(name);
  std::optional<plan::DType> type;
  if (!c.type.empty())
    type = safetensorsType(c.type);
  TESSERA_RETURN_IF_ERROR(exportTensors(**source, names, c.output, type));
  print(c.output + ": " + std::to_string(names.size()) + " tensors of " + (*source)->path());
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  CommandLine c;
  CLI::App app("Looks at checkpoints and turns them into others", "tessera-ckpt");
  app.require_subcommand(1);
  std::function<Status(const CommandLine &)> run;
  auto command = [&](const char *name, const char *help, Status (*function)(const CommandLine &),
                     const char *input = "CHECKPOINT") {
    CLI::App *sub = app.add_subcommand(name, help);
    sub->add_option(input, c.input, "A checkpoint, or a folder of which the latest is meant")->required();
    sub->callback([&run, function] { run = function; });
    return sub;
  };
  auto output = [&](CLI::App *sub, const char *help, const char *type) {
    sub->add_option("-o,--output", c.output, help)->required()->type_name(type);
  };
  command("show", "Prints step, mesh, files and tensors", show)->add_flag("--json", c.json, "Print the manifest");
  const char *asJson = "Print one JSON object";
  command("verify", "Holds every byte against its checksum", verify)->add_flag("--json", c.json, asJson);
  output(command("merge", "Writes it with whole tensors",
                 [](const CommandLine &line) {
                   return convert(line, [](Manifest &manifest) {
                     layOutWhole(manifest);
                     return Status();
                   });
                 }),
         "The new checkpoint", "DIR");
  CLI::App *parts = command("split", "Writes it in parts", split);
  auto *as = parts->add_option_group("How")->require_option(1);
  as->add_option("--plan", c.plan, "As the ranks of this plan hold it")->type_name("DIR");
  as->add_option("--parts", c.parts, "In so many files, tensors cut along their first dimension")
      ->check(CLI::Range(1, 4096));
  output(parts, "The new checkpoint", "DIR");
  CLI::App *both = command("compare", "Tells which tensors differ", compareBoth, "FIRST");
  both->add_option("SECOND", c.other, "The other; either may be a safetensors file")->required();
  both->add_flag("--json", c.json, asJson);
  both->add_option("--tolerance", c.tolerance, "Allowed relative difference (default 0)")->check(CLI::Range(0.0, 1e6));
  CLI::App *plain =
      command("export", "Writes parameters and running statistics to one safetensors file", exportWeights);
  plain->add_option("--dtype", c.type, "Floating-point numbers as this type")
      ->check(CLI::IsMember({"F16", "BF16", "F32", "F64"}));
  plain->add_flag("--all", c.all, "The optimizer's states, too");
  output(plain, "The file to write", "FILE");
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  endOnInterrupt("tessera-ckpt");
  if (Status status = run(c); !status) {
    yieldToInterrupt();
    printError("tessera-ckpt: " + status.message());
    return 1;
  }
  const std::string unwritten = tessera::finishOutput();
  if (!unwritten.empty())
    printError("tessera-ckpt: " + unwritten);
  return unwritten.empty() ? 0 : 1;
}
