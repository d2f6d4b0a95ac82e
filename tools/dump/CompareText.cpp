#include "tools/dump/CompareText.h"

#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace tessera {

namespace {

constexpr size_t kRows = 20; // so many operators
constexpr size_t kName = 64, kColumn = 26;

std::string duration(double ns) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, std::abs(ns) >= 1e9 ? "%.2f s" : "%.3f ms",
                std::abs(ns) >= 1e9 ? ns / 1e9 : ns / 1e6);
  return buffer;
}

std::string column(std::string s, size_t width) {
  if (s.size() < width)
    s.append(width - s.size(), ' ');
  return s + " ";
}

std::string row(const std::string &what, const std::string &first, const std::string &second,
                const std::string &more = "") {
  std::string line = column(what, 20) + column(first, kColumn) + (more.empty() ? second : column(second, kColumn));
  return line + more + "\n";
}

/// "-3.1 %", or nothing where there is nothing to compare with.
std::string change(double first, double second) {
  if (first <= 0 || first == second)
    return "";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%+.1f %%", 100 * (second - first) / first);
  return buffer;
}

std::string cutOf(const Json &plan) {
  if (plan.is_null())
    return "not there";
  const std::string strategy = rt::printable(text(plan, "strategy"));
  return strategy.empty() ? "nothing cut" : strategy;
}

std::string count(size_t n, const char *what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

} // namespace

std::string compareText(const Json &compared) {
  const Json &a = compared["plans"][0], &b = compared["plans"][1];
  auto name = [&](size_t i) { return rt::printable(compared["names"][i].get<std::string>()); };
  std::string out = row("", name(0), name(1));
  for (const char *field : {"model", "mesh", "mode", "topology", "recompute"}) {
    auto shown = [&](const Json &plan) {
      const std::string value = rt::printable(text(plan, field));
      return value.empty() ? std::string("-") : value;
    };
    out += row(field, shown(a), shown(b));
  }
  auto amounts = [&](const char *what, const char *field, std::string (*shown)(double)) {
    const double first = number(a["head"], field), second = number(b["head"], field);
    out += row(what, shown(first), shown(second), change(first, second));
  };
  amounts("predicted step", "predicted_ns", duration);
  amounts("  compute", "compute_ns", duration);
  amounts("  communication", "communication_ns", duration);
  amounts("memory of one rank", "arena_bytes", bytesText);
  amounts("one rank sends", "bytes_sent", bytesText);
  const size_t cut = compared["num_cut"].get<size_t>(), all = compared["num_rows"].get<size_t>();
  out += "\n" + count(cut, "operator") + (cut == 1 ? " is" : " are") + " cut another way, " +
         std::to_string(compared["num_same"].get<size_t>()) + " are the same";
  for (size_t p : {0, 1})
    if (const size_t only = compared["num_only"][p].get<size_t>())
      out += ", " + std::to_string(only) + " only in " + name(p);
  out += "\n";
  const Json &rows = compared["rows"];
  if (rows.empty())
    return out;
  std::vector<std::array<std::string, 3>> lines = {{"what differs, the largest first", "time", "strategies"}};
  for (size_t i = 0; i < std::min(rows.size(), kRows); ++i) {
    const Json &r = rows[i];
    const size_t alike = r["alike"].get<size_t>();
    const double more = r["more_ns"].get<double>();
    lines.push_back({rt::printable(r["name"].get<std::string>()) +
                         (alike > 1 ? " and " + std::to_string(alike - 1) + " alike" : ""),
                     (more >= 0 ? "+" : "") + duration(more),
                     cutOf(r["plans"][0]) + (r["cut"].get<bool>() ? " | " + cutOf(r["plans"][1]) : "")});
  }
  size_t width = 0, digits = 0;
  for (const auto &[name, time, strategies] : lines) {
    width = std::max(width, std::min(name.size(), kName));
    digits = std::max(digits, time.size());
  }
  for (const auto &[name, time, strategies] : lines)
    out += "  " + column(name, width) + std::string(digits - time.size(), ' ') + time + "  " + strategies + "\n";
  if (all > kRows)
    out += "  and " + std::to_string(all - kRows) + " more; as a page to look at: --html page.html\n";
  return out;
}

} // namespace tessera
