#include "test/conformance/onnx/Results.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace tessera::test {

static std::string joined(const std::vector<std::string> &words, const char *separator) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string line(const Outcome &o) {
  std::string text = o.name + "  " + o.operatorName + "  ";
  if (o.status == Status::Failed)
    return text + "FAILED: " + o.reason + "\n";
  if (o.status == Status::Refused)
    return text + "refused: " + o.reason + "\n";
  text += o.bound.empty() ? "passed" : "passed with " + joined(o.bound, ", ") + " known";
  std::vector<std::string> operators;
  for (const auto &[name, rule] : o.rules)
    operators.push_back(name);
  return text + (operators.empty() ? "" : "  -> " + joined(operators, " ")) + "\n";
}

size_t countOf(const std::vector<Outcome> &outcomes, Status status) {
  return size_t(std::count_if(outcomes.begin(), outcomes.end(), [&](const Outcome &o) { return o.status == status; }));
}

std::string summary(const std::vector<Outcome> &outcomes) {
  return std::to_string(outcomes.size()) + " tests: " + std::to_string(countOf(outcomes, Status::Passed)) +
         " passed, " + std::to_string(countOf(outcomes, Status::Refused)) + " refused, " +
         std::to_string(countOf(outcomes, Status::Failed)) + " failed\n";
}

bool compareOrUpdate(const std::vector<Outcome> &outcomes, const std::string &file, bool update) {
  if (countOf(outcomes, Status::Failed) > 0)
    return false;
  if (update) {
    std::ofstream out(file);
    for (const Outcome &o : outcomes)
      out << line(o);
    return bool(out);
  }
  std::map<std::string, std::string> expected;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);)
    expected[text.substr(0, text.find("  "))] = text + "\n";
  bool same = true;
  for (const Outcome &o : outcomes) {
    auto it = expected.find(o.name);
    std::string wanted = it == expected.end() ? "(not in the list)\n" : it->second;
    if (it != expected.end())
      expected.erase(it);
    if (wanted == line(o))
      continue;
    same = false;
    std::printf("expected: %sgot:      %s", wanted.c_str(), line(o).c_str());
  }
  for (const auto &[name, text] : expected) {
    same = false;
    std::printf("was not run: %s", text.c_str());
  }
  if (!same)
    std::printf("where this is intended, run with --update and commit %s\n", file.c_str());
  return same;
}

bool compareOrUpdateFile(const std::string &text, const std::string &file, bool update) {
  if (update) {
    std::ofstream out(file);
    out << text;
    return bool(out);
  }
  std::ifstream in(file);
  std::stringstream held;
  held << in.rdbuf();
  if (held.str() == text)
    return true;
  std::printf("%s is not up to date: run with --update and commit it\n", file.c_str());
  return false;
}

} // namespace tessera::test
