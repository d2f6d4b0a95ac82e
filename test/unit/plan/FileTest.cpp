// Plan directories and safetensors on disk: round trips, and every bad file is one clear error.
#include "runtime/plan/PlanFile.h"
#include "runtime/tensor/ConvertElements.h"
#include "runtime/tensor/Safetensors.h"
#include "test/unit/plan/TrainingPlan.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;
using RtStatus = tessera::rt::Status;

namespace {

/// An empty directory that goes away with the test.
struct Scratch {
  std::string path;
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Scratch() { fs::remove_all(path); }
};

void writeWeights(const std::string &path) {
  auto writer = SafetensorsWriter::create(path, {{"w", plan::F32, {3, 2}}});
  REQUIRE(writer.ok());
  float w[6] = {1, 2, 3, 4, 5, 6};
  REQUIRE(writer->add(w, sizeof w).ok());
  REQUIRE(writer->commit().ok());
}

std::vector<PlanContents> contents(uint32_t ranks) {
  std::vector<plan::Plan> plans = trainingPlans(ranks);
  return {plans.begin(), plans.end()};
}

std::string writeGood(const Scratch &scratch) {
  std::string dir = scratch.path + "/plan";
  REQUIRE(makeDirectory(dir).ok());
  writeWeights(dir + "/weights.safetensors");
  REQUIRE(writePlanDirectory(dir, contents(2), PlanContents(trainingPlan(0, 1))).ok());
  return dir;
}

std::string messageOf(const std::string &dir) { return readPlanDirectory(dir).status().message(); }

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("a plan directory comes back as it was written") {
  Scratch scratch;
  std::string dir = writeGood(scratch);
  Result<PlanDirectory> read = readPlanDirectory(dir);
  INFO(read.status().message());
  REQUIRE(read.ok());
  CHECK(read->ranks.size() == 2);
  REQUIRE(read->sequential.has_value());
  CHECK(read->weights == dir + "/weights.safetensors");
  CHECK(read->ranks[1].plan_id() == computePlanId(contents(2), PlanContents(trainingPlan(0, 1))));
  plan::Plan expected = trainingPlan(1, 2);
  expected.set_plan_id(read->ranks[1].plan_id());
  CHECK(serialize(read->ranks[1]) == serialize(expected));
  // The folder has only whole files, under their names.
  for (const auto &entry : fs::directory_iterator(dir))
    CHECK((entry.path().extension() == ".plan" || entry.path().extension() == ".safetensors"));
}

TEST_CASE("a visitor sees every rank's plan, in order") {
  Scratch scratch;
  std::string dir = writeGood(scratch);
  Result<PlanDirectory> read = readPlanDirectory(dir);
  REQUIRE(read.ok());
  std::vector<std::string> seen;
  CHECK(visitPlanDirectory(dir, [&](const plan::Plan &plan) { seen.push_back(serialize(plan)); }).ok());
  CHECK(seen == std::vector<std::string>{serialize(read->ranks[0]), serialize(read->ranks[1])});
  fs::remove(dir + "/rank1.plan");
  CHECK(visitPlanDirectory(dir, [](const plan::Plan &) {}).message() == messageOf(dir));
}

TEST_CASE("other bytes of the same plan count as changed") {
  Scratch scratch;
  std::string dir = writeGood(scratch);
  auto bytes = readFile(dir + "/rank1.plan", kMaxPlanBytes);
  REQUIRE(bytes.ok());
  // A field that stands twice has the last value.
  REQUIRE(writeFile(dir + "/rank1.plan", bytes->substr(0, 2) + *bytes).ok());
  CHECK(contains(messageOf(dir), "changed or damaged after they were written"));
}

TEST_CASE("writing again removes the files of more ranks") {
  Scratch scratch;
  std::string dir = writeGood(scratch);
  REQUIRE(writePlanDirectory(dir, contents(1), std::nullopt).ok());
  CHECK_FALSE(fileExists(dir + "/rank1.plan"));
  CHECK_FALSE(fileExists(dir + "/sequential.plan"));
  CHECK(readPlanDirectory(dir).ok());
}

TEST_CASE("fields of a later release are kept and change nothing") {
  Scratch scratch;
  std::string dir = writeGood(scratch);
  std::vector<PlanContents> ranks;
  for (plan::Plan p : trainingPlans(2)) {
    for (google::protobuf::Message *message :
         {static_cast<google::protobuf::Message *>(&p), static_cast<google::protobuf::Message *>(p.mutable_bindings(0)),
          static_cast<google::protobuf::Message *>(p.mutable_programs(0)->mutable_steps(0))})
      message->GetReflection()->MutableUnknownFields(message)->AddVarint(1000, 7);
    ranks.emplace_back(p);
  }
  REQUIRE(writePlanDirectory(dir, ranks, std::nullopt).ok());
  Result<PlanDirectory> read = readPlanDirectory(dir); // plan_id included
  INFO(read.status().message());
  REQUIRE(read.ok());
  CHECK(read->ranks[0].bindings(0).id_limit() == 0);
  CHECK(computePlanId(ranks, std::nullopt) == read->ranks[0].plan_id());
}

TEST_CASE("a bad plan directory is one clear error") {
  Scratch scratch;
  std::string dir = writeGood(scratch);
  auto rank1 = readFile(dir + "/rank1.plan", kMaxPlanBytes);
  REQUIRE(rank1.ok());

  SECTION("no directory") { CHECK(contains(messageOf(dir + "x"), "is not a plan directory")); }
  SECTION("empty directory") {
    fs::create_directory(scratch.path + "/empty");
    CHECK(contains(messageOf(scratch.path + "/empty"), "it has no rank0.plan"));
  }
  SECTION("missing rank") {
    fs::remove(dir + "/rank1.plan");
    CHECK(contains(messageOf(dir), "rank1.plan: cannot be opened"));
  }
  SECTION("missing weights") {
    fs::remove(dir + "/weights.safetensors");
    CHECK(contains(messageOf(dir), "weight file is missing"));
  }
  SECTION("every truncation") {
    for (size_t size = 0; size < rank1->size(); size += 7) {
      REQUIRE(writeFile(dir + "/rank1.plan", rank1->substr(0, size)).ok());
      CHECK(contains(messageOf(dir), "rank1.plan"));
    }
  }
  SECTION("not a plan") {
    REQUIRE(writeFile(dir + "/rank0.plan", "this is no plan").ok());
    CHECK(contains(messageOf(dir), "is not a plan file"));
  }
  SECTION("a newer version") {
    plan::Plan p = trainingPlan(1, 2);
    p.set_version(12);
    p.set_producer("tessera-compile 9.1");
    REQUIRE(writeFile(dir + "/rank1.plan", serialize(p)).ok());
    CHECK(contains(messageOf(dir),
                   "rank1.plan: has format version 12, this program reads versions 1 to 11; run it with "
                   "the release that made it ('tessera-compile 9.1') or a newer one, or compile the model "
                   "again with this release"));
  }
  SECTION("an older version") {
    plan::Plan p = trainingPlan(1, 2);
    p.set_version(0);
    REQUIRE(writeFile(dir + "/rank1.plan", serialize(p)).ok());
    CHECK(
        contains(messageOf(dir), "has format version 0, this program reads versions 1 to 11; compile the model again"));
  }
  SECTION("offset out of range") {
    Result<plan::Plan> p = parsePlan(*rank1, "rank1.plan");
    p->mutable_buffers(3)->set_offset(uint64_t(1) << 40);
    REQUIRE(writeFile(dir + "/rank1.plan", serialize(*p)).ok());
    CHECK(contains(messageOf(dir), "rank 1: buffer 3 'step'"));
    CHECK(contains(messageOf(dir), "outside the arena"));
  }
  SECTION("a plan of another compilation") {
    std::vector<plan::Plan> other = trainingPlans(2);
    other[1].set_plan_id("ffff");
    REQUIRE(writeFile(dir + "/rank1.plan", serialize(other[1])).ok());
    CHECK(contains(messageOf(dir), "different compilations"));
  }
  SECTION("a sequential plan of another compilation") {
    REQUIRE(writeFile(dir + "/sequential.plan", serialize(trainingPlan(0, 1))).ok());
    CHECK(contains(messageOf(dir), "belongs to another compilation"));
  }
  SECTION("damage that leaves a valid plan") {
    Result<plan::Plan> p = parsePlan(*rank1, "rank1.plan");
    p->mutable_buffers(LR)->set_constant(std::string("\0\0\0\0", 4));
    REQUIRE(writeFile(dir + "/rank1.plan", serialize(*p)).ok());
    CHECK(contains(messageOf(dir), "changed or damaged"));
  }
  SECTION("a mesh of nonsense") {
    Result<plan::Plan> p = parsePlan(*rank1, "rank1.plan");
    p->mutable_mesh(0)->set_size(1u << 31);
    p->add_mesh()->set_size(1u << 31);
    REQUIRE(writeFile(dir + "/rank0.plan", serialize(*p)).ok());
    CHECK(contains(messageOf(dir), "no sensible number of ranks"));
  }
  SECTION("a plan that is a directory") {
    fs::remove(dir + "/rank1.plan");
    fs::create_directory(dir + "/rank1.plan");
    CHECK(contains(messageOf(dir), "rank1.plan: is not a regular file"));
  }
}

TEST_CASE("a failed write leaves the old file") {
  Scratch scratch;
  std::string path = scratch.path + "/f";
  REQUIRE(writeFile(path, "old").ok());
  {
    Result<AtomicFile> file = AtomicFile::create(path);
    REQUIRE(file.ok());
    REQUIRE(file->write("new", 3).ok());
  } // not committed
  CHECK(*readFile(path, 100) == "old");
  CHECK(std::distance(fs::directory_iterator(scratch.path), fs::directory_iterator()) == 1);
  CHECK(contains(writeFile(scratch.path + "/no/such/f", "x").message(), "cannot be written"));
  CHECK(contains(readFile(path, 2).status().message(), "larger than the limit"));
}

TEST_CASE("weights that shrink while they are read are one clear error") {
  Scratch scratch;
  std::string path = scratch.path + "/w.safetensors";
  writeWeights(path);
  auto file = Safetensors::open(path);
  REQUIRE(file.ok());
  fs::resize_file(path, fs::file_size(path) - 4);
  float w[6];
  const Safetensors::Entry &entry = *file->find("w");
  CHECK(file->readBox(entry, {0, 0}, {2, 2}, plan::F32, w).ok());
  CHECK(file->readBox(entry, {0, 0}, {3, 2}, plan::F32, w).message() == path + ": shrank while it was in use");
}

TEST_CASE("boxes of safetensors are read and converted") {
  Scratch scratch;
  std::string path = scratch.path + "/t.safetensors";
  std::vector<float> t(2 * 3 * 4);
  for (size_t i = 0; i < t.size(); ++i)
    t[i] = float(i) + 0.5f;
  int64_t n = 7;
  {
    auto w = SafetensorsWriter::create(path, {{"t", plan::F32, {2, 3, 4}}, {"n", plan::I64, {}}}, {{"step", "12"}});
    REQUIRE(w.ok());
    REQUIRE(w->add(t.data(), t.size() * 4).ok());
    CHECK_FALSE(w->commit().ok()); // n is missing
    REQUIRE(w->add(&n, 8).ok());
    CHECK_FALSE(w->add(&n, 8).ok());
    REQUIRE(w->commit().ok());
  }
  auto file = Safetensors::open(path);
  INFO(file.status().message());
  REQUIRE(file.ok());
  CHECK(file->metadata().at("step") == "12");
  CHECK(file->find("x") == nullptr);
  const Safetensors::Entry *entry = file->find("t");
  REQUIRE(entry);
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 4; ++c)
        for (int64_t s : {1, 2, 3}) { // every box with sides of at most s that fits
          std::vector<int64_t> offset = {a, b, c};
          std::vector<int64_t> shape = {std::min(s, 2 - a), std::min(s, 3 - b), std::min(s, 4 - c)};
          std::vector<double> out(size_t(shape[0] * shape[1] * shape[2]));
          REQUIRE(file->readBox(*entry, offset, shape, plan::F64, out.data()).ok());
          size_t k = 0;
          for (int64_t i = 0; i < shape[0]; ++i)
            for (int64_t j = 0; j < shape[1]; ++j)
              for (int64_t l = 0; l < shape[2]; ++l)
                CHECK(out[k++] == t[size_t((a + i) * 12 + (b + j) * 4 + c + l)]);
        }
  double scalar;
  CHECK_FALSE(file->readBox(*entry, {0, 0, 3}, {1, 1, 2}, plan::F32, t.data()).ok());
  CHECK_FALSE(file->readBox(*entry, {0, 0}, {1, 1}, plan::F32, t.data()).ok());
  CHECK(contains(file->readBox(*file->find("n"), {}, {}, plan::F64, &scalar).message(),
                 "has the type i64; the plan wants f64"));
  CHECK(file->readBox(*file->find("n"), {}, {}, plan::I64, &scalar).ok());
}

TEST_CASE("a bad safetensors file is one clear error") {
  Scratch scratch;
  std::string path = scratch.path + "/bad.safetensors";
  auto open = [&](const std::string &header, size_t contents, int64_t length = -1) {
    uint64_t n = length < 0 ? header.size() : uint64_t(length);
    std::string bytes;
    for (int i = 0; i < 8; ++i)
      bytes += char(n >> (8 * i));
    bytes += header + std::string(contents, 'x');
    REQUIRE(writeFile(path, bytes).ok());
    RtStatus status = Safetensors::open(path).status();
    CHECK(status.message().find(path) == 0);
    return status.message();
  };
  auto entry = [](const std::string &type, const std::string &shape, const std::string &range) {
    return R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + range + "}}";
  };
  REQUIRE(writeFile(path, "short").ok());
  CHECK(contains(Safetensors::open(path).status().message(), "only 5 bytes"));
  REQUIRE(writeFile(path, "").ok());
  CHECK_FALSE(Safetensors::open(path).ok());

  CHECK(contains(open("{}", 0, INT64_MAX), "truncated"));
  CHECK(contains(open("{}", 0, 3), "truncated"));
  CHECK(contains(open("{", 0), "not a JSON object"));
  CHECK(contains(open("[]", 0), "not a JSON object"));
  CHECK(contains(open(std::string(100000, '['), 0), "not a JSON object"));
  CHECK(contains(open(R"({"a":)" + std::string(1000, '[') + std::string(1000, ']') + "}", 0), "not a JSON object"));
  CHECK(contains(open(R"({"a":1})", 0), "'a' has no dtype"));
  CHECK(contains(open(entry("F8", "[2]", "[0,2]"), 2), "dtype 'F8', which is not supported"));
  CHECK(contains(open(entry("F32", "[-2]", "[0,8]"), 8), "no sensible shape"));
  CHECK(contains(open(entry("F32", "[2.5]", "[0,8]"), 8), "no sensible shape"));
  CHECK(contains(open(entry("F32", "7", "[0,8]"), 8), "no sensible shape"));
  CHECK(contains(open(entry("F32", "[2]", "[0,16]"), 8), "outside the file"));
  CHECK(contains(open(entry("F32", "[2]", "[8,0]"), 8), "outside the file"));
  CHECK(contains(open(entry("F32", "[2]", "[0]"), 8), "outside the file"));
  CHECK(contains(open(entry("F32", "[3]", "[0,8]"), 8), "has 8 bytes of contents"));
  CHECK(contains(open(entry("F32", "[4611686018427387904,4]", "[0,8]"), 8), "bytes of contents"));
  CHECK(contains(open(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                      8),
                 "'a' and 'b' overlap"));
}

TEST_CASE("half precision converts both ways") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float f = halfToFloat(uint16_t(bits));
    if (std::isnan(f))
      CHECK(std::isnan(halfToFloat(floatToHalf(f))));
    else if (floatToHalf(f) != bits)
      FAIL("half " << bits);
  }
  CHECK(floatToHalf(65519.0f) == 0x7bff);
  CHECK(floatToHalf(65520.0f) == 0x7c00);
  CHECK(floatToHalf(-1e30f) == 0xfc00);
  CHECK(floatToHalf(1.0f + 0x1p-11f) == 0x3c00); // a tie goes to even
  CHECK(floatToHalf(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(floatToHalf(0x1p-25f) == 0);
  CHECK(floatToHalf(0x1.8p-25f) == 1);
}

TEST_CASE("elements convert between types") {
  double d[4] = {-1.75, 300.5, 1e300, std::numeric_limits<double>::quiet_NaN()};
  int64_t i[4];
  convertElements(d, plan::F64, i, plan::I64, 4);
  CHECK(i[0] == -1);
  CHECK(i[1] == 300);
  CHECK(i[2] == INT64_MAX);
  CHECK(i[3] == 0);
  uint16_t b[4];
  convertElements(d, plan::F64, b, plan::BF16, 4);
  CHECK(b[0] == 0xbfe0);
  uint8_t t[4];
  convertElements(d, plan::F64, t, plan::BOOL, 4);
  CHECK(t[0] == 1);
  int8_t s[2] = {-3, 5};
  float f[2];
  convertElements(s, plan::I8, f, plan::F32, 2);
  CHECK(f[0] == -3);
  CHECK(f[1] == 5);
}
