#include "runtime/backend/cuda/text/PointLoop.h"

#include <algorithm>
#include <utility>

namespace tessera::rt::cuda {

namespace {

/// Several elements as one access.
std::string declarations(const PointLoop &loop) {
  const std::string n = std::to_string(loop.each);
  return "template <typename T> struct alignas(" + n + " * sizeof(T)) Side { T e[" + n + "]; };\n";
}

bool isTogether(const PointLoop &loop) {
  return std::ranges::any_of(loop.parameters, [](const PointLoop::Parameter &p) { return p.together; });
}

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// The points that a thread does of those of its block, from `first` on. Where all of them are there, no condition
/// stands between: then a thread's loads are all on their way before it uses the first. The hardware needs that to move
/// memory as fast as it can. `first | part` tells the compiler that neighbours have one `i >> 2`.
std::string pointsOfThread(const PointLoop &loop, const std::string &points) {
  const std::string type = loop.index.name(), parts = std::to_string(loop.each) + "u";
  const bool together = isTogether(loop);
  const std::string apart = together ? "1u" : "256u", last = std::to_string((loop.each - 1) * (together ? 1 : 256));
  std::string body = loop.body, loads, stores;
  for (const PointLoop::Parameter &p : loop.parameters) {
    if (!p.together)
      continue;
    const bool read = p.type.starts_with("const ");
    const std::string side = p.name + "_side", as = "Side<" + (read ? p.type.substr(6) : p.type) + ">";
    body = replaced(std::move(body), p.name + "[" + p.place + "]", side + ".e[part]");
    loads += (read ? "const " : "") + as + " " + side +
             (read ? " = *(const " + as + " *)(" + p.name + " + " + p.firstPlace + ")" : "") + ";\n";
    if (!read)
      stores += "*(" + as + " *)(" + p.name + " + " + p.firstPlace + ") = " + side + ";\n";
  }
  return "if (first + " + last + "u < " + points + ") {\n" + loop.firstIndices + loads +
         "#pragma unroll\nfor (u32 part = 0; part < " + parts + "; ++part) {\nconst " + type + " i = first" +
         (together ? " | part" : " + part * 256u") + ";\n" + body + "}\n" + stores +
         "} else {\n#pragma unroll 1\nfor (" + type + " i = first; i < " + points +
         (together ? " && i < first + " + parts : "") + "; i += " + apart + ") {\n" + loop.body + "}\n}\n";
}

/// A thread's first point within its block.
std::string firstOfThread(const PointLoop &loop) {
  return isTogether(loop) ? "threadIdx.x * " + std::to_string(loop.each) + "u" : "threadIdx.x";
}

} // namespace

uint32_t PointLoop::blocks(int64_t points) const {
  return blocksFor(points < kOnePointEach ? points : (points + each - 1) / each);
}

std::string PointLoop::source(int64_t points) const {
  std::string signature;
  for (const Parameter &p : parameters)
    signature += (signature.empty() ? "" : ", ") + p.type + (apart ? " *__restrict__ " : " *") + p.name;
  const std::string type = index.name(), end = index.literal(points);
  const std::string head = prelude() + (isTogether(*this) ? declarations(*this) : "") +
                           "extern \"C\" __global__ void __launch_bounds__(256) k(" + signature + ") {\n";
  if (points < kOnePointEach)
    return head + "for (" + type + " i = blockIdx.x * (" + type + ")256 + threadIdx.x; i < " + end +
           "; i += gridDim.x * (" + type + ")256) {\n" + body + "}\n}\n";
  const std::string block = "(" + type + ")" + std::to_string(pointsPerBlock());
  return head + "for (" + type + " first = blockIdx.x * " + block + " + " + firstOfThread(*this) + "; first < " + end +
         "; first += gridDim.x * " + block + ") {\n" + pointsOfThread(*this, end) + "}\n}\n";
}

std::string PointLoop::tableSource() const {
  const std::string type = index.name();
  std::string pointers;
  for (size_t p = 0; p < parameters.size(); ++p)
    pointers += parameters[p].type + (apart ? " *__restrict__ " : " *") + parameters[p].name + " = (" +
                parameters[p].type + " *)own[" + std::to_string(p + 1) + "];\n";
  // The last loop that begins at this block or before it is the block's.
  return prelude() + (isTogether(*this) ? declarations(*this) : "") +
         "extern \"C\" __global__ void __launch_bounds__(256) k(const u64 *__restrict__ table) {\n"
         "const u32 loops = (u32)table[0];\nu32 mine = 0, end = loops;\nwhile (end - mine > 1u) {\n"
         "const u32 middle = (mine + end) / 2u;\nif (table[1u + middle] <= blockIdx.x)\nmine = middle;\nelse\n"
         "end = middle;\n}\nconst u64 *__restrict__ own = table + 1u + loops + mine * " +
         std::to_string(parameters.size() + 1) + "u;\nconst " + type + " points = (" + type + ")own[0];\n" + pointers +
         "const " + type + " first = (blockIdx.x - (u32)table[1u + mine]) * (" + type + ")" +
         std::to_string(pointsPerBlock()) + "u + " + firstOfThread(*this) + ";\n" + pointsOfThread(*this, "points") +
         "}\n";
}

static const char *unsignedOf(uint64_t bytes) {
  return bytes == 8 ? "u64" : bytes == 4 ? "u32" : bytes == 2 ? "u16" : "u8";
}

static int64_t extent(const Shape &sizes, const Shape &strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    last += (sizes[d] - 1) * strides[d];
  return last + 1;
}

PointLoop stridedCopy(const StridedCopy &c) {
  const IndexType index =
      indexTypeFor(elementCount(c.sizes), {extent(c.sizes, c.toStrides), extent(c.sizes, c.fromStrides)});
  const Nest nest = collapse({c.sizes, {c.toStrides, c.fromStrides}});
  const std::string element = unsignedOf(c.elementBytes);
  return {{{"const " + element, "from"}, {element, "to"}},
          indexCode(nest.sizes, "i", index) + "to[" + addressCode(nest.strides[0], index) + "] = from[" +
              addressCode(nest.strides[1], index) + "];\n",
          index};
}

PointLoop fill(int64_t points, uint64_t elementBytes, uint64_t bits) {
  const std::string element = unsignedOf(elementBytes);
  return {{{element, "to"}}, "to[i] = (" + element + ")" + std::to_string(bits) + "ull;\n", indexTypeFor(points)};
}

} // namespace tessera::rt::cuda
