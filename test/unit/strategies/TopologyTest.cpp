#include "strategies/cost/Topology.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;
using tessera::dist::Mesh;

static std::string errorOf(const std::string &json) {
  auto t = Topology::parse(json, "t.json");
  if (t)
    return "";
  return llvm::toString(t.takeError());
}

static const char *kTwoServers = R"({
  "name": "two servers", "devices": 16, "flops": {"f32": 10, "f16": 40}, "memory_bandwidth": 5,
  "memory": "80GiB", // comments are allowed
  "links": [{"devices": 8, "latency": 1e-6, "bandwidth": 100},
            {"devices": 16, "latency": 5e-6, "bandwidth": 10}]})";

TEST_CASE("a topology file says what the machine can do") {
  Topology t = llvm::cantFail(Topology::parse(kTwoServers, "t.json"));
  CHECK(t.name == "two servers");
  CHECK(t.memory == int64_t(80) << 30);
  CHECK(t.rate(16) == 40);
  CHECK(t.rate(8) == 40);  // the next wider one
  CHECK(t.rate(64) == 10); // none is wider
  Mesh mesh = llvm::cantFail(Mesh::parse("data=2,model=8"));
  CHECK(t.link(mesh, {1}).bandwidth == 100);
  CHECK(t.link(mesh, {0}).bandwidth == 10); // ranks 0 and 8 sit in different servers
  CHECK(t.link(mesh, {0, 1}).latency == 5e-6);
  CHECK(!t.fits(mesh));
  CHECK(llvm::toString(t.fits(llvm::cantFail(Mesh::parse("data=17")))) ==
        "mesh data=17 has 17 ranks but topology two servers has 16 devices: use a smaller mesh or "
        "another --topology");
}

TEST_CASE("ranks may share the devices of a shared topology") {
  Topology t = llvm::cantFail(Topology::load("cpu"));
  CHECK(t.shared);
  CHECK(t.share(1) == t.devices); // the cores of the machine
  CHECK(t.share(t.devices) == 1);
  CHECK(t.share(2 * t.devices) == 0.5);
  CHECK(t.memoryPerRank(2 * t.devices) == t.memory / 2);
  CHECK(t.memoryPerRank(1) == t.memory * t.devices);
  CHECK(t.link(llvm::cantFail(Mesh::parse("data=8")), {0}).bandwidth == t.links.back().bandwidth);
}

TEST_CASE("broken topologies are refused with the field's name") {
  CHECK(errorOf("[1]") == "topology t.json: not a JSON object");
  CHECK(errorOf("{").find("not a JSON object") != std::string::npos);
  CHECK(errorOf(R"({"speed": 1})") == "topology t.json: unknown field 'speed'");
  CHECK_THAT(errorOf(R"({"devices": -2, "flops": {"f32": 1}})"), Catch::Contains("'devices'"));
  CHECK_THAT(errorOf(R"({"devices": 2, "flops": {"f64": 1}})"), Catch::Contains("'f32'"));
  std::string text = kTwoServers;
  auto with = [&](const std::string &from, const std::string &to) {
    std::string copy = text;
    copy.replace(copy.find(from), from.size(), to);
    return errorOf(copy);
  };
  CHECK(with("80GiB", "80") == "");
  CHECK_THAT(with("80GiB", "much"), Catch::Contains("'much' is not a memory size"));
  CHECK_THAT(with("\"bandwidth\": 10}", "\"bandwidth\": 0}"), Catch::Contains("'bandwidth'"));
  CHECK_THAT(with("\"memory_bandwidth\": 5", "\"memory_bandwidth\": 0"),
             Catch::Contains("'memory_bandwidth' must be a number from 1"));
  CHECK_THAT(with("\"f32\": 10", "\"f32\": 0"), Catch::Contains("flops: field 'f32'"));
  CHECK_THAT(with("\"latency\": 1e-6", "\"latency\": -1"), Catch::Contains("'latency'"));
  CHECK_THAT(with("\"devices\": 16, \"flops\"",
                  "\"axes\": {\"x\": {\"latency\": 0, \"bandwidth\": 0}}, \"devices\": 16, \"flops\""),
             Catch::Contains("'bandwidth'"));
  CHECK_THAT(with("\"devices\": 8,", "\"devices\": 20,"), Catch::Contains("growing"));
  CHECK_THAT(with("\"devices\": 16, \"l", "\"devices\": 12, \"l"), Catch::Contains("join all devices"));
  auto missing = Topology::load("no-such-machine");
  CHECK(!missing);
  CHECK_THAT(llvm::toString(missing.takeError()), Catch::Contains("8xh100"));
}

TEST_CASE("loops and operators of a topology may have rates of their own") {
  const Topology plain = llvm::cantFail(Topology::parse(kTwoServers, "t.json"));
  CHECK(plain.loopRate(32) == plain.rate(32));
  CHECK(plain.loopRate(16) == plain.rate(16));
  CHECK(plain.operatorRate("graph.attention", 16) == plain.rate(16));

  std::string text = kTwoServers;
  text.insert(text.rfind('}'), R"(, "loop_flops": 3, "operators": {"graph.attention": 5, "graph.conv large 3x3": 7})");
  const Topology read = llvm::cantFail(Topology::load(text)); // no file
  for (const Topology &t : {read, llvm::cantFail(Topology::parse(read.toJson(), "written"))}) {
    CHECK(t.loopRate(32) == 3);
    CHECK(t.operatorRate("graph.attention", 32) == 5);
    CHECK(t.operatorRate("graph.attention", 16) == 5 * t.rate(16) / t.rate(32));
    CHECK(t.operatorRate("graph.conv", 32) == t.rate(32));
    CHECK(t.operatorRate("graph.conv", 32, "large 3x3") == 7);
    CHECK(t.operatorRate("graph.conv", 16, "large 3x3") == t.rate(16));
    CHECK(t.operatorRate("graph.attention", 32, "large 3x3") == 5);
  }

  auto with = [](const std::string &field) {
    std::string broken = kTwoServers;
    broken.insert(broken.rfind('}'), ", " + field);
    return errorOf(broken);
  };
  CHECK_THAT(with(R"("loop_flops": 0)"), Catch::Contains("'loop_flops' must be a number from 1"));
  CHECK(with(R"("operators": 3)") == "topology t.json: field 'operators' must be an object");
  CHECK_THAT(with(R"("operators": {"graph.conv": -1})"), Catch::Contains("operators: field 'graph.conv'"));
}

TEST_CASE("a topology says what collectives cost the kernels beside them") {
  std::string text = kTwoServers;
  text.insert(text.rfind('}'), R"(, "beside": {"slowdown": 0.3, "hand_over": 1e-5, "per_byte": 2e-10})");
  for (const Topology &t :
       {llvm::cantFail(Topology::parse(text, "t.json")),
        llvm::cantFail(Topology::parse(llvm::cantFail(Topology::parse(text, "t.json")).toJson(), "written"))}) {
    CHECK(t.beside.slowdown == 0.3);
    CHECK(t.beside.handOver == 1e-5);
    CHECK(t.beside.perByte == 2e-10);
  }
  const Topology left = llvm::cantFail(Topology::parse(kTwoServers, "t.json"));
  CHECK(left.beside.slowdown == 0.2);
  CHECK(left.beside.handOver == 20e-6);
  CHECK(!left.beside.perByte);
  CHECK(!llvm::cantFail(Topology::parse(left.toJson(), "written")).beside.perByte);

  auto with = [](const std::string &beside) {
    std::string broken = kTwoServers;
    broken.insert(broken.rfind('}'), ", \"beside\": " + beside);
    return errorOf(broken);
  };
  CHECK(with("{}") == "");
  CHECK(with("3") == "topology t.json: field 'beside' must be an object");
  CHECK(with(R"({"slow": 1})") == "topology t.json: beside: unknown field 'slow'");
  CHECK(with(R"({"slowdown": 1.5})") == "topology t.json: beside: field 'slowdown' must be a number from 0 to 1");
  CHECK_THAT(with(R"({"hand_over": -1})"), Catch::Contains("'hand_over'"));
  CHECK_THAT(with(R"({"per_byte": "x"})"), Catch::Contains("'per_byte'"));
}

TEST_CASE("sizes of memory are parsed") {
  CHECK(llvm::cantFail(parseBytes("16GiB")) == int64_t(16) << 30);
  CHECK(llvm::cantFail(parseBytes("1.5 MiB")) == 3 << 19);
  CHECK(llvm::cantFail(parseBytes("2GB")) == 2000000000);
  CHECK(llvm::cantFail(parseBytes("4096")) == 4096);
  for (const char *bad : {"", "GiB", "-1GiB", "1e300GiB", "99999999TiB", "0", "1.2.3MiB", "5 apples"}) {
    INFO(bad);
    auto bytes = parseBytes(bad);
    CHECK(!bytes);
    llvm::consumeError(bytes.takeError());
  }
  CHECK(tessera::bytesText(1536) == "1.50 KiB");
  CHECK(tessera::bytesText(512) == "512 B");
}

TEST_CASE("several machines of a kind are joined by their network") {
  Topology t = llvm::cantFail(Topology::load("4x8xh100"));
  CHECK(t.name == "4x8xh100");
  CHECK(t.devices == 32);
  CHECK(t.memory == llvm::cantFail(Topology::load("8xh100")).memory);
  Mesh mesh = llvm::cantFail(Mesh::parse("node=4,data=8"));
  CHECK(t.link(mesh, {1}).bandwidth == 450e9);
  CHECK(t.link(mesh, {0}).bandwidth == 50e9);
  // A group over both axes communicates inside the machines and between them.
  std::vector<Topology::Level> levels = t.levels(mesh, {0, 1});
  REQUIRE(levels.size() == 2);
  CHECK(levels[0].members == 8);
  CHECK(levels[0].link.bandwidth == 450e9);
  CHECK(levels[1].members == 4);
  CHECK(levels[1].link.bandwidth == 50e9);
  CHECK(t.levels(mesh, {1}).size() == 1);
  // Blocks that hold unequal parts of a group have one level, over the slow link.
  Mesh odd = llvm::cantFail(Mesh::parse("a=2,b=12"));
  levels = t.levels(odd, {1});
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].members == 12);
  CHECK(levels[0].link.bandwidth == 50e9);

  // Ranks of one machine are runs of a group where they are neighbours in it.
  CHECK(t.run(mesh, {0, 1}) == 8);
  CHECK(t.run(mesh, {1, 0}) == 1);
  CHECK(t.run(mesh, {0}) == 1);
  CHECK(t.run(mesh, {1}) == 1);
  CHECK(t.run(odd, {1}) == 1);
  const Mesh one = llvm::cantFail(Mesh::parse("data=32"));
  CHECK(t.run(one, {0}) == 8);
  const Mesh three = llvm::cantFail(Mesh::parse("node=4,data=4,model=2"));
  CHECK(t.run(three, {0, 1}) == 4);
  CHECK(t.run(three, {0, 2}) == 2);

  auto error = [](const char *name) {
    auto none = Topology::load(name);
    return none ? std::string() : llvm::toString(none.takeError());
  };
  CHECK_THAT(error("0x8xh100"), Catch::Contains("0 machines"));
  CHECK_THAT(error("-3x8xh100"), Catch::Contains("-3 machines"));
  CHECK_THAT(error("999999999x8xh100"), Catch::Contains("devices in all"));
  CHECK_THAT(error("2x9xh100"), Catch::Contains("neither a preset"));
  auto slow = Topology::parse(R"({"devices": 1, "flops": {"f32": 1}, "memory_bandwidth": 1, "memory": 1,
      "links": [{"devices": 1, "latency": 0, "bandwidth": 0}]})",
                              "t.json");
  REQUIRE(!slow);
  CHECK(llvm::toString(slow.takeError()) ==
        "topology t.json: link: field 'bandwidth' must be a number from 1 to 1e+18");
  Topology lonely = llvm::cantFail(Topology::parse(kTwoServers, "t.json"));
  auto two = lonely.withNodes(2);
  REQUIRE(!two);
  CHECK_THAT(llvm::toString(two.takeError()), Catch::Contains("'network'"));
  CHECK(llvm::cantFail(lonely.withNodes(1)).devices == 16);
}

TEST_CASE("the link of two measured all-reduces") {
  // Four devices: 6 steps with a quarter of the bytes each, over a link of 2 us and 1 GB/s.
  auto seconds = [](double bytes) { return 6 * (2e-6 + bytes / 4 / 1e9); };
  const Link link = linkOfRing(4, {1024, seconds(1024)}, {4 << 20, seconds(4 << 20)}, 1e10);
  CHECK(link.devices == 4);
  CHECK(link.latency == Approx(2e-6));
  CHECK(link.bandwidth == Approx(1e9));

  // On a busy machine the small one took longer.
  const Link busy = linkOfRing(4, {1024, 0.01}, {4 << 20, 0.008}, 1e10);
  CHECK(busy.latency == Approx((0.01 - 1024 * 1.5 / 1e10) / 6));
  CHECK(busy.bandwidth == Approx(1e10));
  // What is there no time for takes a nanosecond.
  CHECK(linkOfRing(2, {1024, 0}, {4 << 20, 1}, 1e10).latency == 1e-9);
}
