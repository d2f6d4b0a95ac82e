#include "tools/cli/ParameterTable.h"

#include <algorithm>
#include <utility>

namespace tessera {

std::string parameterTable(const std::vector<ParameterRow> &rows) {
  size_t role = 0, name = 0, type = 0, shape = 0;
  for (const ParameterRow &row : rows) {
    role = std::max(role, row.role.size());
    name = std::max(name, std::min<size_t>(row.name.size(), 60));
    type = std::max(type, row.type.size());
    shape = std::max(shape, std::min<size_t>(row.shape.size(), 24));
  }
  auto padded = [](std::string text, size_t width) {
    text.append(text.size() < width ? width - text.size() : 0, ' ');
    return text + "  ";
  };
  std::string out;
  for (const ParameterRow &row : rows)
    out += padded(row.role, role) + padded(row.name, name) + padded(row.type, type) + padded(row.shape, shape) +
           row.reason + (row.guess ? " (a guess)" : "") + "\n";
  return out + parameterCounts(rows) + "\n";
}

std::string parameterCounts(const std::vector<ParameterRow> &rows) {
  std::vector<std::pair<std::string, size_t>> counts; // in the order of the rows
  size_t guesses = 0;
  for (const ParameterRow &row : rows) {
    auto it = std::find_if(counts.begin(), counts.end(), [&](const auto &count) { return count.first == row.role; });
    if (it == counts.end())
      counts.push_back({row.role, 1});
    else
      ++it->second;
    guesses += row.guess;
  }
  std::string out;
  for (const auto &[role, count] : counts)
    out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + role;
  if (out.empty())
    return "no parameters, states or constants";
  return out + (guesses ? "; " + std::to_string(guesses) + " of them a guess" : "");
}

} // namespace tessera
