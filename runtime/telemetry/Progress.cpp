#include "runtime/telemetry/Progress.h"

#include "runtime/support/Printable.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <unistd.h>

namespace tessera::rt {

std::string numberText(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string durationText(double seconds) {
  char text[64];
  seconds = std::isfinite(seconds) ? seconds : 0;
  const long long whole = std::llround(seconds);
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  else if (whole >= 60)
    std::snprintf(text, sizeof text, "%lld min %02lld s", whole / 60, whole % 60);
  else
    std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

Console::Console(std::FILE *out, bool plain) : out_(out), terminal_(out && !plain && isatty(fileno(out))) {}

Console::~Console() {
  if (transientShown_)
    std::fputc('\n', out_);
  if (log_)
    std::fclose(log_);
}

Status Console::openLog(const std::string &path, bool append) {
  log_ = std::fopen(path.c_str(), append ? "a" : "w");
  logPath_ = path;
  return log_ ? Status() : Status::error(path + ": cannot be written: " + std::strerror(errno));
}

void Console::line(const std::string &text) {
  if (!out_)
    return;
  if (std::exchange(transientShown_, false))
    std::fputs("\r\033[K", out_);
  std::fputs((printable(text) + "\n").c_str(), out_);
  std::fflush(out_);
}

void Console::transient(const std::string &text) {
  if (!terminal_)
    return;
  std::fputs(("\r\033[K" + printable(text)).c_str(), out_);
  std::fflush(out_);
  transientShown_ = true;
}

Status Console::openEvents(const std::string &folder) {
  Result<EventFile> events = EventFile::create(folder);
  if (events)
    events_ = std::move(*events);
  return events.status();
}

Status Console::log(const std::vector<std::pair<std::string, double>> &fields, const std::string &name,
                    const std::vector<double> &list) {
  if (events_) {
    double step = 0;
    std::string prefix = "train/";
    std::vector<std::pair<std::string, double>> values;
    for (const auto &[name, value] : fields)
      if (name == "step")
        step = value;
      else if (name == "eval" || name == "infer")
        prefix = name + "/";
      else
        values.emplace_back(prefix + name, value);
    TESSERA_RETURN_IF_ERROR(events_->scalars(int64_t(step), values));
  }
  if (!log_)
    return Status();
  auto number = [](double value, int digits) { return std::isfinite(value) ? numberText(value, digits) : "null"; };
  std::string text = "{";
  for (const auto &[field, value] : fields)
    text += (text.size() > 1 ? ", \"" : "\"") + field + "\": " + number(value, 17);
  if (!list.empty()) {
    text += ", \"" + name + "\": [";
    for (size_t i = 0; i < list.size(); ++i)
      text += (i > 0 ? ", " : "") + number(list[i], 4);
    text += "]";
  }
  // A line is written whole and at once, so that readers of a growing file, or of a killed run's,
  // see whole lines.
  if (std::fputs((text + "}\n").c_str(), log_) < 0 || std::fflush(log_) != 0)
    return Status::error(logPath_ + ": cannot be written: " + std::strerror(errno));
  return Status();
}

Progress::Progress(Console &console, int64_t first, int64_t last, uint64_t samplesPerStep)
    : console_(console), first_(first), last_(last), samples_(samplesPerStep) {}

void Progress::step(int64_t number, double loss, double seconds) {
  total_ += seconds;
  recent_ = seconds_.empty() ? seconds : 0.9 * recent_ + 0.1 * seconds;
  seconds_.push_back(seconds);
  int64_t every = std::max<int64_t>(1, (last_ - first_) / 20);
  bool shown = number == last_ || number == first_ + 1 || number % every == 0;
  if (!console_.terminal() && !shown)
    return;
  std::string bar;
  if (console_.terminal()) {
    constexpr int64_t width = 24;
    int64_t full = last_ > first_ ? (number - first_) * width / (last_ - first_) : width;
    bar = " [" + std::string(size_t(full), '#') + std::string(size_t(width - full), '.') + "]";
  }
  char text[256];
  std::snprintf(text, sizeof text, "step %lld/%lld%s loss %.5f  %.1f samples/s  %s left",
                static_cast<long long>(number), static_cast<long long>(last_), bar.c_str(), loss,
                double(samples_) / std::max(recent_, 1e-9), durationText(recent_ * double(last_ - number)).c_str());
  if (console_.terminal() && number != last_)
    console_.transient(text);
  else
    console_.line(text);
}

double Progress::medianSeconds() const {
  std::vector<double> sorted = seconds_;
  if (sorted.empty())
    return 0;
  std::nth_element(sorted.begin(), sorted.begin() + long(sorted.size() / 2), sorted.end());
  return sorted[sorted.size() / 2];
}

} // namespace tessera::rt
