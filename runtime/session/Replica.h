//===- Replica.h - the unpartitioned program beside a plan ------------------------------------------===//
//
// A plan directory holds the unpartitioned program as `sequential.plan`. A Replica runs it in the process of one rank,
// on a backend and in a precision of its own, on the same batches:
//
//   Result<std::unique_ptr<Replica>> judge = Replica::create(plan, "reference", load);  // load.widen: in F64
//   (*judge)->open("train", data, options, firstStep);
//   (*judge)->next();                      // the next batch of the source
//   (*judge)->step(step);                  // runs the program on it; again, if called again
//   int loss = (*judge)->find(plan::LOSS, "loss");
//   (*judge)->fetch(loss, values);
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_REPLICA_H
#define TESSERA_RUNTIME_SESSION_REPLICA_H

#include "runtime/session/Session.h"

namespace tessera::rt {

class Replica {
public:
  /// An error if the directory has no sequential plan. `plan` outlives the result.
  static Result<std::unique_ptr<Replica>> create(const PlanDirectory &plan, std::string_view backend,
                                                 const LoadOptions &options);

  /// From now on, program `program` runs on the batches that follow batch `firstStep` of the source.
  Status open(const std::string &program, const std::string &data, const DataOptions &options, int64_t firstStep);
  Status next();
  /// Runs the program on the batch that next() read. `step` is the number of optimizer steps already taken.
  Status step(int64_t step);

  /// The binding of a role and name, among those of the opened program and the parameters and states; -1: none.
  int find(plan::Role role, const std::string &name) const;
  Status fetch(int binding, std::vector<double> &values);
  Status set(int binding, const std::vector<double> &values);

  Executor &executor() { return *executor_; }

private:
  explicit Replica(std::vector<std::unique_ptr<World>> worlds) : worlds_(std::move(worlds)) {}

  std::vector<std::unique_ptr<World>> worlds_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  std::optional<Feed> feed_;
  std::string program_;
};

/// Elements of any type as doubles.
std::vector<double> asDoubles(const std::vector<char> &bytes, plan::DType type);

} // namespace tessera::rt

#endif
