#include "dialects/dist/Text.h"

#include <catch2/catch.hpp>

using namespace tessera::dist;
using llvm::cantFail;
using llvm::toString;

namespace {
Mesh mesh(llvm::StringRef text) { return cantFail(Mesh::parse(text)); }
std::string error(llvm::StringRef text) {
  auto m = Mesh::parse(text);
  return m ? "" : toString(m.takeError());
}
} // namespace

TEST_CASE("a mesh numbers its ranks row-major") {
  Mesh m = mesh("data=2,model=4");
  CHECK(m.numRanks() == 8);
  CHECK(m.coordinate(5, 0) == 1);
  CHECK(m.coordinate(5, 1) == 1);
  CHECK(m.group(5, {1}) == llvm::SmallVector<int64_t>{4, 5, 6, 7});
  CHECK(m.group(5, {0}) == llvm::SmallVector<int64_t>{1, 5});
  CHECK(m.group(5, {1, 0}) == llvm::SmallVector<int64_t>{0, 4, 1, 5, 2, 6, 3, 7});
  for (int64_t r = 0; r < 8; ++r)
    for (AxisList axes : {AxisList{0}, AxisList{1}, AxisList{0, 1}, AxisList{1, 0}})
      CHECK(m.group(r, axes)[m.coordinate(r, llvm::ArrayRef<int>(axes))] == r);
  CHECK(mesh("8").str() == "data=8");
}

TEST_CASE("a bad mesh is one clear error") {
  CHECK_THAT(error("data"), Catch::Contains("size"));
  CHECK_THAT(error("data=0"), Catch::Contains("from 1 on"));
  CHECK_THAT(error("data=-2"), Catch::Contains("from 1 on"));
  CHECK_THAT(error("a=2,a=2"), Catch::Contains("twice"));
  CHECK_THAT(error("a=2,=3"), Catch::Contains("no axis name"));
  CHECK_THAT(error("a=1000000,b=1000000"), Catch::Contains("too many"));
  CHECK_THAT(error("a=99999999999999999999"), Catch::Contains("from 1 on"));
}

TEST_CASE("where axes do not divide, every block has its own elements first") {
  Mesh m = mesh("data=2,model=2");
  using List = llvm::SmallVector<int64_t>;
  Sharding s = cantFail(parseSharding("[data+model]", m));
  CHECK(s.localShape(m, {5}) == List{2});
  List offsets, extents; // 0 1, 2 -, 3 4, - -
  for (int64_t rank = 0; rank < 4; ++rank) {
    offsets.push_back(s.offset(m, {5}, rank)[0]);
    extents.push_back(s.extent(m, {5}, rank)[0]);
  }
  CHECK(offsets == List{0, 2, 3, 5});
  CHECK(extents == List{2, 1, 2, 0});
  CHECK(s.isPadded(m, {5}, 0));
  CHECK_FALSE(s.isPadded(m, {8}, 0));
}

TEST_CASE("whole units are cut like an extent that counts them") {
  Mesh m = mesh("a=2,b=4");
  using List = llvm::SmallVector<int64_t>;
  Sharding s = cantFail(parseSharding("[a+b/64]", m)); // twelve heads of 64
  CHECK(s.str(m) == "[a+b/64]");
  CHECK(toString(s.verify(m, {768})).empty());
  CHECK(s.localShape(m, {768}) == List{128});
  CHECK(s.isPadded(m, {768}, 0));
  List offsets, extents; // six heads for each a, two of them for each b
  for (int64_t rank = 0; rank < 8; ++rank) {
    offsets.push_back(s.offset(m, {768}, rank)[0]);
    extents.push_back(s.extent(m, {768}, rank)[0]);
  }
  CHECK(offsets == List{0, 128, 256, 768, 384, 512, 640, 768});
  CHECK(extents == List{128, 128, 128, 0, 128, 128, 128, 0});
  CHECK_FALSE(s == cantFail(parseSharding("[a+b]", m)));
}

TEST_CASE("a cut has the smallest unit that gives its blocks") {
  Mesh m = mesh("a=2,b=4");
  auto unit = [&](llvm::ArrayRef<int> axes, int64_t unit, int64_t extent) {
    return Cut(axes, unit).canonical(m, extent).unit;
  };
  CHECK(unit({0, 1}, 64, 768) == 64); // blocks of 128, not of 96
  CHECK(unit({1}, 64, 768) == 1);     // twelve heads in four
  CHECK(unit({}, 64, 768) == 1);
  CHECK(unit({1}, 2, 14) == 1);    // 7 units in four: blocks of 4, as of 14 elements
  CHECK(unit({0, 1}, 2, 14) == 2); // but halves of 8, not of 7
  CHECK(unit({1}, 12, 60) == 12);  // 5 units in four: blocks of 24
  for (int64_t u : {2, 3, 4, 6, 8, 12})
    for (int64_t extent = u; extent <= 40 * u; extent += u)
      for (const AxisList &axes : {AxisList{0}, AxisList{1}}) {
        auto block = [&](int64_t of) {
          Sharding s = Sharding::replicated(1);
          s.dims[0] = Cut(axes, of);
          return s.localShape(m, {extent})[0];
        };
        int64_t least = 1;
        while (u % least != 0 || block(least) != block(u))
          ++least;
        INFO(extent << " in units of " << u);
        CHECK(unit(axes, u, extent) == least);
      }
  auto wrong = [&](const char *text, int64_t extent) {
    return toString(cantFail(parseSharding(text, m)).verify(m, {extent}));
  };
  CHECK(wrong("[b/64]", 768) == "dimension 0 of extent 768 has the same blocks in units of 1 as in units of 64: write "
                                "the smaller unit, which is none");
  CHECK(wrong("[a+b/96]", 768) ==
        "dimension 0 of extent 768 has the same blocks in units of 1 as in units of 96: write "
        "the smaller unit, which is none");
  CHECK(wrong("[a+b/128]", 768) == "dimension 0 of extent 768 cannot be cut in 8 blocks of units of 128");
  CHECK(wrong("[a+b/50]", 768) == "dimension 0 of extent 768 cannot be cut in 8 blocks of units of 50");
  for (const char *text : {"[a/0]", "[a/-2]", "[a/x]", "[a/]", "[/2]", "[a/2/2]"}) {
    auto bad = parseSharding(text, m);
    INFO(text);
    CHECK_FALSE(bool(bad));
    llvm::consumeError(bad.takeError());
  }
}

TEST_CASE("a sharding's local shape, offsets and text") {
  Mesh m = mesh("data=2,model=2");
  Sharding s = cantFail(parseSharding("[data, model]", m));
  CHECK(s.localShape(m, {8, 6}) == llvm::SmallVector<int64_t>{4, 3});
  CHECK(s.offset(m, {8, 6}, 3) == llvm::SmallVector<int64_t>{4, 3});
  Sharding both = cantFail(parseSharding("[model+data, -]", m));
  CHECK(both.localShape(m, {8, 6}) == llvm::SmallVector<int64_t>{2, 6});
  CHECK(both.offset(m, {8, 6}, 1)[0] == 4); // rank (0, 1): model is major here
  for (const char *text : {"[data, model]", "[model+data, -]", "[-, -] sum(data,model)", "[]", "[-] max(model)"})
    CHECK(cantFail(parseSharding(text, m)).str(m) == text);
  CHECK_THAT(toString(both.verify(m, {3, 6})), Catch::Contains("extent 3 cannot be cut in 4 blocks"));
  Sharding twice = cantFail(parseSharding("[data, data]", m));
  CHECK_THAT(toString(twice.verify(m, {8, 6})), Catch::Contains("used twice"));
  for (const char *text : {"[data", "data]", "[x]", "[data] foo(model)", "[data] sum(x)", "[data] junk", ""}) {
    auto bad = parseSharding(text, m);
    CHECK_FALSE(bool(bad));
    llvm::consumeError(bad.takeError());
  }
}
