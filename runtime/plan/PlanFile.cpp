#include "runtime/plan/PlanFile.h"
#include "runtime/plan/KeepScale.h"
#include "runtime/plan/OperandParts.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/Recipe.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <memory>
#include <numeric>
#include <set>

namespace tessera::rt {
namespace {

std::string rankFile(const std::string &directory, size_t rank) {
  return directory + "/rank" + std::to_string(rank) + ".plan";
}

std::string sequentialFile(const std::string &directory) { return directory + "/sequential.plan"; }

/// Where plan_id's field begins in a serialised plan: protobuf writes fields in order of their numbers.
size_t idPosition(const plan::Plan &plan) {
  plan::Plan before;
  before.set_version(plan.version());
  before.set_producer(plan.producer());
  return before.ByteSizeLong();
}

/// FNV-1a; 64 bits are enough against accidents, and nothing here is a defence against forgery.
struct Hash {
  uint64_t state = 14695981039346656037ull;
  void add(std::string_view bytes) {
    for (char c : bytes)
      state = (state ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  }
  void addPlan(std::string_view bytes) {
    add(std::to_string(bytes.size()) + ":");
    add(bytes);
  }
  /// Of a plan as it was read: adds what it was without plan_id. The writer's bytes are canonical, so other bytes of the
  /// same plan count as changed.
  void addNamed(std::string_view bytes, const plan::Plan &plan) {
    plan::Plan id;
    id.set_plan_id(plan.plan_id());
    const size_t at = std::min(bytes.size(), idPosition(plan)), length = std::min(bytes.size() - at, id.ByteSizeLong());
    add(std::to_string(bytes.size() - length) + ":");
    add(bytes.substr(0, at));
    add(bytes.substr(at + length));
  }
  std::string text() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(state));
    return text;
  }
};

/// How many ranks there are; 0 if the numbers make no sense.
uint64_t ranksOf(const plan::Plan &plan) {
  if (hasOwnMeshes(plan)) {
    const uint64_t sum = std::accumulate(plan.stage_ranks().begin(), plan.stage_ranks().end(), uint64_t(0));
    return sum > kMaxRanks ? 0 : sum;
  }
  uint64_t ranks = 1;
  for (const plan::MeshAxis &axis : plan.mesh()) {
    ranks *= axis.size();
    if (ranks == 0 || ranks > kMaxRanks)
      return 0;
  }
  return ranks;
}

} // namespace

std::string serialize(const plan::Plan &plan) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  plan.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

static Status parse(std::string_view bytes, const std::string &what, plan::Plan &plan) {
  google::protobuf::LogSilencer silence; // protobuf prints nothing: the error below is the only message
  if (bytes.size() > kMaxPlanBytes || !plan.ParseFromArray(bytes.data(), int(bytes.size())))
    return Status::error(what + ": is not a plan file, or is truncated or damaged");
  return checkVersion(plan).context(what);
}

Result<plan::Plan> parsePlan(std::string_view bytes, const std::string &what) {
  plan::Plan plan;
  TESSERA_RETURN_IF_ERROR(parse(bytes, what, plan));
  return plan;
}

/// Whether the bytes of a view are not all of the other buffer's, if the elements have one type.
static bool isPart(const plan::Buffer &view, const plan::Buffer &of) {
  auto elements = [](const plan::Buffer &buffer) {
    return std::accumulate(buffer.shape().begin(), buffer.shape().end(), uint64_t(1),
                           [](uint64_t n, int64_t size) { return n * uint64_t(size); }); // checked later, and may wrap
  };
  return view.offset() != of.offset() || elements(view) != elements(of);
}

/// Whether a kernel or an instruction has the attribute.
template <typename T> static bool has(const T &what, std::string_view name) {
  return std::ranges::any_of(what.attributes(), [&](const plan::Attribute &a) { return a.name() == name; });
}

/// Whether the kernel rounds where a reader of version 5 would not: between leaves, or at a cast inside a loop.
static bool roundsInside(const plan::Kernel &kernel) {
  return has(kernel, "leaves") ||
         std::ranges::any_of(kernel.expression().code(), [](const plan::Instruction &i) { return has(i, "rounds"); });
}

uint32_t neededVersion(const plan::Plan &plan) {
  uint32_t needed = plan.leaves() > 0 ? 3 : kOldestPlanVersion;
  if (plan.frames_size() > 0 || plan.stages() > 1) // a reader of version 3 would compare stages with each other
    needed = 4;
  for (const plan::Group &group : plan.groups())
    if (group.run() > 0) // a reader of version 6 would add in the order of the members
      needed = 7;
  if (hasOwnMeshes(plan)) // a reader of version 8 would send whole buffers to rank 0
    needed = 9;
  for (const plan::Buffer &buffer : plan.buffers())
    if (const uint32_t of = buffer.alias_of_plus_one(); // a reader of version 4 knows views of whole buffers only
        of > 0 && of <= uint32_t(plan.buffers_size()) && isPart(buffer, plan.buffers(int(of) - 1)))
      needed = std::max(needed, 5u);
  for (const plan::Program &program : plan.programs()) {
    if (program.calls_size() > 0) // a reader of version 1 would run every section once, whatever the calls say
      needed = std::max(needed, 2u);
    for (const plan::Step &step : program.steps()) {
      if (step.collective().kind() == plan::EXCHANGE)
        needed = std::max(needed, 2u);
      if (step.collective().tree()) // a reader of version 2 would add in the order of the members
        needed = std::max(needed, 3u);
      if (step.has_send() || step.has_receive())
        needed = std::max(needed, 4u);
      if (roundsInside(step.kernel()))
        needed = std::max(needed, 6u);
      if (has(step.kernel(), kOperandParts)) // a reader of version 7 would take the operands as a whole
        needed = std::max(needed, 8u);
      if (has(step.kernel(), kKeepScale)) // a reader of version 9 would take what is kept for a bias
        needed = std::max(needed, 10u);
      if (has(step.kernel(), "leaves") && step.kernel().name() != "matmul") // a reader of version 10 knows no others
        needed = std::max(needed, 11u);
    }
  }
  return needed;
}

Status checkVersion(const plan::Plan &plan) {
  if (plan.version() >= kOldestPlanVersion && plan.version() <= kPlanVersion)
    return Status();
  std::string known = "version " + std::to_string(kPlanVersion);
  if (kOldestPlanVersion < kPlanVersion)
    known = "versions " + std::to_string(kOldestPlanVersion) + " to " + std::to_string(kPlanVersion);
  const std::string has = "has format version " + std::to_string(plan.version()) + ", this program reads " + known;
  if (plan.version() < kOldestPlanVersion)
    return Status::error(has + "; compile the model again");
  return Status::error(has + "; run it with the release that made it (" + quoted(plan.producer()) +
                       ") or a newer one, or compile the model again with this release");
}

std::vector<std::string> planFiles(const std::string &path) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(path, error)) {
    const std::filesystem::path name = entry.path().filename();
    if (name.extension() == ".plan" || name.extension() == ".safetensors" || name == kRecipeName ||
        name == kReportName || name == kStrategiesName)
      files.push_back(entry.path().string());
  }
  return files;
}

namespace {

/// Reads one plan file after the other. A plan is made in the memory of the one before it, and `take` may copy it.
class PlanReader {
public:
  explicit PlanReader(const std::string &path) : path_(path) {}

  Status readAll(const std::function<void(const plan::Plan &)> &take, PlanDirectory &directory) {
    std::error_code error;
    if (!std::filesystem::is_directory(path_, error))
      return Status::error(path_ + ": is not a plan directory");
    if (!fileExists(rankFile(path_, 0)))
      return Status::error(path_ + ": is not a plan directory: it has no rank0.plan");
    directory.path = path_;
    std::string id, weights;
    uint64_t ranks = 1;
    PlansChecker checker;
    for (uint64_t r = 0; r < ranks; ++r) {
      const std::string file = rankFile(path_, r);
      TESSERA_RETURN_IF_ERROR(read(file));
      if (r == 0) {
        ranks = ranksOf(*plan_);
        id = plan_->plan_id();
        weights = plan_->weights_file();
      }
      if (ranks == 0)
        return Status::error(file + ": its mesh has no sensible number of ranks (at most " + std::to_string(kMaxRanks) +
                             ")");
      TESSERA_RETURN_IF_ERROR(checker.add(*plan_, bytes_).context(file));
      take(*plan_);
    }
    TESSERA_RETURN_IF_ERROR(checker.finish().context(path_));
    if (const std::string file = sequentialFile(path_); fileExists(file)) {
      TESSERA_RETURN_IF_ERROR(read(file));
      PlansChecker alone;
      TESSERA_RETURN_IF_ERROR(alone.add(*plan_, bytes_).context(file));
      TESSERA_RETURN_IF_ERROR(alone.finish().context(file));
      if (plan_->plan_id() != id)
        return Status::error(file + ": belongs to another compilation than rank0.plan");
      directory.sequential = *plan_;
    }
    // Finds damage that leaves a valid plan, such as a changed attribute or constant.
    if (hash_.text() != id)
      return Status::error(path_ + ": the plan files were changed or damaged after they were written "
                                   "(plan_id does not match); compile the model again");
    if (!weights.empty()) {
      directory.weights = path_ + "/" + weights;
      if (!fileExists(directory.weights))
        return Status::error(directory.weights + ": the plan's weight file is missing");
    }
    return Status();
  }

private:
  /// Reads the file into bytes_ and plan_.
  Status read(const std::string &file) {
    Result<std::string> bytes = readFile(file, kMaxPlanBytes);
    if (!bytes)
      return bytes.status();
    bytes_ = std::move(*bytes);
    if (arena_)
      arena_->Reset();
    else if (!bytes_.empty()) { // a parsed plan is some eight times as large; what does not fit comes from the heap
      const size_t size = bytes_.size() * 10;
      block_ = std::make_unique_for_overwrite<char[]>(size);
      arena_ = std::make_unique<google::protobuf::Arena>(block_.get(), size);
    }
    plan_ = google::protobuf::Arena::CreateMessage<plan::Plan>(arena_.get());
    TESSERA_RETURN_IF_ERROR(parse(bytes_, file, *plan_));
    hash_.addNamed(bytes_, *plan_);
    return Status();
  }

  const std::string path_;
  Hash hash_;
  std::string bytes_;
  std::unique_ptr<char[]> block_;
  std::unique_ptr<google::protobuf::Arena> arena_;
  plan::Plan *plan_ = nullptr; // of the arena
};

} // namespace

Result<PlanDirectory> readPlanDirectory(const std::string &path) {
  PlanDirectory directory;
  TESSERA_RETURN_IF_ERROR(
      PlanReader(path).readAll([&](const plan::Plan &plan) { directory.ranks.push_back(plan); }, directory));
  return directory;
}

Status visitPlanDirectory(const std::string &path, const std::function<void(const plan::Plan &)> &each) {
  PlanDirectory directory;
  return PlanReader(path).readAll(each, directory);
}

PlanContents::PlanContents(const plan::Plan &plan) {
  if (plan.plan_id().empty()) {
    bytes = serialize(plan);
  } else {
    plan::Plan unnamed = plan;
    unnamed.clear_plan_id();
    bytes = serialize(unnamed);
  }
  idAt = idPosition(plan);
}

std::string computePlanId(const std::vector<PlanContents> &ranks, const std::optional<PlanContents> &sequential) {
  Hash hash;
  for (const PlanContents &plan : ranks)
    hash.addPlan(plan.bytes);
  if (sequential)
    hash.addPlan(sequential->bytes);
  return hash.text();
}

static Status writePlan(const std::string &path, const PlanContents &plan, const std::string &id) {
  plan::Plan named;
  named.set_plan_id(id);
  const std::string field = serialize(named);
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.status();
  for (std::string_view part : {std::string_view(plan.bytes).substr(0, plan.idAt), std::string_view(field),
                                std::string_view(plan.bytes).substr(plan.idAt)})
    TESSERA_RETURN_IF_ERROR(file->write(part.data(), part.size()));
  return file->commit();
}

Status writePlanDirectory(const std::string &path, const std::vector<PlanContents> &ranks,
                          const std::optional<PlanContents> &sequential) {
  if (ranks.empty())
    return Status::error(path + ": there is no plan to write");
  const std::string id = computePlanId(ranks, sequential);
  TESSERA_RETURN_IF_ERROR(makeDirectory(path));
  // A directory counts as a plan if it has a rank0.plan. So rank0.plan is removed first and written
  // last.
  std::set<std::string> old = {rankFile(path, 0)};
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(path, error))
    if (entry.path().extension() == ".plan")
      old.insert(path + "/" + entry.path().filename().string());
  std::filesystem::remove(rankFile(path, 0), error);
  for (const std::string &file : old)
    std::filesystem::remove(file, error);
  if (sequential)
    TESSERA_RETURN_IF_ERROR(writePlan(sequentialFile(path), *sequential, id));
  for (size_t r = ranks.size(); r-- > 0;)
    TESSERA_RETURN_IF_ERROR(writePlan(rankFile(path, r), ranks[r], id));
  return Status();
}

} // namespace tessera::rt
