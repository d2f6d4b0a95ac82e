//===- StrategyGraphReader.cpp - streaming reader of the JSON form ---------------------------===//
//
// The reader is a pull parser over a byte source. Instances unpack to 100 MB, most of it numbers, so it builds
// nothing but the graph itself. zlib reads plain and gzip files. Keys may come in any order, so checkStrategyGraph
// compares lengths after the whole object was read.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/space/StrategyGraphIO.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <zlib.h>

using namespace tessera::strategies;

namespace {

// A gzip file of a few MB can unpack to terabytes. These limits bound the memory and the time that a hostile file
// takes.
constexpr int64_t kMostBytes = int64_t(16) << 30;
constexpr int64_t kMostNumbers = int64_t(1) << 29;
constexpr int kDeepest = 64;

class Reader {
public:
  using Source = std::function<int(char *, int)>; // bytes read, 0 at the end, negative on error
  explicit Reader(Source source) : source_(std::move(source)), buffer_(1 << 16) {}

  bool read(StrategyGraph &graph);
  std::string error;

private:
  bool fail(const std::string &what) {
    if (error.empty())
      error = what + " at byte " + std::to_string(consumed_ + at_);
    return false;
  }
  int peek() {
    if (at_ == filled_ && !fill())
      return -1;
    return (unsigned char)buffer_[at_];
  }
  bool fill();
  int next() {
    while (true) {
      int c = peek();
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
        return c;
      ++at_;
    }
  }
  bool expect(char c) {
    if (next() != c)
      return fail(std::string("expected '") + c + "'");
    ++at_;
    return true;
  }
  bool integer(int64_t &value);
  bool string(std::string &value);
  bool skip(int depth);
  bool word(const char *text);

  /// Calls `item` at the start of every element of a list.
  template <typename F> bool list(F item) {
    if (!expect('['))
      return false;
    if (next() == ']')
      return ++at_, true;
    while (true) {
      next();
      if (!item())
        return false;
      int c = next();
      ++at_;
      if (c == ']')
        return true;
      if (c != ',')
        return --at_, fail("expected ',' or ']'");
    }
  }
  /// Calls `member(key)` at the start of every value of an object.
  template <typename F> bool object(F member) {
    if (!expect('{'))
      return false;
    if (next() == '}')
      return ++at_, true;
    while (true) {
      std::string key;
      if (next() != '"')
        return fail("expected a key");
      if (!string(key) || !expect(':'))
        return false;
      next();
      if (!member(key))
        return false;
      int c = next();
      ++at_;
      if (c == '}')
        return true;
      if (c != ',')
        return --at_, fail("expected ',' or '}'");
    }
  }
  bool integers(std::vector<int64_t> &values) {
    bool ok = list([&] {
      if (++numbers_ > kMostNumbers)
        return fail("more than " + std::to_string(kMostNumbers) + " numbers");
      values.emplace_back();
      return integer(values.back());
    });
    values.shrink_to_fit(); // hundreds of thousands of short lists stay in memory
    return ok;
  }
  bool pair(int64_t &a, int64_t &b) {
    return expect('[') && (next(), integer(a)) && expect(',') && (next(), integer(b)) && expect(']');
  }
  bool index(int64_t value, int32_t &out) {
    if (value < 0 || value > std::numeric_limits<int32_t>::max())
      return fail("index " + std::to_string(value) + " is out of range");
    out = int32_t(value);
    return true;
  }
  bool nodes(StrategyGraph &graph);
  bool edges(StrategyGraph &graph);
  bool problem(StrategyGraph &graph);

  Source source_;
  std::vector<char> buffer_;
  size_t at_ = 0, filled_ = 0;
  int64_t consumed_ = 0, numbers_ = 0;
};

bool Reader::fill() {
  consumed_ += int64_t(filled_);
  at_ = filled_ = 0;
  if (consumed_ > kMostBytes)
    return fail("the file unpacks to more than " + std::to_string(kMostBytes) + " bytes");
  int n = error.empty() ? source_(buffer_.data(), int(buffer_.size())) : 0;
  if (n < 0)
    return fail("the compressed data is damaged");
  filled_ = size_t(n);
  return n > 0;
}

bool Reader::integer(int64_t &value) {
  bool negative = peek() == '-';
  if (negative)
    ++at_;
  int c = peek();
  if (c < '0' || c > '9')
    return fail("expected an integer");
  int64_t v = 0;
  while ((c = peek()) >= '0' && c <= '9') {
    if (__builtin_mul_overflow(v, int64_t(10), &v) || __builtin_add_overflow(v, c - '0', &v))
      return fail("a number does not fit in 64 bits");
    ++at_;
  }
  if (c == '.' || c == 'e' || c == 'E')
    return fail("expected an integer, not a fraction");
  value = negative ? -v : v;
  return true;
}

bool Reader::string(std::string &value) {
  ++at_; // the opening quote
  while (true) {
    int c = peek();
    if (c < 0)
      return fail("a string does not end");
    ++at_;
    if (c == '"')
      return true;
    if (c < 0x20)
      return fail("a control character in a string");
    if (value.size() > (1 << 20))
      return fail("a string of more than 1 MiB");
    if (c != '\\') {
      value += char(c);
      continue;
    }
    c = peek();
    ++at_;
    switch (c) {
    case '"':
    case '\\':
    case '/':
      value += char(c);
      break;
    case 'n':
      value += '\n';
      break;
    case 't':
      value += '\t';
      break;
    case 'r':
      value += '\r';
      break;
    case 'b':
      value += '\b';
      break;
    case 'f':
      value += '\f';
      break;
    case 'u': {
      unsigned code = 0;
      for (int i = 0; i < 4; ++i) {
        int h = peek();
        if (!isxdigit(h))
          return fail("a bad \\u escape");
        ++at_;
        code = code * 16 + unsigned(h <= '9' ? h - '0' : (h | 32) - 'a' + 10);
      }
      if (code < 0x80)
        value += char(code);
      else if (code < 0x800)
        (value += char(0xc0 | code >> 6)) += char(0x80 | (code & 63));
      else // names are only shown, so a surrogate pair may stay two units
        ((value += char(0xe0 | code >> 12)) += char(0x80 | (code >> 6 & 63))) += char(0x80 | (code & 63));
      break;
    }
    default:
      return fail("a bad escape");
    }
  }
}

bool Reader::word(const char *text) {
  for (; *text; ++text, ++at_)
    if (peek() != *text)
      return fail("expected a value");
  return true;
}

bool Reader::skip(int depth) {
  if (depth > kDeepest)
    return fail("values nested too deeply");
  int c = next();
  std::string ignored;
  if (c == '{')
    return object([&](const std::string &) { return skip(depth + 1); });
  if (c == '[')
    return list([&] { return skip(depth + 1); });
  if (c == '"')
    return string(ignored);
  if (c == 't')
    return word("true");
  if (c == 'f')
    return word("false");
  if (c == 'n')
    return word("null");
  if (c != '-' && (c < '0' || c > '9'))
    return fail("expected a value");
  while ((c = peek()) > 0 && strchr("+-.eE0123456789", c))
    ++at_;
  return true;
}

bool Reader::nodes(StrategyGraph &graph) {
  std::vector<std::pair<int64_t, int64_t>> intervals;
  std::vector<std::vector<int64_t>> costs, usages;
  std::vector<std::string> names;
  bool hasIntervals = false, hasUsages = false, hasCosts = false;
  bool ok = object([&](const std::string &key) {
    if (key == "intervals") {
      hasIntervals = true;
      intervals.clear();
      return list([&] {
        intervals.emplace_back();
        return pair(intervals.back().first, intervals.back().second);
      });
    }
    if (key == "costs" || key == "usages") {
      (key == "costs" ? hasCosts : hasUsages) = true;
      auto &rows = key == "costs" ? costs : usages;
      rows.clear();
      return list([&] {
        rows.emplace_back();
        return integers(rows.back());
      });
    }
    if (key == "names") {
      names.clear();
      return list([&] {
        names.emplace_back();
        return next() == '"' ? string(names.back()) : fail("expected a name");
      });
    }
    return skip(0);
  });
  if (!ok)
    return false;
  if (!hasCosts)
    return fail("\"nodes\" has no \"costs\"");
  auto same = [&](bool has, size_t count, const char *what) {
    return !has || count == costs.size() ||
           fail(std::to_string(costs.size()) + " nodes have costs, but there are " + std::to_string(count) + " " +
                what);
  };
  if (!same(hasIntervals, intervals.size(), "intervals") || !same(hasUsages, usages.size(), "lists of usages") ||
      !same(!names.empty(), names.size(), "names"))
    return false;
  graph.nodes.assign(costs.size(), {});
  for (size_t i = 0; i < costs.size(); ++i) {
    StrategyNode &node = graph.nodes[i];
    node.costs = std::move(costs[i]);
    if (hasUsages)
      node.usages = std::move(usages[i]);
    if (hasIntervals)
      std::tie(node.liveFrom, node.liveTo) = intervals[i];
    if (!names.empty())
      node.name = std::move(names[i]);
  }
  return true;
}

bool Reader::edges(StrategyGraph &graph) {
  std::vector<std::pair<int32_t, int32_t>> ends;
  std::vector<std::vector<int64_t>> costs;
  bool ok = object([&](const std::string &key) {
    if (key == "nodes") {
      ends.clear();
      return list([&] {
        int64_t a, b;
        ends.emplace_back();
        return pair(a, b) && index(a, ends.back().first) && index(b, ends.back().second);
      });
    }
    if (key == "costs") {
      costs.clear();
      return list([&] {
        costs.emplace_back();
        return integers(costs.back());
      });
    }
    return skip(0);
  });
  if (!ok)
    return false;
  if (ends.size() != costs.size())
    return fail(std::to_string(ends.size()) + " edges, but " + std::to_string(costs.size()) + " cost matrices");
  graph.edges.clear();
  for (size_t e = 0; e < ends.size(); ++e)
    graph.edges.push_back({ends[e].first, ends[e].second, std::move(costs[e])});
  return true;
}

bool Reader::problem(StrategyGraph &graph) {
  bool hasNodes = false;
  bool ok = object([&](const std::string &key) {
    if (key == "name" && next() == '"') {
      graph.name.clear();
      return string(graph.name);
    }
    if (key == "nodes") {
      hasNodes = true;
      return nodes(graph);
    }
    if (key == "edges")
      return edges(graph);
    if (key == "usage_limit")
      return integer(graph.memoryLimit);
    if (key == "aliases") {
      graph.aliases.clear();
      return list([&] {
        int64_t a, b;
        graph.aliases.emplace_back();
        return pair(a, b) && index(a, graph.aliases.back().first) && index(b, graph.aliases.back().second);
      });
    }
    if (key == "data_parallel") {
      graph.dataParallel.clear();
      return list([&] {
        int64_t option;
        graph.dataParallel.emplace_back();
        return integer(option) && index(option, graph.dataParallel.back());
      });
    }
    return skip(0);
  });
  return ok && (hasNodes || fail("\"problem\" has no \"nodes\""));
}

bool Reader::read(StrategyGraph &graph) {
  bool found = false;
  bool ok = object([&](const std::string &key) {
    if (key != "problem")
      return skip(0);
    found = true;
    return problem(graph);
  });
  if (!ok)
    return false;
  if (!found)
    return fail("there is no \"problem\"");
  if (next() >= 0)
    return fail("text after the end");
  return error.empty();
}

std::optional<StrategyGraph> finish(Reader &reader, const std::string &name, std::string &error) {
  StrategyGraph graph;
  bool ok = false;
  try {
    ok = reader.read(graph);
    error = ok ? checkStrategyGraph(graph) : reader.error;
  } catch (const std::bad_alloc &) {
    error = "too large for this machine's memory";
    ok = false;
  }
  if (ok && error.empty())
    return graph;
  error = name + ": " + (error.empty() ? "not a strategy graph" : error);
  return std::nullopt;
}

} // namespace

std::optional<StrategyGraph> tessera::strategies::readStrategyGraph(const std::string &path, std::string &error) {
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec)) {
    error = path + ": is a directory, not a strategy graph";
    return std::nullopt;
  }
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) {
    error = path + ": cannot be opened";
    return std::nullopt;
  }
  gzbuffer(file, 1 << 17);
  Reader reader([&](char *data, int size) {
    int n = gzread(file, data, unsigned(size));
    int code = Z_OK;
    // A truncated stream ends with a short read and Z_BUF_ERROR.
    gzerror(file, &code);
    return code == Z_OK || code == Z_STREAM_END ? n : -1;
  });
  std::optional<StrategyGraph> graph = finish(reader, path, error);
  gzclose(file);
  return graph;
}

std::optional<StrategyGraph> tessera::strategies::parseStrategyGraph(const std::string &text, const std::string &name,
                                                                     std::string &error) {
  size_t at = 0;
  Reader reader([&](char *data, int size) {
    size_t n = std::min(size_t(size), text.size() - at);
    std::copy_n(text.data() + at, n, data);
    at += n;
    return int(n);
  });
  return finish(reader, name, error);
}
