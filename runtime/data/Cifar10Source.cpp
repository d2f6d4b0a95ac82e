#include "runtime/data/Cifar10Source.h"

#include "runtime/data/Elements.h"
#include "runtime/data/Random.h"
#include "runtime/data/image/Images.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/File.h"

#include <algorithm>

namespace tessera::rt {
namespace {

constexpr int64_t kClasses = 10;
constexpr uint64_t kRecord = 1 + 3 * 32 * 32;

struct RecordFile {
  InputFile file;
  int64_t first; // number of its first record in the split
};

class Cifar10Producer : public BatchProducer {
public:
  Cifar10Producer(std::vector<RecordFile> files, int64_t samples, ImageTransform transform,
                  const ProducerContext &context, int64_t batches, uint64_t seed)
      : files_(std::move(files)), samples_(samples), transform_(std::move(transform)), requests_(context.requests),
        directory_(context.spec.paths[0]), batch_(context.batch), batches_(batches), seed_(seed),
        shuffle_(context.options.shuffle.value_or(context.options.train)),
        augment_(context.options.augment.value_or(context.options.train)) {}

  int64_t batchesPerEpoch() const override { return batches_; }
  Status produce(int64_t batch, const std::vector<void *> &buffers) override;
  std::string describe() const override {
    return "cifar10 " + directory_ + ": " + std::to_string(samples_) + " samples, 10 classes" +
           (shuffle_ ? ", shuffled" : "") + (augment_ ? ", augmented" : "");
  }

private:
  /// The first `bytes` of a sample's record: its label, which is checked, and its image.
  Status read(int64_t sample, uint8_t *record, uint64_t bytes) const;

  const std::vector<RecordFile> files_;
  const int64_t samples_;
  const ImageTransform transform_;
  const std::vector<BatchRequest> requests_; // the images, and maybe the labels
  const std::string directory_;
  const int64_t batch_, batches_;
  const uint64_t seed_;
  const bool shuffle_, augment_;
};

Status Cifar10Producer::read(int64_t sample, uint8_t *record, uint64_t bytes) const {
  auto file = std::upper_bound(files_.begin(), files_.end(), sample,
                               [](int64_t s, const RecordFile &f) { return s < f.first; });
  --file;
  const int64_t number = sample - file->first;
  TESSERA_RETURN_IF_ERROR(file->file.readAt(uint64_t(number) * kRecord, record, bytes));
  if (record[0] >= kClasses)
    return Status::error(file->file.path() + ": record " + std::to_string(number) + " has the label " +
                         std::to_string(record[0]) + "; CIFAR-10 has 0 to 9");
  return Status();
}

Status Cifar10Producer::produce(int64_t batch, const std::vector<void *> &buffers) {
  const int64_t epoch = batch / batches_, first = batch % batches_ * batch_;
  const Permutation order(samples_, hash(seed_, epoch));
  auto sampleAt = [&](int64_t position) { return shuffle_ ? order(position) : position; };
  std::vector<float> image(transform_.elements());
  uint8_t record[kRecord];
  const BatchRequest &images = requests_[0];
  for (int64_t n = 0; n < images.shape[0]; ++n) {
    const int64_t sample = sampleAt(first + images.offset[0] + n);
    TESSERA_RETURN_IF_ERROR(read(sample, record, kRecord));
    const Augmentation drawn = augment_ ? transform_.augmentation(hash(seed_, epoch, sample, 77)) : Augmentation{};
    transform_.fill(record + 1, drawn, image.data());
    storeFloats(image, images.dtype, buffers[0], n * transform_.elements());
  }
  for (size_t i = 1; i < requests_.size(); ++i)
    for (int64_t n = 0; n < requests_[i].shape[0]; ++n) {
      TESSERA_RETURN_IF_ERROR(read(sampleAt(first + requests_[i].offset[0] + n), record, 1));
      storeInteger(record[0], requests_[i].dtype, buffers[i], n);
    }
  return Status();
}

/// Checks that the data set can fill the inputs and the target.
Status checkRequests(const std::vector<BatchRequest> &requests) {
  if (requests[0].target || requests.size() > 2 || (requests.size() == 2 && !requests[1].target))
    return Status::error("cifar10 feeds models with one input, the image; this one has " +
                         std::to_string(requests.size() - requests.back().target));
  if (requests.size() == 2) {
    const BatchRequest &labels = requests[1];
    if (isFloatType(labels.dtype) || labels.dtype == plan::BOOL ||
        elementsOf(labels.globalShape) != labels.globalShape[0])
      return Status::error("cifar10's target is one class id per image; the program wants " + typeName(labels.dtype) +
                           " " + shapeText(labels.globalShape));
  }
  return Status();
}

} // namespace

Result<std::unique_ptr<BatchProducer>> openCifar10(const ProducerContext &context) {
  const Spec &spec = context.spec;
  TESSERA_RETURN_IF_ERROR(spec.knows({"crop", "flip", "mean", "std"}));
  if (spec.paths.size() != 1)
    return Status::error("data source '" + spec.text + "': write cifar10:DIR with the directory " +
                         "of data_batch_1.bin");
  TESSERA_RETURN_IF_ERROR(checkRequests(context.requests));

  ImageSettings settings;
  Result<int64_t> crop = spec.integer("crop", 4, 0, 31), flip = spec.integer("flip", 1, 0, 1);
  Result<int64_t> seed = spec.integer("seed", 0, 0, INT64_MAX);
  Result<std::vector<double>> mean = spec.numbers("mean", {0.4914, 0.4822, 0.4465});
  Result<std::vector<double>> std = spec.numbers("std", {0.2470, 0.2435, 0.2616});
  for (const Status &status : {crop.status(), flip.status(), seed.status(), mean.status(), std.status()})
    TESSERA_RETURN_IF_ERROR(status);
  settings.padding = *crop;
  settings.flip = *flip != 0;
  settings.mean = *mean;
  settings.std = *std;
  if (std::any_of(settings.std.begin(), settings.std.end(), [](double s) { return s <= 0; }))
    return Status::error("data source '" + spec.text + "': std must be positive");
  Result<ImageTransform> transform = ImageTransform::create({3, 32, 32}, context.requests[0], settings);
  if (!transform)
    return transform.status();

  std::string directory = spec.paths[0];
  if (fileExists(directory + "/cifar-10-batches-bin"))
    directory += "/cifar-10-batches-bin";
  std::vector<std::string> names = {"test_batch.bin"};
  if (context.options.train) {
    names.clear();
    for (int i = 1; i <= 5; ++i)
      names.push_back("data_batch_" + std::to_string(i) + ".bin");
  }
  std::vector<RecordFile> files;
  int64_t samples = 0;
  for (const std::string &name : names) {
    const std::string path = directory + "/" + name;
    Result<InputFile> file = InputFile::open(path);
    if (!file)
      return file.status();
    const uint64_t size = file->size();
    if (size == 0 || size % kRecord != 0)
      return Status::error(path + ": has " + std::to_string(size) + " bytes, not a multiple of the " +
                           std::to_string(kRecord) +
                           " bytes of a CIFAR-10 record; it is truncated or no CIFAR-10 file");
    files.push_back({std::move(*file), samples});
    samples += int64_t(size / kRecord);
  }
  Result<int64_t> batches = fullBatches(directory + ": the split", samples, context.batch);
  if (!batches)
    return batches.status();
  return std::unique_ptr<BatchProducer>(
      std::make_unique<Cifar10Producer>(std::move(files), samples, std::move(*transform), context, *batches,
                                        spec.options.count("seed") ? uint64_t(*seed) : context.options.seed));
}

} // namespace tessera::rt
