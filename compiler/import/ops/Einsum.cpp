//===- Einsum.cpp - Einstein sums as one matrix product
//-------------------------------------------===//
//
// For two operands every label is one of
//   batch  in both and in the result        row  in the first and the result
//   sum    in both, not in the result       column  in the second and the result
// (a label of one operand alone that the result lacks is summed first). The operands are transposed
// to [batch..., row, sum] and [batch..., sum, column], several rows, columns or sums are merged by
// a reshape, the product is split again and transposed to the result's order:
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
static Val sumAlone(Node &n, Val x, Labels &labels, const Labels &others,
                    const std::string &suffix) {
  Shape dims;
  Labels kept;
  for (size_t i = 0; i < labels.size(); ++i)
    if (contains(others, labels[i]))
      kept += labels[i];
    else
      dims.push_back(static_cast<int64_t>(i));
  labels = kept;
  return n.b.reduce<graph::ReduceSumOp>(x, dims, false, suffix);
}

static Val permuteTo(Node &n, const Val &x, const Labels &from, const Labels &to,
                     llvm::StringRef suffix) {
  Shape perm;
  for (char c : to)
    perm.push_back(static_cast<int64_t>(from.find(c)));
  return n.b.transpose(x, perm, suffix);
}

static void einsum(Node &n) {
  std::string equation = n.attrString("equation", "");
  llvm::erase(equation, ' ');
  auto [left, result] = llvm::StringRef(equation).split("->");
  llvm::SmallVector<llvm::StringRef> parts;
  left.split(parts, ',');
  if (!llvm::StringRef(equation).contains("->") ||
      static_cast<int>(parts.size()) != n.numInputs() || parts.size() > 2)
    return (void)n.fail("equation '" + equation + "': one or two operands and '->' are supported");
  std::map<char, int64_t> extents;
  auto check = [&](llvm::StringRef labels) {
    std::set<char> seen;
    return llvm::all_of(labels, [&](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) && seen.insert(c).second;
    });
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    Val x = n.in(static_cast<int>(i));
    if (!x)
      return;
    if (!check(parts[i]) || !check(result))
      return (void)n.fail("equation '" + equation +
                          "': an ellipsis or a label twice in one term is not supported");
    if (x.rank() != static_cast<int64_t>(parts[i].size()) || !isFloat(x.type))
      return (void)n.fail("equation '" + equation + "' does not fit the floating point shape " +
                          shapeText(x.shape));
    for (size_t d = 0; d < parts[i].size(); ++d)
      if (auto [it, fresh] = extents.emplace(parts[i][d], x.shape[d]); it->second != x.shape[d])
        return (void)n.fail("equation '" + equation + "': label '" + llvm::Twine(parts[i][d]) +
                            "' has the extents " + llvm::Twine(it->second) + " and " +
                            llvm::Twine(x.shape[d]));
  }
  for (char c : result)
    if (!extents.count(c))
      return (void)n.fail("equation '" + equation + "': label '" + llvm::Twine(c) +
                          "' of the result is in no operand");

  Labels out = result.str(), la = parts[0].str(), lb = parts.size() > 1 ? parts[1].str() : "";
  if (parts.size() == 1) {
    Val x = sumAlone(n, n.in(0), la, out, "");
    return n.out(0, permuteTo(n, x, la, out, la.size() == parts[0].size() ? "" : "order"));
  }
  if (n.in(0).type != n.in(1).type)
    return (void)n.fail("the operands differ in element type");
  Val a = sumAlone(n, n.in(0), la, out + lb, "sum_a"),
      b = sumAlone(n, n.in(1), lb, out + la, "sum_b");

  Labels batch, row, column, sum;
  for (char c : la)
    (!contains(lb, c) ? row : contains(out, c) ? batch : sum) += c;
  for (char c : lb)
    if (!contains(la, c))
      column += c;
  // Rows, columns and batch keep the result's order, so that the last transpose vanishes where it
  // can.
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
  if (sum.empty()) {
    Shape wideA = shapeOf(batch + row), wideB = shapeOf(batch);
    wideA.append(column.size(), 1);
    wideB.append(row.size(), 1);
    wideB.append(shapeOf(column));
    y = n.b.mul(n.b.reshape(permuteTo(n, a, la, batch + row, "order_a"), wideA, "shape_a"),
                n.b.reshape(permuteTo(n, b, lb, batch + column, "order_b"), wideB, "shape_b"));
  } else {
    Shape shapeA = shapeOf(batch), shapeB = shapeA;
    shapeA.append({merged(row), merged(sum)});
    shapeB.append({merged(sum), merged(column)});
    // What is stored as [column, sum] already is used as it is.
    bool flip = lb == batch + column + sum;
    if (flip)
      std::swap(shapeB[batch.size()], shapeB[batch.size() + 1]);
    a = n.b.reshape(permuteTo(n, a, la, batch + row + sum, "order_a"), shapeA, "shape_a");
    b = n.b.reshape(
        permuteTo(n, b, lb, flip ? batch + column + sum : batch + sum + column, "order_b"), shapeB,
        "shape_b");
    y = n.b.reshape(n.b.matmul(a, b, false, flip), shapeOf(order), "shape");
  }
  n.out(0, permuteTo(n, y, order, out, "order"));
}

llvm::ArrayRef<OpRow> tessera::compiler::einsumOps() {
  static const OpRow rows[] = {
      {"Einsum", 12, 21, einsum, ".k",
       "one or two operands, no ellipsis, no label twice in one term"},
  };
  return rows;
}
