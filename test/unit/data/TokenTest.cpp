#include "runtime/data/NpyHeader.h"
#include "test/unit/data/DataTesting.h"

#include <numeric>
#include <set>

using namespace tessera::rt;
using namespace tessera::rt::testing;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

template <typename T> std::string littleEndian(const std::vector<int64_t> &values) {
  std::string bytes;
  for (int64_t value : values) {
    const auto element = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char *>(&element), sizeof element);
  }
  return bytes;
}

std::vector<int64_t> counting(int64_t count, int64_t first = 0) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// A file as numpy.save writes it, of a type that plans do not have.
std::string npy(const std::string &type, const std::string &shape, const std::string &data) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  text.resize(117, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + text + "\n" + data;
}

std::vector<BatchRequest> requests(int64_t batch, int64_t length, plan::DType dtype = plan::I64) {
  return {wholeRequest({batch, length}, dtype), wholeRequest({batch, length}, dtype, true)};
}

std::vector<int64_t> ids(const std::string &buffer) {
  std::vector<int64_t> values(buffer.size() / 8);
  std::memcpy(values.data(), buffer.data(), buffer.size());
  return values;
}

std::string errorOf(const std::string &spec, const std::vector<BatchRequest> &want) {
  Result<std::unique_ptr<DataSource>> source = openDataSource(spec, want, {});
  if (!source)
    return source.status().message();
  std::vector<std::vector<char>> buffers;
  std::vector<void *> pointers;
  for (const BatchRequest &request : want)
    pointers.push_back(buffers.emplace_back(*bytesOf(request.shape, request.dtype)).data());
  for (int64_t i = 0; i < (*source)->batchesPerEpoch(); ++i)
    if (Status status = (*source)->next(pointers); !status)
      return status.message();
  return "";
}

} // namespace

TEST_CASE("windows of a token stream overlap by one token", "[data]") {
  TemporaryDirectory dir;
  writeBytes(dir / "a.bin", littleEndian<uint16_t>(counting(14, 100)));
  const auto want = requests(2, 3);
  auto source = openOrFail("tokens:" + dir / "a.bin" + ",shuffle=0", want);
  CHECK(source->batchesPerEpoch() == 2); // 13 / 3 windows
  CHECK_THAT(source->describe(), Contains("14 tokens") && Contains("4 windows of 3"));
  for (int round = 0; round < 2; ++round) {
    Buffers got = nextBatch(*source, want);
    CHECK(ids(got[0]) == std::vector<int64_t>{100, 101, 102, 103, 104, 105});
    CHECK(ids(got[1]) == std::vector<int64_t>{101, 102, 103, 104, 105, 106});
    got = nextBatch(*source, want);
    CHECK(ids(got[0]) == std::vector<int64_t>{106, 107, 108, 109, 110, 111});
    CHECK(ids(got[1]) == std::vector<int64_t>{107, 108, 109, 110, 111, 112});
  }
}

TEST_CASE("every kind of token file gives the same stream, cut anywhere", "[data]") {
  TemporaryDirectory dir;
  const std::vector<int64_t> all = counting(120);
  writeBytes(dir / "u16.bin", littleEndian<uint16_t>(all));
  writeBytes(dir / "u32.bin", littleEndian<uint32_t>(all));
  writeBytes(dir / "u2.npy", npy("<u2", "(120,)", littleEndian<uint16_t>(all)));
  writeBytes(dir / "u4.npy", npy("<u4", "(120,)", littleEndian<uint32_t>(all)));
  writeBytes(dir / "i8.npy", npy("<i8", "(120,)", littleEndian<int64_t>(all)));
  writeBytes(dir / "u1.npy", npy("|u1", "(120,)", littleEndian<uint8_t>(all)));
  // Windows run across three pieces of other widths, one of which is empty.
  writeBytes(dir / "p0.bin", littleEndian<uint16_t>(counting(37)));
  writeBytes(dir / "p1.bin", "");
  writeBytes(dir / "p2.npy", npy("<i4", "(83,)", littleEndian<int32_t>(counting(83, 37))));
  const auto want = requests(4, 5);
  DataOptions options;
  options.seed = 3;
  auto reference = openOrFail("tokens:" + dir / "u16.bin", want, options);
  std::vector<Buffers> expected;
  for (int i = 0; i < 12; ++i)
    expected.push_back(nextBatch(*reference, want));
  for (const std::string &spec : {dir / "u32.bin" + ",dtype=u32", dir / "u2.npy", dir / "u4.npy", dir / "i8.npy",
                                  dir / "u1.npy", dir / "p0.bin" + "," + dir / "p1.bin" + "," + dir / "p2.npy"}) {
    INFO(spec);
    auto source = openOrFail("tokens:" + spec, want, options);
    for (int i = 0; i < 12; ++i)
      CHECK(nextBatch(*source, want) == expected[i]);
    // A resumed run sees what the uninterrupted one saw.
    REQUIRE(source->seek(7).ok());
    CHECK(nextBatch(*source, want) == expected[7]);
  }
}

TEST_CASE("a shuffled epoch of tokens has every window once, in another order each time", "[data]") {
  TemporaryDirectory dir;
  writeBytes(dir / "a.bin", littleEndian<uint32_t>(counting(1 + 24 * 4)));
  const auto want = requests(6, 4);
  auto source = openOrFail("tokens:" + dir / "a.bin" + ",dtype=u32", want);
  std::vector<std::vector<int64_t>> epochs(2);
  for (auto &epoch : epochs) {
    for (int i = 0; i < 4; ++i) {
      const Buffers got = nextBatch(*source, want);
      const std::vector<int64_t> x = ids(got[0]), y = ids(got[1]);
      for (int n = 0; n < 24; ++n)
        CHECK(y[n] == x[n] + 1);
      for (int n = 0; n < 6; ++n)
        epoch.push_back(x[n * 4]);
    }
    CHECK(std::set<int64_t>(epoch.begin(), epoch.end()).size() == 24);
  }
  CHECK(epochs[0] != epochs[1]);
}

TEST_CASE("ranks read their rows and their part of the sequence", "[data]") {
  TemporaryDirectory dir;
  writeBytes(dir / "a.bin", littleEndian<uint16_t>(counting(500)));
  for (const std::vector<std::vector<int64_t>> &cuts :
       {std::vector<std::vector<int64_t>>{{4, 1}, {4, 1}}, {{1, 4}, {1, 4}}, {{2, 2}, {4, 1}}})
    checkSharding("tokens:" + dir / "a.bin", requests(4, 8, plan::I32), cuts, {}, 20);
}

TEST_CASE("token files that do not fit are refused", "[data]") {
  TemporaryDirectory dir;
  const std::string path = dir / "a.bin", spec = "tokens:" + path;
  writeBytes(path, littleEndian<uint16_t>(counting(9)));
  CHECK(errorOf(spec, requests(2, 4)) == "");
  CHECK_THAT(errorOf(spec, requests(2, 5)), Contains(path) && Contains("9 tokens") && Contains("2 windows of 5"));
  CHECK_THAT(errorOf(spec + ",dtype=u32", requests(1, 2)), Contains("18 bytes") && Contains("multiple of the 4"));
  CHECK_THAT(errorOf(spec + ",dtype=f32", requests(1, 2)), Contains("u16 or u32"));
  CHECK_THAT(errorOf(spec + ",vocab=8", requests(2, 4)),
             Contains(path) && Contains("token 8 is 8") && Contains("0 to 7"));
  auto limited = requests(2, 4);
  limited[0].idLimit = 5;
  CHECK_THAT(errorOf(spec, limited), Contains("token 5 is 5") && Contains("0 to 4"));
  CHECK_THAT(errorOf(spec + ",vocab=6", limited), Contains("from 1 to 5"));
  CHECK_THAT(errorOf("tokens", requests(2, 4)), Contains("tokens:FILE"));
  CHECK_THAT(errorOf(spec, {wholeRequest({2, 4}, plan::F32)}), Contains("f32 [2, 4]"));
  CHECK_THAT(errorOf(spec, {wholeRequest({2, 4}, plan::I64), wholeRequest({2}, plan::I64, true)}),
             Contains("target is i64 [2]"));
  CHECK_THAT(errorOf(spec, {wholeRequest({2, 4}, plan::I64), wholeRequest({2, 4}, plan::I64)}), Contains("one input"));
  writeBytes(path, "");
  CHECK_THAT(errorOf(spec, requests(1, 1)), Contains("0 tokens"));

  const std::string array = dir / "b.npy";
  auto refused = [&](const std::string &contents) {
    writeBytes(array, contents);
    return errorOf("tokens:" + array, requests(1, 2));
  };
  CHECK(refused(npy("<i8", "(3,)", littleEndian<int64_t>({4, 5, 6}))) == "");
  CHECK_THAT(refused(npy("<i8", "(3,)", littleEndian<int64_t>({4, -5, 6}))), Contains("is -5"));
  CHECK_THAT(refused(npy("<u8", "(3,)", littleEndian<uint64_t>({4, 5, -1}))), Contains("is -1"));
  CHECK_THAT(refused(npy("<f4", "(3,)", std::string(12, ' '))), Contains("f32 [3]"));
  CHECK_THAT(refused(npy("<i4", "(1, 3)", std::string(12, ' '))), Contains("[1, 3]"));
  CHECK_THAT(refused(npy("<u2", "(3,)", std::string(5, ' '))), Contains("truncated"));
  // Only token files take these types.
  Result<std::unique_ptr<DataSource>> plain = openDataSource("npy:" + array, {wholeRequest({3}, plan::I64)}, {});
  CHECK_THAT(plain.status().message(), Contains("<u2"));
}
