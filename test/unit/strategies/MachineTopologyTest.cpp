// Listings of nvidia-smi become topologies. The texts are written after its documentation ("nvidia-smi topo -h") and
// the machines' data sheets.
#include "strategies/cost/MachineTopology.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;
using Catch::Contains;

namespace {

/// The listing as the program prints it, with an underlined heading and a legend.
const char *const kEightH100 =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tNIC1\tCPU Affinity\tNUMA "
    "Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tPXB\tSYS\t0-51,104-155\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNODE\tSYS\t0-51,104-155\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNODE\tSYS\t0-51,104-155\t0\t\tN/A\n"
    "GPU3\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNODE\tSYS\t0-51,104-155\t0\t\tN/A\n"
    "GPU4\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tSYS\tPXB\t52-103,156-207\t1\t\tN/A\n"
    "GPU5\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tSYS\tNODE\t52-103,156-207\t1\t\tN/A\n"
    "GPU6\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tSYS\tNODE\t52-103,156-207\t1\t\tN/A\n"
    "GPU7\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tSYS\tNODE\t52-103,156-207\t1\t\tN/A\n"
    "NIC0\tPXB\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X \tSYS\n"
    "NIC1\tSYS\tSYS\tSYS\tSYS\tPXB\tNODE\tNODE\tNODE\tSYS\t X \n\n"
    "Legend:\n\n  X    = Self\n"
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., "
    "QPI/UPI)\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n\n";

const char *const kTwoOnPcie = "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n"
                               "GPU0     X      PHB     0-15            N/A\n"
                               "GPU1    PHB      X      0-15            N/A\n";

// Each device has two links to each of the others. These are all six links of a V100.
const char *const kFourV100 = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
                              "GPU0\t X \tNV2\tNV2\tNV2\t0-19\n"
                              "GPU1\tNV2\t X \tNV2\tNV2\t0-19\n"
                              "GPU2\tNV2\tNV2\t X \tNV2\t20-39\n"
                              "GPU3\tNV2\tNV2\tNV2\t X \t20-39\n";

// Two pairs of devices, each behind a switch of its own processor.
const char *const kTwoPairs = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
                              "GPU0\t X \tPIX\tSYS\tSYS\t0-19\n"
                              "GPU1\tPIX\t X \tSYS\tSYS\t0-19\n"
                              "GPU2\tSYS\tSYS\t X \tPIX\t20-39\n"
                              "GPU3\tSYS\tSYS\tPIX\t X \t20-39\n";

std::string lines(int n, const std::string &line) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += line + "\n";
  return text;
}

Topology read(const std::string &devices, const char *matrix, const char *like = "") {
  return llvm::cantFail(
      machineTopology(llvm::cantFail(parseDevices(devices)), llvm::cantFail(parseConnections(matrix)), like));
}

template <typename T> std::string errorOf(llvm::Expected<T> result) {
  return result ? "" : llvm::toString(result.takeError());
}

} // namespace

TEST_CASE("eight devices behind an NVSwitch") {
  Topology t = read(lines(8, "NVIDIA H100 80GB HBM3, 81559, 5, 16"), kEightH100);
  CHECK(t.devices == 8);
  CHECK(t.memory == int64_t(81559) << 20);
  CHECK(t.rate(16) == 989e12);
  REQUIRE(t.links.size() == 1); // one level: smaller blocks are no better
  CHECK(t.links[0].devices == 8);
  CHECK(t.links[0].bandwidth == 450e9);
  CHECK_FALSE(t.shared);
  // The topology comes back from its file.
  const std::string json = t.toJson();
  Topology again = llvm::cantFail(Topology::parse(json, "machine.json"));
  CHECK(again.toJson() == json);
  CHECK(again.links[0].bandwidth == t.links[0].bandwidth);
  CHECK(again.flops == t.flops);
}

TEST_CASE("two devices on PCIe") {
  const std::string devices = lines(2, "NVIDIA GeForce RTX 4090, 24564, 4, 16");
  Topology t = read(devices, kTwoOnPcie, "8xa100");
  CHECK(t.devices == 2);
  CHECK(t.rate(32) == 19.5e12); // as the user says
  REQUIRE(t.links.size() == 1);
  CHECK(t.links[0].bandwidth == Approx(0.8 * 0.8 * 16 * 1.969e9));
  CHECK_THAT(
      errorOf(machineTopology(llvm::cantFail(parseDevices(devices)), llvm::cantFail(parseConnections(kTwoOnPcie)))),
      Contains("RTX 4090") && Contains("known: V100, A100, H100, H200") && Contains("--like"));
}

TEST_CASE("a mesh of NVLinks divides a device's links among its peers") {
  Topology t = read(lines(4, "Tesla V100-SXM2-32GB, 32768 MiB, 3, 16"), kFourV100);
  REQUIRE(t.links.size() == 1);
  CHECK(t.links[0].devices == 4);
  CHECK(t.links[0].bandwidth == 6 * 25e9);
  CHECK(t.rate(16) == 125e12);
}

TEST_CASE("devices behind one switch are closer than devices of two processors") {
  Topology t = read(lines(4, "NVIDIA A100-PCIE-40GB, 40960, 4, 16"), kTwoPairs);
  REQUIRE(t.links.size() == 2);
  CHECK(t.links[0].devices == 2);
  CHECK(t.links[1].devices == 4);
  CHECK(t.links[0].bandwidth == 2 * t.links[1].bandwidth);
  CHECK(t.links[0].latency < t.links[1].latency);
}

TEST_CASE("the listing of a machine with one device is read") {
  Topology t = read("NVIDIA H200, 143771, [N/A], [N/A]\n", "\tGPU0\tCPU Affinity\nGPU0\t X \t0-15\n");
  CHECK(t.devices == 1);
  CHECK(t.memoryBandwidth == 4.8e12);
  CHECK_FALSE(errorOf(Topology::parse(t.toJson(), "t")).size());
}

TEST_CASE("a listing that cannot be understood is refused in one sentence") {
  auto matrix = [](const std::string &text) { return errorOf(parseConnections(text)); };
  CHECK_THAT(matrix(""), Contains("no matrix of connections"));
  CHECK_THAT(matrix("Failed to initialize NVML: Driver/library version mismatch\n"),
             Contains("no matrix of connections"));
  CHECK_THAT(matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tWAT\t0\nGPU1\tWAT\t X \t0\n"),
             Contains("GPU0 and GPU1 are joined by 'WAT'"));
  CHECK_THAT(matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV99999999999\t0\n"), Contains("'NV99999999999'"));
  CHECK_THAT(matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X\n"), Contains("GPU0 is too short"));
  CHECK_THAT(matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0\n"), Contains("a row for every"));
  CHECK_THAT(matrix("\tGPU0\tGPU2\tCPU Affinity\n"), Contains("columns"));
  CHECK_THAT(matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU1\tPIX\t X \t0\n"), Contains("rows"));
  CHECK_THAT(matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0\nGPU1\tSYS\t X \t0\n"), Contains("differently"));
  CHECK_THAT(matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tPIX\tPIX\t0\n"), Contains("GPU0 and GPU0"));
  auto list = [](const std::string &text) { return errorOf(parseDevices(text)); };
  CHECK_THAT(list(""), Contains("lists no device"));
  CHECK_THAT(list("No devices were found\n"), Contains("'No devices were found'"));
  CHECK_THAT(list("NVIDIA H100, lots, 5, 16\n"), Contains("lots"));
  CHECK_THAT(list("NVIDIA H100, -5, 5, 16\n"), Contains("-5"));
  CHECK_THAT(list(lines(300, "NVIDIA H100, 5, 5, 16")), Contains("is not name"));
  CHECK_THAT(errorOf(machineTopology(llvm::cantFail(parseDevices("NVIDIA H100, 81559, 5, 16\n")),
                                     llvm::cantFail(parseConnections(kTwoOnPcie)))),
             Contains("1 devices, but the matrix has 2"));
  CHECK_THAT(
      errorOf(machineTopology(llvm::cantFail(parseDevices("NVIDIA H100, 81559, 5, 16\nNVIDIA H200, 143771, 5, 16\n")),
                              llvm::cantFail(parseConnections(kTwoOnPcie)))),
      Contains("not alike"));
}
