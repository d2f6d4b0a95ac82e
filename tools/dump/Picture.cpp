#include "tools/dump/Picture.h"

#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"
#include "tools/dump/PictureRows.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tessera {

namespace {

constexpr size_t kRows = 20;     // so many fit on one screen
constexpr size_t kColours = 6;   // the number of colours in kStyle
constexpr long kMost = 1L << 30; // the most ranks along an axis; the report is not trusted

constexpr int kWidth = 1100, kLine = 16, kHeader = 104;
constexpr int kModule = 16, kOperators = 176, kResult = 430, kTime = 622, kForward = 716, kBackward = 902;

constexpr const char *kStyle = R"(<style>
text{font:11px system-ui,sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.faint{fill:#59636e}.number{text-anchor:middle}
.page{fill:#ffffff}.rule{stroke:#d1d9e0}.whole{fill:#ffffff}.cell{fill:none;stroke:#818b98}.bar{fill:#818b98}
.axis0{fill:#8ec5ff}.axis1{fill:#ffc27a}.axis2{fill:#8fdcb0}.axis3{fill:#e6a8e0}.axis4{fill:#d9d36b}.axis5{fill:#c9b8a8}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.faint{fill:#9198a1}.page,.whole{fill:#0d1117}.rule{stroke:#3d444d}.cell{stroke:#656c76}
.bar{fill:#656c76}
.axis0{fill:#1f5fae}.axis1{fill:#9a5700}.axis2{fill:#1d7a4a}.axis3{fill:#8c3d86}.axis4{fill:#6f6a00}.axis5{fill:#6b5a4a}
}
</style>
)";

std::string escaped(const std::string &s) {
  std::string out;
  for (char c : rt::printable(s)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

/// The text, shortened to at most `width` characters of UTF-8.
std::string shortened(const std::string &s, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < s.size(); ++i)
    if ((static_cast<unsigned char>(s[i]) & 0xc0) != 0x80 && ++characters == width && i + 1 < s.size())
      return s.substr(0, i) + "…";
  return s;
}

std::string label(int x, int y, const char *cls, const std::string &content) {
  if (content.empty())
    return "";
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"" +
         (*cls ? " class=\"" + std::string(cls) + "\"" : "") + ">" + escaped(content) + "</text>\n";
}

std::string box(double x, int y, double width, int height, const std::string &cls) {
  char text[128];
  std::snprintf(text, sizeof text, "<rect x=\"%.4g\" y=\"%d\" width=\"%.4g\" height=\"%d\" class=\"", x, y, width,
                height);
  return text + cls + "\"/>\n";
}

class Painter {
public:
  explicit Painter(const std::string &mesh) {
    std::stringstream axes(mesh);
    for (std::string axis; std::getline(axes, axis, ',');) {
      const size_t equals = axis.find('=');
      const long size = equals == std::string::npos ? 1 : std::strtol(axis.c_str() + equals + 1, nullptr, 10);
      axes_.push_back({axis.substr(0, equals), std::clamp(size, 1L, kMost)});
    }
  }

  /// Draws one cell per dimension, coloured by the axes of `sharding`, "[data+model, -] sum(x)". After the cells comes
  /// what does not cut a dimension: a partial sum, or in mode hybrid the axes along which ranks differ.
  std::string cells(int y, const std::string &sharding, const Json &shape) const {
    const size_t bracket = sharding.starts_with('[') ? sharding.find(']') : std::string::npos;
    std::stringstream dims(bracket == std::string::npos ? "" : sharding.substr(1, bracket - 1));
    std::string out, rest = sharding.substr(bracket == std::string::npos ? 0 : bracket + 1);
    const double width = std::min(36.0, 180.0 / std::max<double>(1, double(shape.size())));
    double x = kResult;
    for (const Json &size : shape) {
      std::string axes;
      std::getline(dims, axes, ',');
      int64_t unit = 1; // "model/64" cuts in whole units
      if (const size_t slash = axes.find('/'); slash != std::string::npos) {
        unit = std::clamp(std::strtol(axes.c_str() + slash + 1, nullptr, 10), 1L, kMost);
        axes.resize(slash);
      }
      const std::vector<size_t> cut = indices(axes, '+');
      int64_t parts = 1;
      out += box(x, y, width, 18, "whole");
      for (size_t i = 0; i < cut.size(); ++i) {
        parts = std::min<int64_t>(parts * axes_[cut[i]].size, kMost);
        out += box(x + width * double(i) / double(cut.size()), y, width / double(cut.size()), 18, colour(cut[i]));
      }
      const int64_t whole = size.is_number_integer() ? std::min(size.get<int64_t>(), kMost * kMost) : 0;
      const int64_t places = whole / unit + (whole % unit > 0);
      const int64_t held = (places / parts + (places % parts > 0)) * unit; // the last block may be padded
      out += box(x, y, width, 18, "cell") + label(int(x + width / 2), y + 13, "number", std::to_string(held));
      x += width;
    }
    return out + (rest.empty() ? "" : label(int(x) + 4, y + 13, "faint", rest));
  }

  std::string traffic(int x, int y, const std::vector<Traffic> &all) const {
    std::string out;
    for (const Traffic &t : all) {
      out += "<g><title>" + escaped(t.kind + " over " + t.axes) + ": " + std::to_string(t.count) + ", " +
             std::to_string(uint64_t(std::min(t.bytes, 1e18))) + " bytes</title>\n";
      int at = x;
      for (size_t axis : indices(t.axes, ',')) {
        out += box(at, y + 5, 9, 9, colour(axis));
        at += 10;
      }
      out += label(at + 3, y + 13, "",
                   t.kind + (t.count > 1 ? " ×" + std::to_string(t.count) : "") + ", " + bytesText(t.bytes)) +
             "</g>\n";
      y += kLine;
    }
    return out;
  }

  std::string legend(int y) const {
    std::string out;
    int x = kModule;
    for (size_t i = 0; i < axes_.size(); ++i) {
      out += box(x, y, 18, 12, colour(i)) + label(x + 23, y + 10, "", "cut by " + axes_[i].name);
      x += 75 + 6 * int(axes_[i].name.size());
    }
    return out + box(x, y, 18, 12, "cell") + label(x + 23, y + 10, "", "whole; the number is what one rank holds") +
           label(kForward, y + 10, "", "squares: the axes over which it is sent");
  }

private:
  struct Axis {
    std::string name;
    int64_t size;
  };
  static std::string colour(size_t axis) { return "axis" + std::to_string(axis % kColours); }
  /// The axes of the mesh that a list of names has: "data+model".
  std::vector<size_t> indices(const std::string &list, char separator) const {
    std::vector<size_t> found;
    std::stringstream names(list);
    for (std::string name; std::getline(names, name, separator);) {
      name.erase(0, name.find_first_not_of(' '));
      for (size_t i = 0; i < axes_.size(); ++i)
        if (axes_[i].name == name)
          found.push_back(i);
    }
    return found;
  }
  std::vector<Axis> axes_;
};

std::string moduleText(const std::string &module) { return module.substr(module.starts_with('/') ? 1 : 0); }

std::string ms(double ns) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.1f ms", ns / 1e6);
  return buffer;
}

std::string header(const Json &report, const Json &function, const Painter &painter) {
  const double compute = number(function, "compute_ns"), communication = number(function, "communication_ns");
  const std::string mesh = text(report, "mesh");
  std::string memory;
  if (report.contains("memory"))
    memory = ", needs " + bytesText(number(report["memory"], "arena_bytes"));
  return label(kModule, 26, "title",
               text(report, "model") + ": " + text(function, "name") + (mesh.empty() ? " on one rank" : " on " + mesh) +
                   ", mode " + text(report, "mode")) +
         label(kModule, 46, "faint",
               "predicted " + ms(predictedNs(function)) + ofItsWork(report, function) + " compute " + ms(compute) +
                   " + communication " + ms(communication) + "; one rank sends " +
                   bytesText(number(function, "bytes_sent")) + memory) +
         painter.legend(58) + label(kModule, 94, "faint", "module") + label(kOperators, 94, "faint", "operators") +
         label(kResult, 94, "faint", "their results") + label(kTime, 94, "faint", "compute") +
         label(kForward, 94, "faint", "one rank sends, forward") + label(kBackward, 94, "faint", "backward");
}

/// Draws the name of a module above its first row, with a line that separates it from the module before.
std::string moduleName(const Row &row, int y) {
  return "<path d=\"M" + std::to_string(kModule) + " " + std::to_string(y) + "H" + std::to_string(kWidth - kModule) +
         "\" class=\"rule\"/>\n" + label(kModule, y + 17, "", shortened(moduleText(row.module), 26)) +
         (row.repeats == 1 ? ""
                           : label(kModule, y + 17 + kLine, "faint",
                                   shortened("to " + moduleText(row.lastModule), 20) + ": " +
                                       std::to_string(row.repeats) + " alike"));
}

/// Draws the contents of a row. `longest` is the compute time whose bar has the full length.
std::string rowContents(const Row &row, const Painter &painter, double longest, int y) {
  std::string labels;
  for (const std::string &l : row.labels)
    labels += (labels.empty() ? "" : " ") + l;
  return "<g><title>" + escaped(labels) + "</title>\n" + label(kOperators, y + 17, "", shortened(labels, 38)) +
         "</g>\n" + (row.op ? painter.cells(y + 4, row.sharding(), row.shape()) : "") +
         box(kTime, y + 8, std::max(1.0, 30 * row.compute / longest), 10, "bar") +
         label(kTime + 34, y + 17, "faint", ms(row.compute)) + painter.traffic(kForward, y + 4, row.forward) +
         painter.traffic(kBackward, y + 4, row.backward);
}

} // namespace

std::string toSvg(const Report &report) {
  const Json &functions = list(report.json, "functions");
  const Json function = functions.empty() ? Json::object() : functions[0];
  const std::vector<Row> rows = pictureRows(function, kRows);
  const Painter painter(text(report.json, "mesh"));
  double longest = 1;
  for (const Row &row : rows)
    longest = std::max(longest, row.compute);
  std::string body = header(report.json, function, painter);
  int y = kHeader;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = rows[i];
    const bool first = i == 0 || rows[i - 1].module != row.module || !row.op; // row of its module
    body += (first ? moduleName(row, y) : "") + rowContents(row, painter, longest, y);
    const size_t names = first && row.repeats > 1 ? 2 : 1;
    y += 10 + kLine * int(std::max({row.forward.size(), row.backward.size(), names}));
  }
  std::string size = std::to_string(kWidth) + " " + std::to_string(y + 12);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" + std::to_string(kWidth) +
         "\" height=\"" + std::to_string(y + 12) + "\">\n" + kStyle + box(0, 0, kWidth, y + 12, "page") + body +
         "</svg>\n";
}

} // namespace tessera
