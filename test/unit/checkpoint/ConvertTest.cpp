// A checkpoint in other files is the same checkpoint.
#include "runtime/checkpoint/ConvertCheckpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Layout.h"
#include "test/unit/checkpoint/TensorsInMemory.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  std::string path;
  TensorsInMemory source;
  Manifest manifest;
  Fixture() {
    std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
    source.add("big", {3000, 1000}, 0); // more than one slab
    source.add("w", {7, 3}, 5);
    source.add("momentum/w", {7, 3}, 50);
    source.add("scalar", {}, 9);
    for (const std::string &name : source.names()) {
      Manifest::Tensor tensor;
      tensor.role = name[0] == 'm' ? TensorRole::Optimizer : TensorRole::Parameter;
      tensor.type = plan::F32;
      tensor.shape = source.typeOf(name)->shape;
      tensor.split.assign(tensor.shape.size(), 1);
      manifest.tensors[name] = tensor;
    }
    manifest.position.step = 5;
  }
  ~Fixture() { fs::remove_all(path); }

  Checkpoint open(const std::string &name) {
    Result<Checkpoint> found = Checkpoint::open(path + "/" + name);
    INFO(found.status().message());
    REQUIRE(found.ok());
    return std::move(*found);
  }
};

} // namespace

TEST_CASE("merging, splitting and merging again changes nothing") {
  Fixture f;
  layOutWhole(f.manifest);
  REQUIRE(rewrite(f.source, f.manifest, f.path + "/whole").ok());
  CHECK(f.source.mostElements <= 1 << 20); // never a tensor at once
  Checkpoint whole = f.open("whole");
  CHECK(whole.manifest().files.size() == 2);
  CHECK(compare(f.source, whole)->empty());
  for (int parts : {1, 2, 3, 5, 64}) {
    layOutParts(f.manifest, parts);
    const std::string name = "parts" + std::to_string(parts);
    REQUIRE(rewrite(whole, f.manifest, f.path + "/" + name).ok());
    Checkpoint cut = f.open(name);
    CHECK(cut.manifest().files.size() <= size_t(parts));
    CHECK(cut.manifest().position.step == 5);
    CHECK(compare(f.source, cut)->empty());
    CHECK(damagesOf(cut).empty());
    layOutWhole(f.manifest);
    REQUIRE(rewrite(cut, f.manifest, f.path + "/again" + name).ok());
    for (const char *file : {"manifest.json", "model.safetensors", "optimizer.safetensors"})
      CHECK(*readFile(f.path + "/again" + name + "/" + file, 1 << 30) == *readFile(f.path + "/whole/" + file, 1 << 30));
  }
  CHECK_FALSE(rewrite(f.source, f.manifest, f.path + "/whole").ok()); // nothing is overwritten
}

namespace {

/// Fails in its third read, as a damaged file does.
struct Failing : TensorsInMemory {
  mutable int reads = 0;
  Status read(const std::string &name, const Block &block, plan::DType type, void *out) const override {
    return ++reads == 3 ? Status::error("damaged") : TensorsInMemory::read(name, block, type, out);
  }
};

} // namespace

TEST_CASE("a conversion that fails leaves nothing behind") {
  Fixture f;
  Failing failing;
  static_cast<TensorsInMemory &>(failing) = f.source;
  layOutWhole(f.manifest);
  CHECK(rewrite(failing, f.manifest, f.path + "/out").message() == "damaged");
  CHECK(fs::is_empty(f.path));
}

TEST_CASE("exported tensors are read back, in another type if asked for") {
  Fixture f;
  REQUIRE(exportTensors(f.source, {"w", "big"}, f.path + "/x", plan::F64).ok());
  CHECK(exportTensors(f.source, {"w"}, f.path + "/x", plan::F64).message() == f.path + "/x: is there already");
  Result<Safetensors> file = Safetensors::open(f.path + "/x");
  REQUIRE(file.ok());
  CHECK(file->typeOf("w")->type == plan::F64);
  std::vector<Difference> d = *compare(f.source, *file);
  CHECK(d.size() == 2); // what was not exported
  CHECK(d[0].what == "only in the first");
  CHECK_FALSE(exportTensors(f.source, {"nothing"}, f.path + "/y", {}).ok());
}

TEST_CASE("differences are listed by tensor") {
  Fixture f;
  TensorsInMemory other = f.source;
  CHECK(compare(f.source, other)->empty());
  other.tensors["w"].values[3] += 0.5f;
  other.tensors["big"].values.back() = std::nanf("");
  other.tensors["scalar"].shape = {1};
  other.add("new", {1}, 0);
  std::vector<Difference> d = *compare(f.source, other);
  REQUIRE(d.size() == 4);
  CHECK((d[0].name == "big" && d[0].elements == 1 && std::isinf(d[0].largest)));
  CHECK((d[1].name == "new" && d[1].what == "only in the second"));
  CHECK((d[2].name == "scalar" && d[2].what == "shapes [] and [1]"));
  CHECK((d[3].name == "w" && d[3].elements == 1 && d[3].largest == 0.5 && d[3].relative == 0.5 / 25));
}

TEST_CASE("every damaged stretch is listed") {
  Fixture f;
  layOutWhole(f.manifest);
  REQUIRE(rewrite(f.source, f.manifest, f.path + "/c").ok());
  const std::string file = f.path + "/c/model.safetensors";
  std::string bytes = *readFile(file, 1 << 30);
  bytes[kSumChunk + 5] = char(bytes[kSumChunk + 5] ^ 1);
  bytes[3 * kSumChunk] = char(bytes[3 * kSumChunk] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  std::vector<std::string> damages = damagesOf(f.open("c"));
  REQUIRE(damages.size() == 2);
  CHECK(damages[0].find("bytes 1048576 to 2097151") != std::string::npos);
  CHECK(damages[1].find("bytes 3145728 to 4194303") != std::string::npos);
}
