//===- Status.h - errors of the runtime ----------------------------------------------------------===//
//
// The runtime's one error type: success, or a chain of messages, outermost first. Nothing in the runtime
// prints and continues, throws across a module, or aborts on bad input; it returns a Status.
//
//   Result<Plan> readPlan(const std::string &path);
//   ...
//   Result<Plan> plan = readPlan(path);
//   if (!plan)
//     return plan.status().context("rank 3");       // "rank 3: plan/rank3.plan: truncated at byte 17"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_STATUS_H
#define TESSERA_RUNTIME_SUPPORT_STATUS_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace tessera::rt {

class [[nodiscard]] Status {
public:
  Status() = default; // success
  static Status error(std::string message) {
    Status s;
    s.message_ = std::move(message);
    s.failed_ = true;
    return s;
  }

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const std::string &message() const { return message_; }

  /// The same error with "outer: " before its message. Success stays success.
  Status context(const std::string &outer) const { return ok() ? Status() : error(outer + ": " + message_); }

private:
  std::string message_;
  bool failed_ = false;
};

/// A value or the Status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace tessera::rt

#define TESSERA_RETURN_IF_ERROR(expr)                                                                                  \
  do {                                                                                                                 \
    ::tessera::rt::Status status_ = (expr);                                                                            \
    if (!status_.ok())                                                                                                 \
      return status_;                                                                                                  \
  } while (false)

#endif
