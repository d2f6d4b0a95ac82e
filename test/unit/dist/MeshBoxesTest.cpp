// Boxes between the ranks of two meshes: every receiver gets its block, whatever the shardings.
#include "dialects/dist/exchange/MeshBoxes.h"

#include "dialects/dist/Text.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

using namespace tessera::dist;
using llvm::cantFail;
using llvm::SmallVector;

namespace {

Mesh mesh(llvm::StringRef text) { return cantFail(Mesh::parse(text)); }

/// "0>2 [0, 0]>[1, 0] [2, 3]" for each box.
std::string text(const std::vector<MeshBox> &boxes) {
  auto list = [](const SmallVector<int64_t> &numbers) {
    std::string out;
    for (int64_t n : numbers)
      out += (out.empty() ? "" : ",") + std::to_string(n);
    return "[" + out + "]";
  };
  std::string out;
  for (const MeshBox &box : boxes)
    out += (out.empty() ? "" : ", ") + std::to_string(box.from) + ">" + std::to_string(box.to) + " " +
           list(box.source) + ">" + list(box.target) + " " + list(box.shape);
  return out;
}

std::string between(std::vector<int64_t> shape, const char *fromMesh, const char *from, const char *toMesh,
                    const char *to) {
  const Mesh a = mesh(fromMesh), b = mesh(toMesh);
  return text(boxesBetween(shape, a, cantFail(parseSharding(from, a)), b, cantFail(parseSharding(to, b))));
}

/// Visits all indices of a shape.
template <typename Use> void each(llvm::ArrayRef<int64_t> shape, Use use) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  for (int64_t i = 0; i < elements; ++i) {
    SmallVector<int64_t> index(shape.size());
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d];
    use(index);
  }
}

SmallVector<int64_t> sum(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
  SmallVector<int64_t> out;
  for (size_t d = 0; d < a.size(); ++d)
    out.push_back(a[d] + b[d]);
  return out;
}

/// All shardings of a matrix without padding and sums.
std::vector<Sharding> shardingsOf(const Mesh &m, llvm::ArrayRef<int64_t> shape) {
  std::vector<std::string> cuts = {"-"};
  for (int a = 0; a < m.numAxes(); ++a) {
    cuts.push_back(m.axisName(a).str());
    for (int b = 0; b < m.numAxes(); ++b)
      if (a != b)
        cuts.push_back((m.axisName(a) + "+" + m.axisName(b)).str());
  }
  std::vector<Sharding> all;
  for (const std::string &rows : cuts)
    for (const std::string &columns : cuts) {
      auto sharding = parseSharding("[" + rows + ", " + columns + "]", m);
      if (!sharding) {
        llvm::consumeError(sharding.takeError());
        continue;
      }
      if (llvm::Error e = sharding->verify(m, shape))
        llvm::consumeError(std::move(e));
      else if (canCrossMeshes(m, shape, *sharding))
        all.push_back(*sharding);
    }
  return all;
}

} // namespace

TEST_CASE("ranks of two meshes send what their blocks have in common") {
  CHECK(between({8}, "data=2,model=2", "[data]", "data=1", "[-]") == "0>0 [0]>[0] [4], 2>0 [0]>[4] [4]");
  CHECK(between({8}, "data=1", "[-]", "data=2,model=2", "[data]") ==
        "0>0 [0]>[0] [4], 0>1 [0]>[0] [4], 0>2 [4]>[0] [4], 0>3 [4]>[0] [4]");
  CHECK(between({6, 4}, "data=2", "[data, -]", "data=3", "[data, -]") ==
        "0>0 [0,0]>[0,0] [2,4], 0>1 [2,0]>[0,0] [1,4], 1>1 [0,0]>[1,0] [1,4], 1>2 [1,0]>[0,0] [2,4]");
  // Rows become columns.
  CHECK(between({4, 4}, "a=2", "[a, -]", "b=2", "[-, b]") ==
        "0>0 [0,0]>[0,0] [2,2], 1>0 [0,0]>[2,0] [2,2], 0>1 [0,2]>[0,0] [2,2], 1>1 [0,2]>[2,0] [2,2]");
  // Of a scalar, replicas send in turn.
  CHECK(between({}, "a=2", "[]", "b=4", "[]") == "0>0 []>[] [], 1>1 []>[] [], 0>2 []>[] [], 1>3 []>[] []");
  // On one mesh, nothing leaves its place.
  CHECK(between({8}, "a=2,b=2", "[a]", "a=2,b=2", "[a]") ==
        "0>0 [0]>[0] [4], 1>1 [0]>[0] [4], 2>2 [0]>[0] [4], 3>3 [0]>[0] [4]");
}

TEST_CASE("every rank receives each element of its block once, from one that holds it, whatever the shardings") {
  const SmallVector<int64_t> shape = {12, 8};
  size_t pairs = 0;
  for (auto [from, to] : {std::pair("a=2,b=2", "c=4"), {"a=2,b=2", "c=1"}, {"a=3", "c=2,d=2"}, {"a=1", "c=2,d=3"}}) {
    const Mesh a = mesh(from), b = mesh(to);
    for (const Sharding &has : shardingsOf(a, shape))
      for (const Sharding &wants : shardingsOf(b, shape)) {
        ++pairs;
        const std::vector<MeshBox> boxes = boxesBetween(shape, a, has, b, wants);
        std::map<int64_t, std::set<SmallVector<int64_t>>> got; // by receiver: places of its local tensor
        std::set<std::pair<int64_t, int64_t>> links;
        bool good = true;
        for (const MeshBox &box : boxes) {
          good &= links.insert({box.from, box.to}).second;
          const SmallVector<int64_t> source = has.offset(a, shape, box.from), held = has.localShape(a, shape),
                                     target = wants.offset(b, shape, box.to);
          each(box.shape, [&](const SmallVector<int64_t> &index) {
            const SmallVector<int64_t> at = sum(box.source, index);
            for (size_t d = 0; d < shape.size(); ++d)
              good &= at[d] >= 0 && at[d] < held[d];
            good &= sum(source, at) == sum(target, sum(box.target, index)); // the same element
            good &= got[box.to].insert(sum(box.target, index)).second;
          });
        }
        const SmallVector<int64_t> local = wants.localShape(b, shape);
        for (int64_t rank = 0; rank < b.numRanks(); ++rank)
          good &= int64_t(got[rank].size()) == local[0] * local[1];
        INFO(has.str(a) << " on " << from << " to " << wants.str(b) << " on " << to << ": " << text(boxes));
        CHECK(good);
        CHECK(boxesIn(numbersOf(boxes), 2) == boxes);
      }
  }
  CHECK(pairs > 100);
}

TEST_CASE("replicas share what there is to send") {
  const Mesh a = mesh("a=4"), b = mesh("b=8");
  std::map<int64_t, int> sends;
  for (const MeshBox &box :
       boxesBetween({16}, a, cantFail(parseSharding("[-]", a)), b, cantFail(parseSharding("[b]", b))))
    ++sends[box.from];
  CHECK(sends == std::map<int64_t, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}});
}

TEST_CASE("padding and unpaid sums do not cross meshes") {
  const Mesh m = mesh("a=2");
  CHECK(canCrossMeshes(m, {4}, cantFail(parseSharding("[a]", m))));
  CHECK_FALSE(canCrossMeshes(m, {5}, cantFail(parseSharding("[a]", m))));
  CHECK_FALSE(canCrossMeshes(m, {4}, cantFail(parseSharding("[-] sum(a)", m))));
  CHECK(boxesIn({0, 1, 2}, 1).empty());
}
