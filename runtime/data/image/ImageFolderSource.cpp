#include "runtime/data/image/ImageFolderSource.h"

#include "runtime/data/Elements.h"
#include "runtime/data/Random.h"
#include "runtime/data/WorkerPool.h"
#include "runtime/data/image/ImageTree.h"
#include "runtime/data/image/Resample.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tessera::rt {
namespace {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 28;
constexpr double kLogAspect = 0.28768207245178085; // log(4/3)

struct Settings {
  int64_t resize = 0;
  double minArea = 0.08;
  bool flip = true, reduce = true, skip = false;
  std::vector<double> mean, std;
  int threads = 1;
  uint64_t seed = 0;
};

/// The part of an image that becomes the input, the part that the filter may read, and whether the
/// result is mirrored.
struct View {
  CropBox box;
  PixelBox seen;
  bool flip = false;
};

/// Draws like torchvision's RandomResizedCrop: up to ten tries, then the middle of the image.
View randomView(int64_t width, int64_t height, const Settings &settings, uint64_t bits) {
  const auto w = double(width), h = double(height);
  View view;
  view.flip = settings.flip && (hash(bits, 1) & 1);
  auto crop = [&](int64_t left, int64_t top, int64_t across, int64_t down) {
    view.seen = {left, top, across, down};
    view.box = {double(left), double(top), double(across), double(down)};
    return view;
  };
  for (uint64_t round = 0; round < 10; ++round) {
    const uint64_t key = hash(bits, 2, round);
    const double area = w * h * (settings.minArea + (1 - settings.minArea) * unitInterval(hash(key, 0)));
    const double aspect = std::exp(kLogAspect * (2 * unitInterval(hash(key, 1)) - 1));
    const int64_t across = std::llround(std::sqrt(area * aspect));
    const int64_t down = std::llround(std::sqrt(area / aspect));
    if (across > 0 && across <= width && down > 0 && down <= height)
      return crop(below(hash(key, 2), width - across + 1), below(hash(key, 3), height - down + 1), across, down);
  }
  int64_t across = width, down = height;
  if (w / h < 0.75)
    down = std::min<int64_t>(height, std::llround(w / 0.75));
  else if (w / h > 4.0 / 3)
    across = std::min<int64_t>(width, std::llround(h * 4 / 3));
  return crop((width - across) / 2, (height - down) / 2, across, down);
}

/// The middle of the image resized to a shorter side.
View middleView(int64_t width, int64_t height, int64_t wantedWidth, int64_t wantedHeight, int64_t resize) {
  const auto w = double(width), h = double(height);
  // The part of the resized image that has the aspect of the model's input: resize x resize if that
  // is square.
  const auto shorter = double(std::min(wantedWidth, wantedHeight));
  const double across = double(wantedWidth) * double(resize) / shorter;
  const double down = double(wantedHeight) * double(resize) / shorter;
  const double scale = std::max(across / w, down / h);
  auto side = [&](double stored, int64_t least) {
    // A tiny amount is added, since the exact product of the side that decides may be rounded down.
    return std::max(std::floor(stored * scale + 1e-6), double(least));
  };
  const double newWidth = side(w, wantedWidth), newHeight = side(h, wantedHeight);
  const double stepX = w / newWidth, stepY = h / newHeight;
  const double left = std::nearbyint((newWidth - double(wantedWidth)) / 2);
  const double top = std::nearbyint((newHeight - double(wantedHeight)) / 2);
  View view;
  view.box = {left * stepX, top * stepY, double(wantedWidth) * stepX, double(wantedHeight) * stepY};
  // The filter reads up to one step beyond the box.
  auto reach = [](double start, double extent, double step, int64_t present, int64_t &from, int64_t &count) {
    const double margin = std::max(step, 1.0) + 1;
    from = std::clamp<int64_t>(int64_t(start - margin), 0, present - 1);
    count = std::clamp<int64_t>(int64_t(start + extent + margin) + 1, from + 1, present) - from;
  };
  reach(view.box.left, view.box.width, stepX, width, view.seen.left, view.seen.width);
  reach(view.box.top, view.box.height, stepY, height, view.seen.top, view.seen.height);
  return view;
}

class ImageFolderProducer : public BatchProducer {
public:
  ImageFolderProducer(ImageTree tree, const Settings &settings, const ProducerContext &context, int64_t batches)
      : tree_(std::move(tree)), settings_(settings), requests_(context.requests), batch_(context.batch),
        batches_(batches), shuffle_(context.options.shuffle.value_or(context.options.train)),
        augment_(context.options.augment.value_or(context.options.train)), pool_(settings.threads) {
    const BatchRequest &r = requests_[0];
    auto inner = [](const std::vector<int64_t> &v) { return std::vector<int64_t>(v.begin() + 1, v.end()); };
    for (int i = 0; i < pool_.size(); ++i)
      workers_.push_back(std::make_unique<Worker>(Worker{
          Resampler(inner(r.globalShape), inner(r.offset), inner(r.shape), settings.mean, settings.std), {}, {}}));
  }

  int64_t batchesPerEpoch() const override { return batches_; }
  Status produce(int64_t batch, const std::vector<void *> &buffers) override;
  std::string describe() const override {
    return "imagefolder " + tree_.root + ": " + std::to_string(tree_.paths.size()) + " images, " +
           std::to_string(tree_.classes.size()) + " classes" + (shuffle_ ? ", shuffled" : "") +
           (augment_ ? ", augmented" : "") + ", " + std::to_string(pool_.size()) +
           (pool_.size() == 1 ? " thread" : " threads");
  }
  std::vector<std::string> takeNotices() override {
    std::lock_guard lock(mutex_);
    return std::exchange(notices_, {});
  }

private:
  struct Worker {
    Resampler resampler;
    Pixels pixels;
    std::vector<float> floats;
  };
  /// Writes the image of a sample, or its replacement, as row n of the batch.
  Status fill(Worker &worker, int64_t epoch, int64_t sample, void *buffer, int64_t n);
  Status load(Worker &worker, const std::string &path, uint64_t bits);
  void tell(int64_t image, const std::string &text);

  const ImageTree tree_;
  const Settings settings_;
  const std::vector<BatchRequest> requests_; // the images, and maybe the labels
  const int64_t batch_, batches_;
  const bool shuffle_, augment_;
  WorkerPool pool_;
  std::vector<std::unique_ptr<Worker>> workers_;

  std::mutex mutex_;
  std::set<int64_t> bad_; // images that were reported
  std::vector<std::string> notices_;
};

Status ImageFolderProducer::load(Worker &worker, const std::string &path, uint64_t bits) {
  Result<std::string> bytes = readFile(path, kMostFileBytes);
  if (!bytes)
    return bytes.status();
  ImageDecoder decoder(bytes->data(), bytes->size());
  if (Status status = decoder.readHeader(); !status)
    return Status::error(path + ": " + status.message());
  const int64_t height = requests_[0].globalShape[2], width = requests_[0].globalShape[3];
  View view = augment_ ? randomView(decoder.width(), decoder.height(), settings_, bits)
                       : middleView(decoder.width(), decoder.height(), width, height, settings_.resize);
  int reduction = settings_.reduce ? decoder.mostReduction() : 1;
  while (reduction > 1 && (view.box.width < double(width * reduction) || view.box.height < double(height * reduction)))
    reduction /= 2;
  if (Status status = decoder.decode(view.seen, reduction, worker.pixels); !status)
    return Status::error(path + ": " + status.message());
  for (double *value : {&view.box.left, &view.box.top, &view.box.width, &view.box.height})
    *value /= reduction;
  auto reduce = [&](int64_t &from, int64_t &count) {
    const int64_t end = (from + count + reduction - 1) / reduction;
    from /= reduction;
    count = end - from;
  };
  reduce(view.seen.left, view.seen.width);
  reduce(view.seen.top, view.seen.height);
  worker.resampler.fill(worker.pixels, view.box, view.seen, view.flip, worker.floats.data());
  return Status();
}

void ImageFolderProducer::tell(int64_t image, const std::string &text) {
  std::lock_guard lock(mutex_);
  if (bad_.insert(image).second)
    notices_.push_back(text + "; another image of its class stands in for it");
}

Status ImageFolderProducer::fill(Worker &worker, int64_t epoch, int64_t sample, void *buffer, int64_t n) {
  const ImageTree::Class &cls = tree_.classes[size_t(tree_.labelOf(sample))];
  const int64_t elements = worker.resampler.elements();
  worker.floats.resize(size_t(elements));
  for (int64_t tried = 0; tried < cls.count; ++tried) {
    const int64_t image = cls.first + (sample - cls.first + tried) % cls.count;
    const std::string path = tree_.root + "/" + tree_.paths[size_t(image)];
    Status status = load(worker, path, hash(settings_.seed, epoch, sample, 77));
    if (status.ok()) {
      storeFloats(worker.floats, requests_[0].dtype, buffer, n * elements);
      return status;
    }
    if (!settings_.skip)
      return Status::error(status.message() + "; mend or remove it, or give on_error=skip");
    tell(image, status.message());
  }
  return Status::error(tree_.root + "/" + cls.name + ": none of the class's " + std::to_string(cls.count) +
                       " images can be decoded");
}

Status ImageFolderProducer::produce(int64_t batch, const std::vector<void *> &buffers) {
  const int64_t epoch = batch / batches_, first = batch % batches_ * batch_;
  const Permutation order(int64_t(tree_.paths.size()), hash(settings_.seed, epoch));
  auto sampleAt = [&](int64_t position) { return shuffle_ ? order(position) : position; };
  std::vector<Status> outcomes(size_t(requests_[0].shape[0]));
  pool_.run(requests_[0].shape[0], [&](int worker, int64_t n) {
    outcomes[size_t(n)] =
        fill(*workers_[size_t(worker)], epoch, sampleAt(first + requests_[0].offset[0] + n), buffers[0], n);
  });
  for (const Status &status : outcomes) // the first in the batch's order, whichever thread was first
    TESSERA_RETURN_IF_ERROR(status);
  for (size_t i = 1; i < requests_.size(); ++i)
    for (int64_t n = 0; n < requests_[i].shape[0]; ++n)
      storeInteger(tree_.labelOf(sampleAt(first + requests_[i].offset[0] + n)), requests_[i].dtype, buffers[i], n);
  return Status();
}

Status checkRequests(const std::vector<BatchRequest> &requests) {
  if (requests[0].target || requests.size() > 2 || (requests.size() == 2 && !requests[1].target))
    return Status::error("imagefolder feeds models with one input, the image; this one has " +
                         std::to_string(requests.size() - requests.back().target));
  const BatchRequest &image = requests[0];
  if (image.globalShape.size() != 4 || image.globalShape[1] != 3 || !isFloatType(image.dtype))
    return Status::error("the model's input is " + typeName(image.dtype) + " " + shapeText(image.globalShape) +
                         ", but images need a float input [batch, 3, height, width]");
  if (requests.size() == 2) {
    const BatchRequest &labels = requests[1];
    if (isFloatType(labels.dtype) || labels.dtype == plan::BOOL ||
        elementsOf(labels.globalShape) != labels.globalShape[0])
      return Status::error("imagefolder's target is one class id per image; the program wants " +
                           typeName(labels.dtype) + " " + shapeText(labels.globalShape));
  }
  return Status();
}

Result<Settings> readSettings(const ProducerContext &context) {
  const Spec &spec = context.spec;
  const int64_t shorter = std::min(context.requests[0].globalShape[2], context.requests[0].globalShape[3]);
  Result<int64_t> resize = spec.integer("resize", (shorter * 256 + 112) / 224, shorter, ImageDecoder::kMostSide);
  Result<int64_t> flip = spec.integer("flip", 1, 0, 1), reduce = spec.integer("reduce", 1, 0, 1);
  Result<int64_t> seed = spec.integer("seed", 0, 0, INT64_MAX);
  Result<int64_t> threads = spec.integer("threads", context.options.threads, 1, 256);
  Result<double> minArea = spec.number("min_area", 0.08, 1e-6, 1);
  Result<std::vector<double>> mean = spec.numbers("mean", {0.485, 0.456, 0.406});
  Result<std::vector<double>> std = spec.numbers("std", {0.229, 0.224, 0.225});
  for (const Status &status : {resize.status(), flip.status(), reduce.status(), seed.status(), threads.status(),
                               minArea.status(), mean.status(), std.status()})
    TESSERA_RETURN_IF_ERROR(status);
  if (std::any_of(std->begin(), std->end(), [](double s) { return s <= 0; }))
    return Status::error("data source '" + spec.text + "': std must be positive");
  const auto onError = spec.options.find("on_error");
  const bool given = onError != spec.options.end();
  if (given && onError->second != "skip" && onError->second != "fail")
    return Status::error("data source '" + spec.text + "': on_error is skip or fail, not '" + onError->second + "'");
  return Settings{*resize,
                  *minArea,
                  *flip != 0,
                  *reduce != 0,
                  given && onError->second == "skip",
                  *mean,
                  *std,
                  int(*threads),
                  spec.options.count("seed") ? uint64_t(*seed) : context.options.seed};
}

} // namespace

Result<std::unique_ptr<BatchProducer>> openImageFolder(const ProducerContext &context) {
  const Spec &spec = context.spec;
  TESSERA_RETURN_IF_ERROR(spec.knows({"resize", "min_area", "flip", "mean", "std", "reduce", "on_error", "threads"}));
  if (spec.paths.size() != 1)
    return Status::error("data source '" + spec.text +
                         "': write imagefolder:DIR with the directory of the classes' folders");
  TESSERA_RETURN_IF_ERROR(checkRequests(context.requests));
  Result<Settings> settings = readSettings(context);
  if (!settings)
    return settings.status();
  std::string root = spec.paths[0];
  if (fileExists(root + "/train") && fileExists(root + "/val"))
    root += context.options.train ? "/train" : "/val";
  Result<ImageTree> tree = ImageTree::scan(root);
  if (!tree)
    return tree.status();
  Result<int64_t> batches = fullBatches(root + ":", int64_t(tree->paths.size()), context.batch);
  if (!batches)
    return batches.status();
  return std::unique_ptr<BatchProducer>(
      std::make_unique<ImageFolderProducer>(std::move(*tree), *settings, context, *batches));
}

} // namespace tessera::rt
