#include "runtime/data/SyntheticSource.h"

#include "runtime/data/Elements.h"
#include "runtime/data/Random.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::rt {
namespace {

constexpr int kWaves = 4;
constexpr int64_t kMostPeriods = 3;
constexpr double kTwoPi = 6.283185307179586;
/// Samples of the evaluation split are numbered from here.
constexpr int64_t kEvaluation = int64_t{1} << 40;

// The first word of a hash after the seed; it says what the hash is for.
enum Stream : uint64_t { kClass, kShape, kSample, kNoise, kToken, kChain };

struct Settings {
  int64_t classes, samples, evalSamples, vocab;
  double noise;
  uint64_t seed;
};

double between(uint64_t bits, double low, double high) { return low + (high - low) * unitInterval(bits); }

/// Computes boxes of a float tensor: a class pattern, moved and scaled per sample, plus noise.
class PatternMaker {
public:
  PatternMaker(const Settings &settings, const BatchRequest &request, uint64_t stream)
      : settings_(settings), request_(request), stream_(stream) {
    const std::vector<int64_t> &whole = request_.globalShape;
    if (whole.size() > 2)
      lastCos_.resize(request_.shape.back()), lastSin_.resize(request_.shape.back());
  }

  /// The box of sample `sample`, of class `cls`, packed.
  void fill(int64_t sample, int64_t cls, float *out);
  int64_t elements() const {
    return std::accumulate(request_.shape.begin() + 1, request_.shape.end(), int64_t{1}, std::multiplies<>());
  }

private:
  /// One term of a pattern, with the sample's shift in its phase.
  struct Wave {
    std::vector<int64_t> periods; // per dimension from 2 on
    double phase;
    std::vector<float> weight; // per channel of the box
  };
  std::vector<Wave> waves(int64_t sample, int64_t cls, double gain) const;
  void addNoise(int64_t sample, float *out) const;

  const Settings settings_;
  const BatchRequest request_;
  const uint64_t stream_;
  std::vector<float> lastCos_, lastSin_;
};

std::vector<PatternMaker::Wave> PatternMaker::waves(int64_t sample, int64_t cls, double gain) const {
  const size_t rank = request_.globalShape.size();
  std::vector<Wave> waves(kWaves);
  const double scale = gain * std::sqrt(6.0 / kWaves); // variance 1: a weight has 1/3, a wave 1/2
  for (int k = 0; k < kWaves; ++k) {
    const uint64_t key = hash(settings_.seed, kShape, stream_, cls, k);
    Wave &wave = waves[k];
    wave.phase = kTwoPi * unitInterval(hash(key, 0));
    for (size_t d = 2; d < rank; ++d) {
      int64_t periods = below(hash(key, 1, d), 2 * kMostPeriods + 1) - kMostPeriods;
      if (d + 1 == rank && periods == 0) // no constant patterns
        periods = 1;
      wave.periods.push_back(periods);
      const double shift = between(hash(settings_.seed, kSample, stream_, sample, d), -1, 1) / 16;
      wave.phase += kTwoPi * double(periods) * shift;
    }
    for (int64_t c = request_.offset[1]; c < request_.offset[1] + request_.shape[1]; ++c)
      wave.weight.push_back(float(scale * between(hash(key, 2, c), -1, 1)));
  }
  return waves;
}

void PatternMaker::fill(int64_t sample, int64_t cls, float *out) {
  const std::vector<int64_t> &whole = request_.globalShape, &box = request_.shape;
  const size_t rank = whole.size();
  const bool noisy = !request_.target;
  const double gain = noisy ? between(hash(settings_.seed, kSample, stream_, sample, 0), 0.8, 1.2) : 1.0;
  if (rank <= 2) {
    // Independent features: uniform with variance 1.
    const int64_t first = rank == 2 ? request_.offset[1] : 0;
    for (int64_t f = 0; f < elements(); ++f)
      out[f] = float(gain * 1.7320508 * between(hash(settings_.seed, kShape, stream_, cls, first + f), -1, 1));
  } else {
    std::fill_n(out, elements(), 0.0f);
    const int64_t width = box.back(), channels = box[1];
    const int64_t rows = elements() / (width * channels); // of one channel in the box
    for (const Wave &wave : waves(noisy ? sample : 0, cls, gain)) {
      auto angle = [&](size_t d, int64_t at) { // of coordinate `at` of dimension d
        return kTwoPi * double(wave.periods[d - 2]) * (double(at) + 0.5) / double(whole[d]);
      };
      for (int64_t x = 0; x < width; ++x) {
        const double a = angle(rank - 1, request_.offset[rank - 1] + x);
        lastCos_[x] = float(std::cos(a));
        lastSin_[x] = float(std::sin(a));
      }
      for (int64_t row = 0; row < rows; ++row) {
        double a = wave.phase;
        int64_t rest = row;
        for (size_t d = rank - 2; d >= 2; --d) {
          a += angle(d, request_.offset[d] + rest % box[d]);
          rest /= box[d];
        }
        // cos(a + b) = cos a cos b - sin a sin b: no transcendental function per element.
        const auto cosine = float(std::cos(a)), sine = float(std::sin(a));
        for (int64_t c = 0; c < channels; ++c) {
          float *line = out + (c * rows + row) * width;
          const float wc = wave.weight[c] * cosine, ws = wave.weight[c] * sine;
          for (int64_t x = 0; x < width; ++x)
            line[x] += wc * lastCos_[x] - ws * lastSin_[x];
        }
      }
    }
  }
  if (noisy && settings_.noise > 0)
    addNoise(sample, out);
}

void PatternMaker::addNoise(int64_t sample, float *out) const {
  const uint64_t key = hash(settings_.seed, kNoise, stream_, sample);
  const auto amount = float(settings_.noise);
  // The box and the sample without the batch dimension. An element's random number belongs to its
  // place in the whole sample.
  const std::vector<int64_t> whole(request_.globalShape.begin() + 1, request_.globalShape.end());
  const std::vector<int64_t> offset(request_.offset.begin() + 1, request_.offset.end());
  const std::vector<int64_t> shape(request_.shape.begin() + 1, request_.shape.end());
  (void)forEachRun(whole, offset, shape, [&](int64_t at, int64_t count) { // cannot fail
    for (int64_t i = 0; i < count; ++i)
      *out++ += amount * nearlyNormal(scramble(key ^ uint64_t(at + i)));
    return Status();
  });
}

class SyntheticProducer : public BatchProducer {
public:
  SyntheticProducer(const Settings &settings, const ProducerContext &context, int64_t samples, int64_t batches,
                    bool nextToken)
      : settings_(settings), requests_(context.requests), batch_(context.batch), samples_(samples), batches_(batches),
        shuffleSeed_(context.options.seed), shuffle_(context.options.shuffle.value_or(context.options.train)),
        train_(context.options.train), nextToken_(nextToken) {
    // The chain of tokens: multiplication by a number coprime to the vocabulary permutes it.
    multiplier_ = 1 + below(hash(settings_.seed, kChain, 0), settings_.vocab);
    while (std::gcd(multiplier_, settings_.vocab) != 1)
      ++multiplier_;
    increment_ = below(hash(settings_.seed, kChain, 1), settings_.vocab);
    for (size_t i = 0; i < requests_.size(); ++i)
      patterns_.emplace_back(settings_, requests_[i], i);
  }

  int64_t batchesPerEpoch() const override { return batches_; }
  Status produce(int64_t batch, const std::vector<void *> &buffers) override;
  std::string describe() const override {
    return "synthetic: " + std::to_string(samples_) + " samples, " + std::to_string(settings_.classes) + " classes" +
           (shuffle_ ? ", shuffled" : "");
  }

private:
  void fillTokens(const BatchRequest &request, uint64_t stream, int64_t sample, int64_t cls, void *buffer,
                  int64_t at) const;
  /// Token t + `ahead` of a sequence whose draws come from `key`.
  void chain(uint64_t key, int64_t ahead, int64_t from, int64_t count, plan::DType dtype, void *buffer,
             int64_t at) const;

  const Settings settings_;
  const std::vector<BatchRequest> requests_;
  const int64_t batch_, samples_, batches_;
  const uint64_t shuffleSeed_;
  const bool shuffle_, train_, nextToken_;
  int64_t multiplier_, increment_;
  std::vector<PatternMaker> patterns_;
};

void SyntheticProducer::chain(uint64_t key, int64_t ahead, int64_t from, int64_t count, plan::DType dtype, void *buffer,
                              int64_t at) const {
  int64_t token = 0;
  for (int64_t t = 0; t < from + ahead + count; ++t) {
    const bool jump = t == 0 || unitInterval(hash(key, t, 0)) < settings_.noise;
    token = jump ? below(hash(key, t, 1), settings_.vocab) : (token * multiplier_ + increment_) % settings_.vocab;
    if (t >= from + ahead)
      storeInteger(token, dtype, buffer, at++);
  }
}

void SyntheticProducer::fillTokens(const BatchRequest &request, uint64_t stream, int64_t sample, int64_t cls,
                                   void *buffer, int64_t at) const {
  // Every line along the last dimension is a sequence with random draws of its own.
  std::vector<int64_t> whole(request.globalShape.begin() + 1, request.globalShape.end());
  std::vector<int64_t> offset(request.offset.begin() + 1, request.offset.end());
  std::vector<int64_t> shape(request.shape.begin() + 1, request.shape.end());
  if (whole.empty())
    whole = shape = {1}, offset = {0};
  const int64_t from = offset.back(), count = shape.back();
  whole.back() = shape.back() = 1;
  offset.back() = 0;
  const int64_t share = std::max<int64_t>(settings_.vocab / settings_.classes, 1);
  (void)forEachRun(whole, offset, shape, [&](int64_t first, int64_t lines) { // cannot fail
    for (int64_t line = first; line < first + lines; ++line, at += count) {
      const uint64_t key = hash(settings_.seed, kToken, stream, sample, line);
      if (nextToken_) {
        chain(key, request.target, from, count, request.dtype, buffer, at);
        continue;
      }
      for (int64_t t = 0; t < count; ++t) {
        const uint64_t bits = hash(key, from + t);
        const int64_t token = unitInterval(hash(key, from + t, 1)) < 0.6
                                  ? (cls * share + below(bits, share)) % settings_.vocab
                                  : below(bits, settings_.vocab);
        storeInteger(token, request.dtype, buffer, at + t);
      }
    }
    return Status();
  });
}

Status SyntheticProducer::produce(int64_t batch, const std::vector<void *> &buffers) {
  const int64_t epoch = batch / batches_, first = batch % batches_ * batch_;
  const Permutation order(samples_, hash(shuffleSeed_, epoch));
  std::vector<float> scratch;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const BatchRequest &request = requests_[i];
    const int64_t elements = patterns_[i].elements();
    for (int64_t n = 0; n < request.shape[0]; ++n) {
      const int64_t position = first + request.offset[0] + n;
      const int64_t sample = (shuffle_ ? order(position) : position) + (train_ ? 0 : kEvaluation);
      const int64_t cls = below(hash(settings_.seed, kClass, sample), settings_.classes);
      const int64_t at = n * elements;
      if (isFloatType(request.dtype)) {
        scratch.resize(elements);
        patterns_[i].fill(sample, cls, scratch.data());
        storeFloats(scratch, request.dtype, buffers[i], at);
      } else if (request.target ? !nextToken_ : request.dtype == plan::BOOL) {
        for (int64_t e = 0; e < elements; ++e)
          storeInteger(request.target ? cls : 1, request.dtype, buffers[i], at + e);
      } else {
        fillTokens(request, request.target ? 0 : i, sample, cls, buffers[i], at);
      }
    }
  }
  return Status();
}

bool isTokens(const BatchRequest &request) { return !isFloatType(request.dtype) && request.dtype != plan::BOOL; }

/// Checks that values up to `most` fit the request's dtype.
Status checkRange(const Spec &spec, const BatchRequest &request, int64_t most) {
  const int64_t limit = request.dtype == plan::I8     ? 127
                        : request.dtype == plan::U8   ? 255
                        : request.dtype == plan::BOOL ? 1
                                                      : INT32_MAX;
  if (isFloatType(request.dtype) || most <= limit)
    return Status();
  return Status::error("data source '" + spec.text + "': ids up to " + std::to_string(most) +
                       " do not fit the model's " + typeName(request.dtype) + " tensor");
}

} // namespace

Result<std::unique_ptr<BatchProducer>> openSynthetic(const ProducerContext &context) {
  const Spec &spec = context.spec;
  TESSERA_RETURN_IF_ERROR(spec.knows({"classes", "samples", "eval_samples", "noise", "vocab"}));
  if (!spec.paths.empty())
    return Status::error("data source '" + spec.text + "': synthetic reads no file; '" + spec.paths[0] +
                         "' is not NAME=VALUE");
  Result<int64_t> classes = spec.integer("classes", 10, 1, 1 << 20);
  Result<int64_t> samples = spec.integer("samples", 50000, 1, int64_t{1} << 39);
  Result<int64_t> evalSamples = spec.integer("eval_samples", 10000, 1, int64_t{1} << 39);
  Result<int64_t> vocab = spec.integer("vocab", 256, 1, 1 << 24);
  Result<int64_t> seed = spec.integer("seed", 1, 0, INT64_MAX);
  Result<double> noise = spec.number("noise", 0.3, 0, 100);
  for (const Status &status :
       {classes.status(), samples.status(), evalSamples.status(), vocab.status(), seed.status(), noise.status()})
    TESSERA_RETURN_IF_ERROR(status);

  const std::vector<BatchRequest> &requests = context.requests;
  const BatchRequest &last = requests.back();
  // Language modelling: the target is as long as the tokens.
  const bool nextToken = last.target && isTokens(last) && last.globalShape.size() > 1 && isTokens(requests[0]) &&
                         !requests[0].target && requests[0].globalShape == last.globalShape;
  for (const BatchRequest &request : requests)
    if (request.target ? !nextToken : isTokens(request))
      TESSERA_RETURN_IF_ERROR(checkRange(spec, request, (request.target ? *classes : *vocab) - 1));

  const Settings settings{*classes, *samples, *evalSamples, *vocab, *noise, uint64_t(*seed)};
  const int64_t used = context.options.train ? *samples : *evalSamples;
  Result<int64_t> batches = fullBatches("data source '" + spec.text + "'", used, context.batch);
  if (!batches)
    return batches.status();
  return std::unique_ptr<BatchProducer>(
      std::make_unique<SyntheticProducer>(settings, context, used, *batches, nextToken));
}

} // namespace tessera::rt
