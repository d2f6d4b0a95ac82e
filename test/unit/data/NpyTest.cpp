#include "runtime/data/NpyFile.h"
#include "test/unit/data/DataTesting.h"

#include "runtime/data/Random.h"

#include <filesystem>
#include <numeric>

using namespace tessera::rt;
using namespace tessera::rt::testing;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

/// A file image with the given version, dictionary and data.
std::string image(int version, const std::string &dictionary, const std::string &data) {
  std::string bytes = "\x93NUMPY";
  bytes += char(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += char(dictionary.size() >> (8 * i));
  return bytes + dictionary + data;
}

std::string elements(const NpyFile &file) {
  std::string bytes(file.bytes(), '\0');
  REQUIRE(file.readBox(std::vector<int64_t>(file.shape().size(), 0), file.shape(), bytes.data()).ok());
  return bytes;
}

std::string errorOf(const std::string &path) {
  Result<NpyFile> file = NpyFile::open(path);
  REQUIRE_FALSE(file.ok());
  CHECK_THAT(file.status().message(), Contains(path));
  CHECK(file.status().message().find('\n') == std::string::npos);
  return file.status().message();
}

} // namespace

TEST_CASE("npy files come back as they were written", "[data]") {
  TemporaryDirectory dir;
  for (plan::DType dtype :
       {plan::F32, plan::F64, plan::F16, plan::BF16, plan::I64, plan::I32, plan::I8, plan::U8, plan::BOOL})
    for (const std::vector<int64_t> &shape : {std::vector<int64_t>{}, {5}, {3, 4}, {2, 0, 3}, {2, 3, 4, 5}}) {
      int64_t count = 1;
      for (int64_t d : shape)
        count *= d;
      std::string data(count * bytesPerElement(dtype), '\0');
      std::iota(data.begin(), data.end(), 1);
      REQUIRE(writeNpy(dir / "a.npy", dtype, shape, data.data()).ok());
      Result<NpyFile> file = NpyFile::open(dir / "a.npy");
      REQUIRE(file.ok());
      CHECK(file->dtype() == dtype);
      CHECK(file->shape() == shape);
      CHECK(formatNpyHeader(dtype, shape).size() % 64 == 0);
      CHECK(elements(*file) == data);
    }
}

TEST_CASE("files that NumPy wrote are read byte for byte", "[data]") {
  // numpy.save of array([[1, 2, 3], [4, 5, 6]], dtype=int32), NumPy 1.24
  std::string bytes("\x93NUMPY\x01\x00v\x00", 10);
  std::string text = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }";
  text += std::string(117 - text.size(), ' ') + "\n";
  std::string data;
  for (char c : {1, 2, 3, 4, 5, 6})
    data += std::string(1, c) + std::string(3, '\0');
  TemporaryDirectory dir;
  writeBytes(dir / "n.npy", bytes + text + data);
  int32_t values[6];
  std::iota(values, values + 6, 1);
  REQUIRE(writeNpy(dir / "t.npy", plan::I32, {2, 3}, values).ok());
  std::ifstream a(dir / "n.npy", std::ios::binary), b(dir / "t.npy", std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(a), {}) == std::string(std::istreambuf_iterator<char>(b), {}));
}

TEST_CASE("versions 2 and 3 and unusual but valid headers are read", "[data]") {
  TemporaryDirectory dir;
  const std::string path = dir / "v.npy", data = "abcdefgh";
  for (const std::string text : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
                                 "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<f4\"}",
                                 "  { 'fortran_order' : False , 'shape' : ( 1 , 2 ) , 'descr' : '<f4' }  \n"})
    for (int version : {1, 2, 3}) {
      writeBytes(path, image(version, text, data));
      Result<NpyFile> file = NpyFile::open(path);
      INFO(file.status().message());
      REQUIRE(file.ok());
      CHECK(elements(*file) == data);
    }
}

TEST_CASE("an npy file that shrinks while it is open is one clear error", "[data]") {
  TemporaryDirectory dir;
  const std::string path = dir / "s.npy";
  std::vector<float> whole(4 * 4096, 1);
  REQUIRE(writeNpy(path, plan::F32, {4, 4096}, whole.data()).ok());
  Result<NpyFile> file = NpyFile::open(path);
  REQUIRE(file.ok());
  std::filesystem::resize_file(path, 128 + 4096 * 4);
  CHECK(file->readBox({0, 0}, {1, 4096}, whole.data()).ok());
  Status status = file->readBox({3, 0}, {1, 4096}, whole.data());
  CHECK(status.message() == path + ": shrank while it was in use");
}

TEST_CASE("boxes are read and written", "[data]") {
  TemporaryDirectory dir;
  std::vector<int32_t> whole(4 * 5 * 6);
  std::iota(whole.begin(), whole.end(), 0);
  Result<NpyWriter> writer = NpyWriter::create(dir / "b.npy", plan::I32, {4, 5, 6});
  REQUIRE(writer.ok());
  // Two boxes that share the array along the middle dimension.
  for (auto [from, count] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}}) {
    std::vector<int32_t> part;
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = from; j < from + count; ++j)
        for (int64_t k = 0; k < 6; ++k)
          part.push_back(whole[(i * 5 + j) * 6 + k]);
    REQUIRE(writer->writeBox({0, from, 0}, {4, count, 6}, part.data()).ok());
  }
  CHECK_FALSE(writer->writeBox({0, 4, 0}, {4, 2, 6}, whole.data()).ok());
  CHECK_FALSE(fileExists(dir / "b.npy")); // not yet whole
  REQUIRE(writer->commit().ok());
  Result<NpyFile> file = NpyFile::open(dir / "b.npy");
  REQUIRE(file.ok());
  CHECK(elements(*file) == std::string(reinterpret_cast<char *>(whole.data()), whole.size() * 4));

  std::vector<int32_t> box(2 * 3 * 2);
  REQUIRE(file->readBox({1, 2, 3}, {2, 3, 2}, box.data()).ok());
  size_t next = 0;
  for (int i = 1; i < 3; ++i)
    for (int j = 2; j < 5; ++j)
      for (int k = 3; k < 5; ++k)
        CHECK(box[next++] == whole[(i * 5 + j) * 6 + k]);
  CHECK_THAT(file->readBox({1, 2, 5}, {2, 3, 2}, box.data()).message(), Contains("[1, 2, 5]") && Contains("[4, 5, 6]"));
  CHECK_FALSE(file->readBox({-1, 0, 0}, {1, 1, 1}, box.data()).ok());
  CHECK_FALSE(file->readBox({INT64_MAX, 0, 0}, {1, 1, 1}, box.data()).ok());
  CHECK_FALSE(file->readBox({0, 0}, {1, 1}, box.data()).ok());
}

TEST_CASE("bad npy files give one clear error", "[data]") {
  TemporaryDirectory dir;
  const std::string path = dir / "x.npy";
  CHECK_THAT(errorOf(dir / "missing.npy"), Contains("No such file"));
  auto reject = [&](const std::string &bytes, const std::string &expected) {
    writeBytes(path, bytes);
    CHECK_THAT(errorOf(path), Contains(expected));
  };
  auto header = [](const std::string &type, const std::string &order, const std::string &shape) {
    return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  };
  const std::string good = header("<f4", "False", "(2,)");
  reject("", "magic");
  reject("PK\3\4 is a zip file", "magic");
  reject(std::string("\x93NUMPY\x04\x00v\x00", 10), "version is 4.0");
  reject(image(1, good, "1234567"), "truncated");
  reject(image(1, good, "123456789"), "too long");
  reject(image(1, good, "").substr(0, 30), "truncated in its header");
  reject(image(2, good, "").substr(0, 11), "truncated in its header");
  reject(image(1, header(">f4", "False", "(2,)"), "12345678"), "big-endian");
  reject(image(1, header("<c8", "False", "(1,)"), "12345678"), "'<c8'");
  reject(image(1, header("|O", "False", "(1,)"), "12345678"), "element type");
  reject(image(1, header("<f4", "True", "(2, 1)"), "12345678"), "Fortran order");
  reject(image(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "12345678"), "records");
  reject(image(1, header("<f4", "False", "(-2,)"), "12345678"), "shape is malformed");
  reject(image(1, header("<f4", "False", "(2"), "12345678"), "malformed");
  reject(image(1, header("<f4", "False", "(4611686018427387904, 4)"), ""), "too large");
  reject(image(1, header("<f4", "False", "(0, 4611686018427387904, 4)"), ""), "too large");
  reject(image(1, header("<f4", "False", "(99999999999999999999,)"), ""), "shape is malformed");
  reject(image(1, "{'descr': '<f4', 'shape': (2,)}", "12345678"), "lacks");
  reject(image(1, "{'descr': '<f4', 'descr': '<f4'}", "12345678"), "repeated");
  reject(image(1, good + "x", "12345678"), "follows");
  reject(image(3, std::string(70000, ' '), ""), "too long");
  reject(image(1, "{" + std::string(500, '('), ""), "malformed");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK_THAT(errorOf(path), Contains("not a regular file"));
}

TEST_CASE("a mutated npy header is read or is one error", "[data]") {
  const std::string good = formatNpyHeader(plan::F32, {3, 17, 2}) + std::string(3 * 17 * 2 * 4, '\7');
  int accepted = 0;
  for (uint64_t round = 0; round < 20000; ++round) {
    std::string bytes = good;
    const int edits = 1 + (round % 8 == 0);
    for (int e = 0; e < edits; ++e) {
      const uint64_t bits = hash(round, e);
      const size_t at = below(bits, int64_t(std::min<size_t>(bytes.size(), 128)));
      switch (bits % 4) {
      case 0:
        bytes[at] = char(bits >> 32);
        break;
      case 1:
        bytes.erase(at, 1 + (bits >> 40) % 3);
        break;
      case 2:
        bytes.insert(at, std::string(1 + (bits >> 40) % 3, "0123456789(),'{}"[(bits >> 32) % 16]));
        break;
      default:
        bytes.resize(at);
      }
      if (bytes.empty())
        break;
    }
    // A copy of exactly this size, for the address sanitizer.
    std::vector<char> exact(bytes.begin(), bytes.end());
    Result<NpyHeader> header = parseNpyHeader(exact.data(), exact.size());
    if (header.ok()) {
      ++accepted;
      REQUIRE(header->dataOffset <= exact.size());
      uint64_t elements = 1;
      for (int64_t d : header->shape) {
        REQUIRE(d >= 0);
        elements *= uint64_t(d);
      }
      REQUIRE(header->dataBytes == elements * bytesPerElement(header->dtype));
    } else {
      REQUIRE_FALSE(header.status().message().empty());
    }
  }
  CHECK(accepted > 100); // the mutations do reach behind the first checks
}
