#include "dialects/graph/flow/MessageMemory.h"

#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Order.h"

namespace tessera::graph {

namespace {

using Span = MemoryLoad::Span;

/// A program whose messages are steps, in the order in which it runs.
struct SentProgram {
  SentProgram(const DataFlow &flow, llvm::ArrayRef<std::vector<int>> messages)
      : sent(flow, messages), order(executionOrder(sent.flow)), lives(lifetimes(sent.flow, order)) {}

  MemoryLoad load() const { return memoryLoad(sent.flow, lives); }

  const MessageFlow sent;
  const std::vector<int> order;
  const std::vector<Lifetime> lives;
};

/// When values live longer than they would if the members were sent alone: from the first that a member reads and waits
/// with it, to the last result's first reader. Who reads a result later keeps it in any case.
class Delays {
public:
  explicit Delays(const SentProgram &program) : program_(program) {
    const DataFlow &flow = program.sent.flow;
    firstReader_.assign(flow.values.size(), int64_t(program.order.size()));
    for (auto [time, step] : llvm::enumerate(program.order))
      for (int value : flow.steps[step].reads)
        firstReader_[value] = std::min(firstReader_[value], int64_t(time));
  }

  Span of(const DataFlow::Step &message, int64_t time) const {
    const DataFlow &flow = program_.sent.flow;
    Span span{time, time};
    for (int value : message.reads)
      if (const int root = flow.root(value); !flow.values[root].kept)
        span.first = std::min(span.first, program_.lives[root].first);
    for (int value : message.makes)
      if (!flow.values[value].kept && firstReader_[value] < int64_t(program_.order.size()))
        span.last = std::max(span.last, firstReader_[value]);
    return span;
  }

private:
  const SentProgram &program_;
  std::vector<int64_t> firstReader_; // by value: a time
};

/// Whether a span has a time of one of `spans`, which are in order.
bool meets(const Span &span, llvm::ArrayRef<Span> spans) {
  const auto *next = llvm::partition_point(spans, [&](const Span &other) { return other.last < span.first; });
  return next != spans.end() && next->first <= span.last;
}

/// Of what a message reads and makes.
int64_t bytesOf(const DataFlow &flow, const DataFlow::Step &message) {
  int64_t bytes = 0;
  for (const llvm::ArrayRef<int> values : {llvm::ArrayRef<int>(message.reads), llvm::ArrayRef<int>(message.makes)})
    for (int value : values)
      bytes += flow.values[value].bytes;
  return bytes;
}

} // namespace

int64_t peakOf(const DataFlow &flow, llvm::ArrayRef<std::vector<int>> messages) {
  return SentProgram(flow, messages).load().peak().bytes;
}

std::vector<std::vector<int>> splitToFit(const DataFlow &flow, std::vector<std::vector<int>> messages, int64_t room) {
  for (;;) {
    const SentProgram program(flow, messages);
    const std::vector<Span> full = program.load().above(room);
    if (full.empty())
      return messages;
    // The largest are halved first. As small ones are many, they save most start-ups for their memory.
    const Delays delays(program);
    llvm::DenseMap<int, int64_t> delayed; // by first member: the bytes of joined messages at such a time
    int64_t largest = 0;
    for (auto [time, step] : llvm::enumerate(program.order))
      if (const llvm::ArrayRef<int> members = program.sent.members[step]; members.size() > 1)
        if (const DataFlow::Step &message = program.sent.flow.steps[step];
            meets(delays.of(message, int64_t(time)), full))
          largest = std::max(largest, delayed[members.front()] = bytesOf(program.sent.flow, message));
    std::vector<std::vector<int>> smaller, alone;
    for (llvm::ArrayRef<int> message : messages) {
      const auto it = delayed.find(message.front());
      const size_t half = it != delayed.end() && it->second > largest / 2 ? message.size() / 2 : message.size();
      for (llvm::ArrayRef<int> part : {message.take_front(half), message.drop_front(half)})
        if (!part.empty())
          smaller.push_back(part.vec());
      for (int member : message)
        alone.push_back({member});
    }
    if (delayed.empty())
      return alone; // it is too much without them, too, or other steps have moved
    messages = std::move(smaller);
  }
}

} // namespace tessera::graph
