//===- Einsum.cpp - Einstein sums as one matrix product ---------------------------------------===//
//
// With two operands, every label is one of
//   batch  in both and in the result        row  in the first and the result
//   sum    in both, not in the result       column  in the second and the result
// A label that only one operand has, and the result lacks, is summed first. The operands are transposed to [batch...,
// row, sum] and [batch..., sum, column]. A reshape merges several rows, columns or sums into one dimension. The product
// is split again and transposed to the result's order:
//
//   "tec,td->ecd":  a -> [ec, t], b -> [t, d], product [ec, d] -> [e, c, d]
//
// Without a sum the operands are multiplied under broadcast.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include <cctype>

using namespace tessera;
using namespace tessera::compiler;

using Labels = std::string;

static bool contains(const Labels &labels, char c) { return labels.find(c) != Labels::npos; }

/// Sums over the labels that occur nowhere else.
static Val sumAlone(Node &n, Val x, Labels &labels, const Labels &others, const std::string &suffix) {
  Shape dims;
  Labels kept;
  for (size_t i = 0; i < labels.size(); ++i)
    if (contains(others, labels[i]))
      kept += labels[i];
    else
      dims.push_back(int64_t(i));
  labels = kept;
  return n.b.reduce<graph::ReduceSumOp>(x, dims, false, suffix);
}

static Val permuteTo(Node &n, const Val &x, const Labels &from, const Labels &to, llvm::StringRef suffix) {
  Shape perm;
  for (char c : to)
    perm.push_back(int64_t(from.find(c)));
  return n.b.transpose(x, perm, suffix);
}

/// Takes the diagonal of labels that occur twice: of [.., n, n] seen as [.., n * n], every (n + 1)st element.
static Val diagonals(Node &n, Val x, Labels &labels, const std::string &suffix) {
  for (size_t i = 0; i < labels.size() && x; ++i) {
    size_t j = labels.find(labels[i], i + 1);
    if (j == Labels::npos)
      continue;
    int64_t extent = x.shape[i];
    Shape perm;
    for (size_t d = 0; d < labels.size(); ++d)
      if (d != i && d != j)
        perm.push_back(int64_t(d));
    perm.push_back(int64_t(i));
    perm.push_back(int64_t(j));
    char label = labels[i];
    x = n.b.transpose(x, perm, suffix + "_to_back");
    Shape flat(x.shape.begin(), x.shape.end() - 1);
    flat.back() = extent * extent;
    Shape starts(flat.size(), 0), strides(flat.size(), 1);
    strides.back() = extent + 1;
    x = n.b.slice(n.b.reshape(x, flat, suffix + "_flat"), starts, flat, strides, suffix);
    std::erase(labels, label);
    labels += label;
    i = size_t(-1); // start again, because positions have changed
  }
  return x;
}

namespace {
/// An equation whose ellipses have become labels of their own.
struct Equation {
  std::vector<Labels> terms;
  Labels result;
};
} // namespace

/// Writes '...' as digits, aligned at the right ("0" is the last dimension of the ellipsis).
static std::optional<Equation> readEquation(Node &n, const std::string &text) {
  Equation equation;
  auto [left, right] = llvm::StringRef(text).split("->");
  llvm::SmallVector<llvm::StringRef> parts;
  left.split(parts, ',');
  auto bad = [&](const llvm::Twine &what) {
    n.fail("equation '" + text + "': " + what);
    return std::nullopt;
  };
  if (int(parts.size()) != n.numInputs())
    return bad(llvm::Twine(parts.size()) + " terms for " + llvm::Twine(n.numInputs()) + " operands");
  size_t widest = 0;
  auto expand = [&](llvm::StringRef part, std::optional<size_t> rank) -> std::optional<Labels> {
    auto [before, after] = part.split("...");
    bool dots = part.contains("...");
    Labels labels = before.str();
    if (dots) {
      size_t named = before.size() + after.size(), own = rank ? *rank - named : widest;
      if ((rank && *rank < named) || own > 10)
        return std::nullopt;
      widest = std::max(widest, own);
      for (size_t i = own; i > 0; --i)
        labels += char('0' + i - 1);
    }
    labels += after;
    for (char c : labels)
      if (!std::isalpha(static_cast<unsigned char>(c)) && !(dots && std::isdigit(static_cast<unsigned char>(c))))
        return std::nullopt;
    return labels;
  };
  std::map<char, int> count;
  for (size_t i = 0; i < parts.size(); ++i) {
    Val x = n.in(int(i));
    if (!x)
      return std::nullopt;
    if (llvm::any_of(parts[i], [](char c) { return std::isdigit(static_cast<unsigned char>(c)); }))
      return bad("labels are letters");
    auto labels = expand(parts[i], size_t(x.rank()));
    if (!labels || int64_t(labels->size()) != x.rank() || !isFloat(x.type) || x.type != n.in(0).type)
      return bad("it does not fit the shape " + shapeText(x.shape) + " " + dtypeName(x.type) +
                 " (floating point of one type is needed)");
    for (char c : *labels)
      ++count[c];
    equation.terms.push_back(std::move(*labels));
  }
  if (llvm::StringRef(text).contains("->")) {
    auto labels = expand(right, std::nullopt);
    std::set<char> seen;
    if (!labels || !llvm::all_of(*labels, [&](char c) { return seen.insert(c).second; }))
      return bad("the result has a label twice, or one that is no letter");
    equation.result = std::move(*labels);
  } else { // the ellipsis, then what occurs once, in alphabetical order
    for (size_t i = widest; i > 0; --i)
      equation.result += char('0' + i - 1);
    for (auto [c, times] : count)
      if (times == 1 && !std::isdigit(static_cast<unsigned char>(c)))
        equation.result += c;
  }
  return equation;
}

/// The product of a with labels `la` and b with labels `lb`, summed to the labels of `out` in any order. `la` becomes
/// the labels of the result. `extents` has the extent of every label.
static Val product(Node &n, Val a, Labels &la, Val b, Labels lb, const Labels &out, std::map<char, int64_t> &extents,
                   const std::string &suffix) {
  a = sumAlone(n, a, la, out + lb, suffix + "sum_a");
  b = sumAlone(n, b, lb, out + la, suffix + "sum_b");

  Labels batch, row, column, sum;
  for (char c : la)
    (!contains(lb, c) ? row : contains(out, c) ? batch : sum) += c;
  for (char c : lb)
    if (!contains(la, c))
      column += c;
  // Rows, columns and batch keep the result's order, so that often no transpose is needed at the end.
  auto byResult = [&](char x, char y) { return out.find(x) < out.find(y); };
  llvm::sort(batch, byResult);
  llvm::sort(row, byResult);
  llvm::sort(column, byResult);

  auto shapeOf = [&](const Labels &labels) {
    Shape shape;
    for (char c : labels)
      shape.push_back(extents[c]);
    return shape;
  };
  auto merged = [&](const Labels &labels) { return *elementCount(shapeOf(labels)); };
  Val y;
  Labels order = batch + row + column;
  std::string name = suffix.empty() ? "" : suffix + "matmul";
  if (sum.empty()) {
    Shape wideA = shapeOf(batch + row), wideB = shapeOf(batch);
    wideA.append(column.size(), 1);
    wideB.append(row.size(), 1);
    wideB.append(shapeOf(column));
    y = n.b.mul(n.b.reshape(permuteTo(n, a, la, batch + row, suffix + "order_a"), wideA, suffix + "shape_a"),
                n.b.reshape(permuteTo(n, b, lb, batch + column, suffix + "order_b"), wideB, suffix + "shape_b"), name);
  } else {
    Shape shapeA = shapeOf(batch), shapeB = shapeA;
    shapeA.append({merged(row), merged(sum)});
    shapeB.append({merged(sum), merged(column)});
    // An operand that is [column, sum] already needs no transpose.
    bool flip = lb == batch + column + sum;
    if (flip)
      std::swap(shapeB[batch.size()], shapeB[batch.size() + 1]);
    a = n.b.reshape(permuteTo(n, a, la, batch + row + sum, suffix + "order_a"), shapeA, suffix + "shape_a");
    b = n.b.reshape(permuteTo(n, b, lb, flip ? batch + column + sum : batch + sum + column, suffix + "order_b"), shapeB,
                    suffix + "shape_b");
    y = n.b.reshape(n.b.matmul(a, b, false, flip, name), shapeOf(order), suffix + "shape");
  }
  la = order;
  return y;
}

static void einsum(Node &n) {
  std::string text = n.attrString("equation", "");
  llvm::erase(text, ' ');
  n.in(0);
  auto equation = n.failed() ? std::nullopt : readEquation(n, text);
  if (!equation)
    return;
  std::map<char, int64_t> extents;
  for (auto [i, labels] : llvm::enumerate(equation->terms))
    for (auto [d, c] : llvm::enumerate(labels)) {
      int64_t extent = n.in(int(i)).shape[d];
      int64_t &known = extents.emplace(c, extent).first->second;
      bool stretches = std::isdigit(static_cast<unsigned char>(c)) && (known == 1 || extent == 1);
      if (known != extent && !stretches)
        return (void)n.fail("equation '" + text + "': label '" + llvm::Twine(c) + "' has the extents " +
                            llvm::Twine(known) + " and " + llvm::Twine(extent));
      known = std::max(known, extent);
    }
  const Labels &out = equation->result;
  for (char c : out)
    if (!extents.count(c))
      return (void)n.fail("equation '" + text + "': label '" + llvm::Twine(c) + "' of the result is in no operand");

  Val y;
  Labels labels;
  for (auto [i, term] : llvm::enumerate(equation->terms)) {
    Val x = n.in(int(i));
    std::string number = std::to_string(i);
    // A dimension that an ellipsis stretches takes no part.
    Labels own;
    Shape shape;
    for (auto [d, c] : llvm::enumerate(term))
      if (x.shape[d] == extents[c]) {
        own += c;
        shape.push_back(x.shape[d]);
      }
    x = n.b.reshape(x, shape, "squeeze" + number);
    x = diagonals(n, x, own, "diagonal" + number);
    if (i == 0) {
      y = x;
      labels = own;
      continue;
    }
    Labels later = out;
    for (size_t j = i + 1; j < equation->terms.size(); ++j)
      later += equation->terms[j];
    bool last = i + 1 == equation->terms.size();
    y = product(n, y, labels, x, own, later, extents, last ? "" : "product" + number + "_");
    if (!y)
      return;
  }
  bool sums = labels.size() != out.size();
  y = sumAlone(n, y, labels, out, n.numInputs() == 1 ? "" : "sum");
  n.out(0, permuteTo(n, y, labels, out, n.numInputs() == 1 && !sums ? "" : "order"));
}

llvm::ArrayRef<OpRow> tessera::compiler::einsumOps() {
  static const OpRow rows[] = {
      {"Einsum", 12, kNewestOpset, einsum, ".k", "floating point"},
  };
  return rows;
}
