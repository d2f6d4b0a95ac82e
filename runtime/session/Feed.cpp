#include "runtime/session/Feed.h"
#include "runtime/executor/GlobalTensors.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/Printable.h"
#include "runtime/tensor/ConvertElements.h"

namespace tessera::rt {

Result<Feed> Feed::open(Executor &executor, const BoundTensors &tensors, const std::string &program,
                        const std::string &spec, const DataOptions &options) {
  if (spec.empty())
    return Status::error("program " + quoted(program) +
                         " needs data: give --data npy:..., cifar10:DIR, imagefolder:DIR, tokens:FILE or synthetic");
  Feed feed;
  feed.executor_ = &executor;
  DataOptions asked = options;
  asked.leader = executor.plan().rank() == 0;
  const plan::Plan &plan = executor.plan();
  std::vector<BatchRequest> requests;
  std::vector<uint32_t> buffers;
  for (plan::Role role : {plan::INPUT, plan::TARGET})
    for (int tensor : tensors.of(role, program)) {
      const int index = tensors.on(plan.rank(), tensor);
      const plan::Binding &binding = index < 0 ? tensors.binding(tensor) : plan.bindings(index);
      const plan::Plan &from = index < 0 ? tensors.plan() : plan;
      const plan::Buffer &buffer = from.buffers(int(binding.buffer()));
      // A rank that reads nothing of the tensor, or holds only padding, requests one element of the whole tensor and
      // drops it: the source reads the same tensors on all ranks.
      std::vector<int64_t> global = toVector(binding.global_shape()), offset = toVector(binding.offset()),
                           asked = extentOf(from, binding);
      for (size_t d = 0; d < asked.size(); ++d)
        if (asked[d] == 0 || index < 0) {
          asked[d] = 1;
          offset[d] = 0;
        }
      feed.entries_.push_back({index, toVector(buffer.shape()), extentOf(from, binding), buffer.dtype(),
                               executor.heldType(buffer.dtype()), size_t(bytesOf(asked, buffer.dtype()).value_or(0))});
      if (index >= 0)
        buffers.push_back(binding.buffer());
      requests.push_back(
          {global, offset, asked, buffer.dtype(), role == plan::TARGET, binding.id_limit(), binding.name()});
    }
  Result<std::unique_ptr<DataSource>> source = openDataSource(spec, requests, asked);
  if (!source)
    return source.status();
  feed.source_ = std::move(*source);
  if (InputPaths *inputs = executor.capabilities().inputs; inputs && buffers.size() == requests.size()) {
    Result<std::unique_ptr<InputPath>> path = inputs->inputPath(buffers);
    if (!path)
      return path.status();
    feed.path_ = std::move(*path);
  }
  for (int set = 0; set < (feed.path_ ? 2 : 1); ++set)
    for (const Entry &entry : feed.entries_)
      feed.read_[set].emplace_back(feed.path_ && entry.direct() ? 0 : entry.bytes);
  return feed;
}

/// The source's elements, with padding where the plan has some.
const char *Feed::padded(const Entry &entry, const char *from) {
  if (entry.shape == entry.extent)
    return from;
  padded_.resize(*bytesOf(entry.shape, entry.type));
  padBox(entry.shape, entry.extent, from, padded_.data(), bytesPerElement(entry.type));
  return padded_.data();
}

/// Reads a batch. With an input path, it is then on its way to the device.
Status Feed::read(int set) {
  std::vector<void *> pointers, hosts;
  for (size_t i = 0; i < entries_.size(); ++i) {
    pointers.push_back(read_[set][i].data());
    if (!path_)
      continue;
    Result<void *> host = path_->host(i, set);
    if (!host)
      return host.status();
    hosts.push_back(*host);
    if (entries_[i].direct())
      pointers[i] = *host;
  }
  TESSERA_RETURN_IF_ERROR(source_->next(pointers));
  // Every rank reads files of its own, so each tells which files it skipped.
  for (const std::string &notice : source_->takeNotices())
    printError("[rank " + std::to_string(executor_->plan().rank()) + "] note: " + notice);
  if (!path_)
    return Status();
  for (size_t i = 0; i < entries_.size(); ++i)
    if (const Entry &entry = entries_[i]; !entry.direct())
      convertElements(padded(entry, read_[set][i].data()), entry.type, hosts[i], entry.held,
                      size_t(elementsOf(entry.shape).value_or(0)));
  sent_ = set;
  return path_->send(set);
}

void Feed::ahead() {
  if (path_ && !ahead_)
    ahead_ = read(other());
}

Status Feed::next() {
  Status status = ahead_ ? *ahead_ : read(other());
  ahead_.reset();
  if (!status)
    return status;
  current_ = other();
  return again();
}

Status Feed::again() {
  if (path_) {
    if (sent_ != current_) {
      sent_ = current_;
      TESSERA_RETURN_IF_ERROR(path_->send(current_));
    }
    return path_->receive();
  }
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].binding >= 0)
      TESSERA_RETURN_IF_ERROR(executor_->feed(entries_[i].binding, padded(entries_[i], read_[current_][i].data())));
  return Status();
}

} // namespace tessera::rt
