//===- Network.h - the model's operators, with their gradients, and what repeats among them --------===//
//
// A node is an operator of the model file with everything that it brought into the program: the parts it was imported
// as ("/bn1/BatchNormalization/mean"), its gradients, and the updates of the parameters that it reads. Nodes of
// one kind, strategy and shapes have equal signatures. A block is a run of nodes of one module,
// or a sequence of nodes that repeats without a gap.
//
//   l0.qkv ... l0.down, l1.qkv ... l1.down, ... l11.down       one block of 12 repeats, titled "l0" to "l11"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_NETWORK_H
#define TESSERA_TOOLS_PAGE_NETWORK_H

#include "tools/dump/ReportFields.h"

#include <array>
#include <cstdint>
#include <vector>

namespace tessera {

/// Which part of a training step an operator belongs to.
enum class Part : uint8_t { Forward, Backward, Update };
constexpr size_t kParts = 3;

struct Node {
  std::string name;
  const Json *op = nullptr;                              // the operator with the name
  std::array<std::vector<size_t>, kParts> operators{};   // by Part: indices into the function's operators
  std::array<double, kParts> compute{}, communication{}; // by Part, ns
  int signature = 0;                                     // equal for nodes that are alike
  double computeTotal() const { return compute[0] + compute[1] + compute[2]; }
  double communicationTotal() const { return communication[0] + communication[1] + communication[2]; }
};

/// The nodes [first, first + period * count): `count` times the same `period` nodes.
struct Block {
  size_t first = 0, period = 1, count = 1;
  std::string title = {}, lastTitle = {}; // a module, layer or operator: of the first and the last repeat
};

/// Constants are in no node.
struct Network {
  const Json *function = nullptr;
  std::vector<Node> nodes; // in program order
  std::vector<Block> blocks;
  std::vector<int> nodeOf; // by operator; -1: of no node
  std::vector<Part> partOf;
  std::vector<int> classOf;          // by operator; operators of one class differ in nothing but names
  std::vector<const Json *> classes; // the first operator of each
};

/// The network of one function of a report; it points into it.
Network readNetwork(const Json &function);

/// Whether a field of an operator says who it is, not what it is.
bool isIdentity(const std::string &field);

/// Sequences that repeat without a gap: [5, 1, 2, 1, 2, 7] is 5, twice [1, 2], and 7. `sizes` says how many operators
/// each number stands for; repeats of fewer than `least` operators stay as they are. Titles are empty.
std::vector<Block> foldRepeats(const std::vector<int> &sequence, const std::vector<size_t> &sizes, size_t least);

} // namespace tessera

#endif
