#include "runtime/data/image/ImageTree.h"
#include "test/unit/data/DataTesting.h"
#include "test/unit/data/ImageWriting.h"

#include <set>

using namespace tessera::rt;
using namespace tessera::rt::testing;
using Catch::Contains;
namespace plan = tessera::plan;
namespace fs = std::filesystem;

namespace {

/// A file in a folder of the tree; all of one colour, which tells it from the others.
void put(const TemporaryDirectory &dir, const std::string &path, const std::string &contents) {
  fs::create_directories(fs::path(dir / path).parent_path());
  writeBytes(dir / path, contents);
}

std::string picture(int level, int width = 40, int height = 30) {
  auto paint = [=](int y, int x, int c) { return level + (x + y + c) % 3; };
  return level % 2 ? jpegFile(width, height, 3, paint) : pngFile(width, height, PNG_COLOR_TYPE_RGB, 8, paint);
}

void makeTree(const TemporaryDirectory &dir, int perClass = 6) {
  for (int i = 0; i < 3 * perClass; ++i)
    put(dir, std::string(1, char('a' + i % 3)) + "/" + std::to_string(i) + (i % 2 ? ".jpg" : ".png"),
        picture(10 + i * 5, 30 + i, 50 - i));
}

std::vector<BatchRequest> requests(int64_t batch) {
  return {wholeRequest({batch, 3, 16, 20}, plan::F32), wholeRequest({batch}, plan::I64, true)};
}

std::vector<int64_t> labels(const Buffers &batch) {
  std::vector<int64_t> values(batch[1].size() / 8);
  std::memcpy(values.data(), batch[1].data(), batch[1].size());
  return values;
}

std::string failure(const std::string &spec, const std::vector<BatchRequest> &want, const DataOptions &options = {}) {
  Result<std::unique_ptr<DataSource>> source = openDataSource(spec, want, options);
  if (!source)
    return source.status().message();
  std::vector<std::string> buffers;
  std::vector<void *> pointers;
  for (const BatchRequest &request : want)
    buffers.emplace_back(*bytesOf(request.shape, request.dtype), ' ');
  for (std::string &buffer : buffers)
    pointers.push_back(buffer.data());
  for (int64_t i = 0; i < (*source)->batchesPerEpoch(); ++i)
    if (Status status = (*source)->next(pointers); !status)
      return status.message();
  return "";
}

} // namespace

TEST_CASE("images are listed class by class, as torchvision does", "[data][image]") {
  TemporaryDirectory dir;
  for (const char *path :
       {"b/2.png", "b/10.jpg", "a/z.JPEG", "a/deep/x.jpg", "a/deep-er/x.jpg", "a/notes.txt", "B/1.png", "readme.png"})
    put(dir, path, "x");
  Result<ImageTree> tree = ImageTree::scan(dir.path());
  INFO(tree.status().message());
  REQUIRE(tree.ok());
  CHECK(tree->paths ==
        std::vector<std::string>{"B/1.png", "a/z.JPEG", "a/deep/x.jpg", "a/deep-er/x.jpg", "b/10.jpg", "b/2.png"});
  CHECK(tree->labelOf(0) == 0);
  CHECK(tree->labelOf(3) == 1);
  CHECK(tree->labelOf(4) == 2);
  fs::create_directory(dir / "c");
  CHECK_THAT(ImageTree::scan(dir.path()).status().message(), Contains("/c: has no .jpg"));
  fs::create_directory_symlink(dir / "a", dir / "a/deep/again");
  CHECK_THAT(ImageTree::scan(dir.path()).status().message(), Contains("nested more than"));
  CHECK_THAT(ImageTree::scan(dir / "none").status().message(), Contains("cannot be listed"));
  CHECK_THAT(ImageTree::scan(dir / "b").status().message(), Contains("has no folders"));
}

TEST_CASE("image batches are the same on any mesh, with any threads, and resumed", "[data][image]") {
  TemporaryDirectory dir;
  makeTree(dir);
  const std::string spec = "imagefolder:" + dir.path();
  DataOptions options;
  options.seed = 9;
  for (bool train : {true, false}) {
    options.train = train;
    for (const std::vector<std::vector<int64_t>> &cuts :
         {std::vector<std::vector<int64_t>>{{4, 1, 1, 1}, {4}}, {{1, 1, 2, 2}, {1}}, {{2, 3, 1, 1}, {1}}})
      checkSharding(spec, requests(4), cuts, options, 6);
  }
  options.train = true;
  auto one = openOrFail(spec, requests(4), options), three = openOrFail(spec + ",threads=3", requests(4), options);
  CHECK(one->batchesPerEpoch() == 4);
  std::vector<Buffers> seen;
  for (int i = 0; i < 8; ++i) {
    seen.push_back(nextBatch(*one, requests(4)));
    CHECK(nextBatch(*three, requests(4)) == seen.back());
  }
  CHECK(seen[0] != seen[4]); // another epoch
  auto resumed = openOrFail(spec + ",threads=2", requests(4), options);
  REQUIRE(resumed->seek(5).ok());
  for (int i = 5; i < 8; ++i)
    CHECK(nextBatch(*resumed, requests(4)) == seen[i]);
  // In the stored order every image has its class.
  options.train = false;
  auto stored = openOrFail(spec, requests(6), options);
  for (int64_t c = 0; c < 3; ++c)
    CHECK(labels(nextBatch(*stored, requests(6))) == std::vector<int64_t>(6, c));
}

TEST_CASE("pixels are scaled and normalised, at any reduction", "[data][image]") {
  TemporaryDirectory dir;
  put(dir, "a/1.jpg", picture(101, 400, 300));
  put(dir, "b/2.png", picture(102, 40, 30));
  const std::vector<BatchRequest> want = requests(2);
  for (const char *option : {"", ",reduce=0", ",augment=1", ",augment=1,min_area=1,resize=16"}) {
    DataOptions options;
    options.train = false;
    auto source = openOrFail("imagefolder:" + dir.path() + ",mean=0:0:0.4,std=1:0.5:1" + option, want, options);
    const Buffers got = nextBatch(*source, want);
    const auto *x = reinterpret_cast<const float *>(got[0].data());
    for (int i = 0; i < 2 * 3 * 320; ++i) {
      const int c = i / 320 % 3;
      const double level = (i / 960 ? 103 : 102) / 255.0;
      const double expected = c == 0 ? level : c == 1 ? 2 * level : level - 0.4;
      CHECK(x[i] == Approx(expected).margin(0.025));
    }
  }
}

TEST_CASE("bad images are named, and replaced within their class if so told", "[data][image]") {
  TemporaryDirectory dir;
  makeTree(dir);
  const std::string good = picture(11), spec = "imagefolder:" + dir.path();
  put(dir, "b/1.jpg", good.substr(0, good.size() / 2)); // the first of class b
  put(dir, "b/10.png", "no image");
  DataOptions options;
  options.train = false;
  CHECK_THAT(failure(spec, requests(6), options), Contains("/b/1.jpg: is no intact JPEG") && Contains("on_error=skip"));
  auto source = openOrFail(spec + ",on_error=skip", requests(6), options);
  for (int64_t round = 0; round < 2; ++round)
    for (int64_t c = 0; c < 3; ++c)
      CHECK(labels(nextBatch(*source, requests(6))) == std::vector<int64_t>(6, c));
  const std::vector<std::string> notices = source->takeNotices();
  REQUIRE(notices.size() == 2);
  CHECK_THAT(notices[0], Contains("/b/1.jpg: is no intact JPEG") && Contains("stands in"));
  CHECK_THAT(notices[1], Contains("/b/10.png: is neither"));
  CHECK(source->takeNotices().empty());
  for (const std::vector<std::vector<int64_t>> &cuts :
       {std::vector<std::vector<int64_t>>{{6, 1, 1, 1}, {1}}, {{1, 1, 2, 2}, {1}}})
    checkSharding(spec + ",on_error=skip", requests(6), cuts, options, 3);
  for (int i = 0; i < 6; ++i)
    put(dir, "b/" + std::to_string(3 * i + 1) + (i % 2 ? ".png" : ".jpg"), "x");
  CHECK_THAT(failure(spec + ",on_error=skip", requests(6), options), Contains("/b: none of the class's 6 images"));
}

TEST_CASE("image folders that do not fit are refused", "[data][image]") {
  TemporaryDirectory dir;
  makeTree(dir);
  const std::string spec = "imagefolder:" + dir.path();
  CHECK_THAT(failure(spec, {wholeRequest({2, 1, 8, 8}, plan::F32)}), Contains("[2, 1, 8, 8]"));
  CHECK_THAT(failure(spec, {wholeRequest({2, 3, 8, 8}, plan::I64)}), Contains("i64"));
  CHECK_THAT(failure(spec, requests(19)), Contains("18 samples"));
  CHECK_THAT(failure(spec + ",on_error=ignore", requests(2)), Contains("skip or fail"));
  CHECK_THAT(failure(spec + ",resize=8", requests(2)), Contains("resize=8"));
  CHECK_THAT(failure(spec + ",std=1:1:0", requests(2)), Contains("std must be positive"));
  CHECK_THAT(failure("imagefolder", requests(2)), Contains("imagefolder:DIR"));
  // DIR/train and DIR/val.
  TemporaryDirectory both;
  put(both, "train/a/1.jpg", picture(11));
  put(both, "val/a/1.jpg", picture(11));
  put(both, "val/a/2.jpg", picture(13));
  DataOptions options;
  CHECK(openOrFail("imagefolder:" + both.path(), requests(1), options)->batchesPerEpoch() == 1);
  options.train = false;
  CHECK(openOrFail("imagefolder:" + both.path(), requests(1), options)->batchesPerEpoch() == 2);
}
