// A checkpoint is read in any blocks, whatever blocks it was written in.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/plan/PlanInfo.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  std::string path;
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Scratch() { fs::remove_all(path); }
};

/// The tensor in n0 x n1 blocks, rounded up.
std::vector<Block> cut(const std::vector<int64_t> &shape, int64_t n0, int64_t n1) {
  std::vector<Block> blocks;
  const int64_t h = (shape[0] + n0 - 1) / n0, w = (shape[1] + n1 - 1) / n1;
  for (int64_t i = 0; i < shape[0]; i += h)
    for (int64_t j = 0; j < shape[1]; j += w)
      blocks.push_back({{i, j}, {std::min(h, shape[0] - i), std::min(w, shape[1] - j)}});
  return blocks;
}

const std::vector<int64_t> kShape = {7, 5};

std::vector<float> values(const Block &block) {
  std::vector<float> v;
  for (int64_t i = 0; i < block.shape[0]; ++i)
    for (int64_t j = 0; j < block.shape[1]; ++j)
      v.push_back(float((block.offset[0] + i) * 100 + block.offset[1] + j));
  return v;
}

/// "w" in n0 x n1 blocks, each in its own file, and a scalar; or both whole in one file.
void write(const std::string &folder, int64_t step, int64_t n0, int64_t n1, bool integrated, int64_t keep = 0) {
  Manifest m;
  m.position.step = step;
  std::vector<Block> blocks = cut(kShape, n0, n1);
  for (size_t i = 0; i < (integrated ? 1 : blocks.size()); ++i)
    m.files.push_back({"file" + std::to_string(i), {}});
  Manifest::Tensor w{TensorRole::Parameter, plan::F32, kShape, {n0, n1}, {}};
  if (integrated)
    w.pieces = {{0, wholeBlock(kShape)}};
  else
    for (size_t i = 0; i < blocks.size(); ++i)
      w.pieces.push_back({i, blocks[i]});
  m.tensors["w"] = w;
  m.tensors["scalar"] = {TensorRole::State, plan::I64, {}, {}, {{0, {{}, {}}}}};
  Result<std::string> partial = beginCheckpoint(folder, step);
  REQUIRE(partial.ok());
  // Each rank has its own writer, and they write in any order.
  for (size_t i = blocks.size(); i-- > 0;) {
    CheckpointWriter writer(*partial, m);
    REQUIRE(writer.write("w", blocks[i], values(blocks[i]).data()).ok());
    if (!integrated || i == 0)
      REQUIRE(writer.begin(integrated ? 0 : i).ok());
    int64_t seven = 7;
    if (i == 0)
      REQUIRE(writer.write("scalar", {{}, {}}, &seven).ok());
    REQUIRE(writer.sync().ok());
  }
  for (Manifest::File &file : m.files)
    file.sums = *sumFile(*partial + "/" + file.name);
  REQUIRE(commitCheckpoint(folder, m, keep).ok());
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("blocks go in one way and come out another") {
  Scratch scratch;
  int64_t step = 0;
  for (bool integrated : {false, true})
    for (auto [n0, n1] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}, {4, 3}, {7, 5}}) {
      write(scratch.path, ++step, n0, n1, integrated);
      Result<Checkpoint> found = Checkpoint::open(checkpointPath(scratch.path, step));
      INFO(found.status().message());
      REQUIRE(found.ok());
      CHECK(found->names() == std::vector<std::string>{"scalar", "w"});
      for (auto [m0, m1] : {std::pair(1, 1), {2, 1}, {3, 1}, {1, 2}, {3, 4}, {7, 5}})
        for (const Block &block : cut(kShape, m0, m1)) {
          std::vector<float> read(size_t(*elementsOf(block.shape)), -1);
          REQUIRE(found->read("w", block, plan::F32, read.data()).ok());
          CHECK(read == values(block));
          std::vector<double> wide(read.size());
          REQUIRE(found->read("w", block, plan::F64, wide.data()).ok());
          CHECK(std::equal(read.begin(), read.end(), wide.begin()));
        }
      int64_t scalar = 0;
      REQUIRE(found->read("scalar", {{}, {}}, plan::I64, &scalar).ok());
      CHECK(scalar == 7);
      CHECK_FALSE(found->read("w", {{0, 0}, {8, 5}}, plan::F32, nullptr).ok());
      CHECK_FALSE(found->read("scalar", {{}, {}}, plan::F32, &scalar).ok());
      CHECK_FALSE(found->read("v", {{}, {}}, plan::F32, &scalar).ok());
    }
}

TEST_CASE("every flipped bit and every missing byte of a file is found where it is read") {
  Scratch scratch;
  write(scratch.path, 1, 2, 1, false);
  const std::string folder = checkpointPath(scratch.path, 1), path = folder + "/file1";
  const std::string whole = *readFile(path, 1 << 20);
  std::vector<float> all(35);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] = char(bad[i] ^ 4);
    std::ofstream(path, std::ios::binary) << bad;
    Result<Checkpoint> found = Checkpoint::open(folder);
    REQUIRE(found.ok());
    CHECK(contains(found->read("w", wholeBlock(kShape), plan::F32, all.data()).message(), "file1: is damaged"));
    // A reader that needs only the other file does not read this one.
    CHECK(found->read("w", {{0, 0}, {4, 5}}, plan::F32, all.data()).ok());
  }
  std::ofstream(path, std::ios::binary) << whole.substr(0, whole.size() - 1);
  CHECK(contains(Checkpoint::open(folder).status().message(), "file1: has"));
  fs::remove(path);
  CHECK(contains(Checkpoint::open(folder).status().message(), "file1: cannot be opened"));
}

TEST_CASE("files of several chunks are read by the chunks that are needed") {
  Scratch scratch;
  const std::string path = scratch.path + "/x";
  std::string bytes(3 * kSumChunk + 17, 'a');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = char(i * 7 + i / 4096);
  std::ofstream(path, std::ios::binary) << bytes;
  FileSums sums = *sumFile(path);
  CHECK(sums.chunks.size() == 4);
  Result<CheckedFile> file = CheckedFile::open(path, sums);
  REQUIRE(file.ok());
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    size_t at = random() % bytes.size(), n = random() % (bytes.size() - at + 1);
    if (i % 2)
      n = std::min<size_t>(n, 100);
    std::string part(n, 0);
    REQUIRE(file->readAt(at, part.data(), n).ok());
    CHECK(part == bytes.substr(at, n));
  }
  char c;
  CHECK_FALSE(file->readAt(bytes.size(), &c, 1).ok());
  CHECK_FALSE(file->readAt(~uint64_t(0), &c, 1).ok());
  bytes[2 * kSumChunk] = char(bytes[2 * kSumChunk] + 1);
  std::ofstream(path, std::ios::binary) << bytes;
  Result<CheckedFile> damaged = CheckedFile::open(path, sums);
  REQUIRE(damaged.ok());
  std::string part(10, 0);
  CHECK(damaged->readAt(2 * kSumChunk - 10, part.data(), 10).ok());
  CHECK(contains(damaged->readAt(2 * kSumChunk - 9, part.data(), 10).message(), "bytes 2097152 to 3145727"));
}

TEST_CASE("a folder lists what is whole and keeps the last") {
  Scratch scratch;
  CHECK(listCheckpoints(scratch.path + "/none").empty());
  for (int64_t step : {1, 2, 30, 100000000})
    write(scratch.path, step, 1, 1, true);
  fs::create_directories(scratch.path + "/step-00000007");          // no manifest
  fs::create_directories(scratch.path + "/step-8");                 // not our name
  fs::create_directories(scratch.path + "/.step-00000009.partial"); // not finished
  CHECK(listCheckpoints(scratch.path) == std::vector<int64_t>{1, 2, 30, 100000000});
  CHECK(*findCheckpoint(scratch.path) == scratch.path + "/step-100000000");
  CHECK(*findCheckpoint(scratch.path + "/step-00000002") == scratch.path + "/step-00000002");
  CHECK_FALSE(findCheckpoint(scratch.path + "/step-00000007").ok());
  write(scratch.path, 100000001, 1, 1, true, /*keep=*/2);
  CHECK(listCheckpoints(scratch.path) == std::vector<int64_t>{100000000, 100000001});
  CHECK_FALSE(fs::exists(scratch.path + "/.step-00000009.partial"));
  CHECK(fs::exists(scratch.path + "/step-8"));
}
