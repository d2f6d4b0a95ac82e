//===- DataTesting.h - helpers of the data tests ----------------------------------------------===//
#ifndef TESSERA_TEST_UNIT_DATA_DATATESTING_H
#define TESSERA_TEST_UNIT_DATA_DATATESTING_H

#include "runtime/data/DataSource.h"
#include "runtime/data/Elements.h"
#include "runtime/plan/PlanInfo.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace tessera::rt::testing {

/// A directory that goes away with the test.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    static int counter = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("tessera-data-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string &name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

inline void writeBytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
}

using Buffers = std::vector<std::string>;

/// The next batch of a source that was opened with these requests.
inline Buffers nextBatch(DataSource &source, const std::vector<BatchRequest> &requests) {
  Buffers buffers;
  std::vector<void *> pointers;
  for (const BatchRequest &request : requests)
    buffers.emplace_back(*bytesOf(request.shape, request.dtype), '\x5a');
  for (std::string &buffer : buffers)
    pointers.push_back(buffer.data());
  const Status status = source.next(pointers);
  INFO(status.message());
  REQUIRE(status.ok());
  return buffers;
}

inline BatchRequest wholeRequest(std::vector<int64_t> shape, plan::DType dtype, bool target = false) {
  return {shape, std::vector<int64_t>(shape.size(), 0), shape, dtype, target};
}

inline std::unique_ptr<DataSource> openOrFail(const std::string &spec, const std::vector<BatchRequest> &requests,
                                              const DataOptions &options = {}) {
  Result<std::unique_ptr<DataSource>> source = openDataSource(spec, requests, options);
  INFO(source.status().message());
  REQUIRE(source.ok());
  return std::move(*source);
}

/// Cuts every request along `dims[i]` (-1: not at all) into `ranks` boxes, opens one source per
/// rank, and checks that in `batches` batches each box equals the same part of the whole batch.
inline void checkSharding(const std::string &spec, const std::vector<BatchRequest> &whole,
                          const std::vector<std::vector<int64_t>> &cuts, const DataOptions &options, int batches,
                          int64_t firstBatch = 0) {
  auto reference = openOrFail(spec, whole, options);
  REQUIRE(reference->seek(firstBatch).ok());
  int64_t ranks = 1;
  for (int64_t pieces : cuts[0])
    ranks *= pieces;
  std::vector<std::vector<BatchRequest>> requests;
  std::vector<std::unique_ptr<DataSource>> sources;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<BatchRequest> mine = whole;
    for (size_t i = 0; i < whole.size(); ++i) {
      int64_t rest = rank;
      for (size_t d = whole[i].shape.size(); d-- > 0;) {
        const int64_t pieces = cuts[i][d];
        mine[i].shape[d] = whole[i].shape[d] / pieces;
        mine[i].offset[d] = rest % pieces * mine[i].shape[d];
        rest /= pieces;
      }
    }
    sources.push_back(openOrFail(spec, mine, options));
    CHECK(sources.back()->batchesPerEpoch() == reference->batchesPerEpoch());
    REQUIRE(sources.back()->seek(firstBatch).ok());
    requests.push_back(std::move(mine));
  }
  for (int batch = 0; batch < batches; ++batch) {
    const Buffers expected = nextBatch(*reference, whole);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Buffers got = nextBatch(*sources[rank], requests[rank]);
      for (size_t i = 0; i < whole.size(); ++i) {
        const BatchRequest &request = requests[rank][i];
        const uint64_t size = bytesPerElement(request.dtype);
        std::string part;
        REQUIRE(forEachRun(request.globalShape, request.offset, request.shape, [&](int64_t at, int64_t count) {
                  part += expected[i].substr(at * size, count * size);
                  return Status();
                }).ok());
        INFO("rank " << rank << ", request " << i << ", batch " << batch);
        CHECK((part == got[i]));
      }
    }
  }
}

} // namespace tessera::rt::testing

#endif
