#include "backend/cpu/sampling/sample_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "backend/cpu/sampling/select.h"
#include "ops/rejection_rules.h"
#include "ops/sampling_rules.h"

namespace sluice::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();  // of finite values
constexpr int64_t kBlock = 512;                                  // ids whose weights are summed
constexpr int64_t kBlocksMax = 512;

class RowSampler {
 public:
  RowSampler(const SamplingKernels& kernels, const ops::Sample::Desc& desc,
             const ops::Sample::Args& args, int64_t row, std::span<float> workspace)
      : kernels_(kernels),
        desc_(desc),
        args_(args),
        params_(ops::RowsOf(args)[row]),
        output_(ops::OutputsOf(args)[row]),
        row_(row),
        vocab_(desc.vocab),
        raw_(args.logits.ptr<float>() + row * args.logits.strides[0]),
        processed_(workspace.data()),
        list_(workspace.data() + desc.vocab) {}

  void Run() {
    const LogitScan scan = Scan(raw_);
    if (scan.bad || !HasSignal(raw_, vocab_, scan.max)) {
      return ops::ReportDegenerate(desc_, args_, row_, ArgMax(raw_, scan.max));
    }
    raw_max_ = scan.max;
    output_ = {};
    if (params_.draw) {
      DrawToken();
    } else {
      output_.token = params_.target;
    }
    const bool raw = params_.distribution_row >= 0 && !WantsFiltered();
    if (params_.top_logprobs < 0 && !raw) return;
    if (!(raw_total_ > 0)) raw_total_ = kernels_.total(All(raw_, raw_max_, 1.0f));
    const double log_total = std::log(raw_total_);
    if (params_.top_logprobs >= 0) ReportLogprobs(log_total);
    if (raw) {
      float* const out = Distribution();
      for (int64_t i = 0; i < vocab_; ++i)
        out[i] = ops::LogProb(raw_[i], raw_max_, 1.0f, log_total);
    }
  }

 private:
  bool WantsFiltered() const {
    return params_.draw && params_.filtered && params_.distribution_row >= 0;
  }
  float* Distribution() const {
    return args_.distributions.ptr<float>() +
           params_.distribution_row * args_.distributions.strides[0];
  }

  // The chunks' maxima are then in list_.
  LogitScan Scan(const float* logits) { return kernels_.scan(logits, vocab_, list_); }

  // REQUIRES: Scan of the same logits was the last to write list_.
  int32_t ArgMax(const float* logits, float max) const {
    const int64_t chunks = (vocab_ + kSamplingChunk - 1) / kSamplingChunk;
    const int64_t chunk = kernels_.after_equal(list_, chunks, max, 1) - 1;
    const int64_t begin = std::max<int64_t>(chunk, 0) * kSamplingChunk;
    const int64_t size = std::min(kSamplingChunk, vocab_ - begin);
    const int64_t after = kernels_.after_equal(logits + begin, size, max, 1);
    if (after > 0) return static_cast<int32_t>(begin + after - 1);
    // The chunk holds NaN alone.
    return static_cast<int32_t>(
        std::max<int64_t>(kernels_.after_equal(logits, vocab_, max, 1) - 1, 0));
  }

  // Whether some of the logits, of which `max` is the largest, is neither 0 nor -inf.
  bool HasSignal(const float* logits, int64_t n, float max) const {
    if (max != 0.0f) return max != -kInf;
    return kernels_.count_at_least(logits, n, kLowest) > kernels_.count_at_least(logits, n, 0.0f);
  }

  WeightCall All(const float* logits, float max, float divisor) const {
    return AllOf(logits, vocab_, max, divisor);
  }
  static WeightCall AllOf(const float* logits, int64_t n, float max, float divisor) {
    return {.logits = logits,
            .n = n,
            .max = max,
            .scale = ops::WeightScale(divisor),
            .floor = ops::kWeightFloor,
            .grid = ops::WeightGrid(n),
            .cut = -kInf,
            .ties_end = n};
  }

  // Applies edits, penalties and mask; returns the logits to draw from.
  const float* Process() {
    const bool edited = params_.edit_count > 0 || params_.counts_row >= 0;
    if (!edited && params_.mask_row < 0) return raw_;
    const float* logits = raw_;
    if (edited) {
      std::memcpy(processed_, raw_, vocab_ * sizeof(float));
      ops::EditLogits(desc_, args_, row_, processed_);
      logits = processed_;
    }
    if (params_.mask_row >= 0) CopyAllowed(logits);
    return processed_;
  }

  // To processed_, from there, too: -inf where the mask says so. REQUIRES: there is one.
  void CopyAllowed(const float* logits) {
    const auto* const words = reinterpret_cast<const uint32_t*>(
        args_.masks.ptr<int32_t>() + params_.mask_row * args_.masks.strides[0]);
    kernels_.copy_allowed(logits, words, vocab_, processed_);
  }

  void DrawToken() {
    // What no draw is left to fill in: all lies on one id, or nothing may be drawn.
    if (WantsFiltered()) std::fill_n(Distribution(), vocab_, ops::kZeroProbability);
    const float* logits = Process();
    const float max = logits == raw_ ? raw_max_ : Scan(logits).max;
    if (std::isinf(max)) {
      output_.token = ArgMax(raw_, Scan(raw_).max);
      output_.degenerate = true;
      return;
    }
    const float divisor = ops::LogitDivisor(params_);
    const bool greedy = params_.greedy();
    double total = 0;  // of all weights; 0 until it is known
    output_.token = greedy ? ArgMax(logits, max) : Draw(All(logits, max, divisor), &total);
    if (greedy && WantsFiltered()) Distribution()[output_.token] = 0.0f;
    if (params_.top_logprobs < 0) return;
    if (!(total > 0)) total = kernels_.total(All(logits, max, divisor));
    output_.processed_logprob = ops::LogProb(logits[output_.token], max, divisor, std::log(total));
    if (logits == raw_ && divisor == 1.0f) raw_total_ = total;
  }

  // Adds the cut of top-k and top-p and the floor of min-p to `call`, which keeps everything, and
  // draws. Sets *total to the sum of all weights when that is known.
  int32_t Draw(WeightCall call, double* total) {
    const bool limited = ops::LimitsTopK(params_, vocab_);
    if (limited) {
      const Cut cut = TopK(call.logits, params_.top_k);
      call.cut = cut.value;
      call.ties_end = kernels_.after_equal(call.logits, vocab_, cut.value, cut.ties);
    }
    if (ops::LimitsTopP(params_)) {
      const double sum = kernels_.total(call);
      if (!limited) *total = sum;
      const Cut cut = Nucleus(call, sum, limited ? params_.top_k : vocab_);
      call.cut = cut.value;
      call.ties_end = kernels_.after_equal(call.logits, vocab_, cut.value, cut.ties);
    }
    call.floor = ops::FloorOf(params_);
    double kept = 0;
    const int32_t token =
        ops::Rejects(params_, vocab_) ? DrawRejecting(call, &kept) : DrawKept(call, &kept);
    if (WantsFiltered()) ReportFiltered(call, kept);
    if (!limited && !ops::LimitsByShare(params_)) *total = kept;
    return token;
  }

  // The log-probs of what `call` keeps, whose weights sum to `total`.
  void ReportFiltered(const WeightCall& call, double total) {
    const double log_total = std::log(total);
    const float divisor = ops::LogitDivisor(params_);
    double weights[kBlock];
    for (int64_t begin = 0; begin < vocab_; begin += kBlock) {
      const WeightCall part = Part(call, begin, kBlock);
      kernels_.weights(part, weights);
      for (int64_t i = 0; i < part.n; ++i) {
        if (!(weights[i] > 0)) continue;
        Distribution()[begin + i] = ops::LogProb(part.logits[i], call.max, divisor, log_total);
      }
    }
  }

  // The k largest values, -inf among them. REQUIRES: Scan of the same logits was the last to write
  // list_; 0 < k <= vocab.
  Cut TopK(const float* logits, int64_t k) {
    // As many values as there are chunks with a maximum above a bound are above it, too.
    const int64_t chunks = (vocab_ + kSamplingChunk - 1) / kSamplingChunk;
    float bound = kLowest;
    if (k <= chunks) {
      const Cut cut = SelectCut(kernels_, nullptr, list_, chunks, static_cast<double>(k));
      bound = std::max(bound, cut.value);
    }
    const int64_t count = kernels_.take_at_least(logits, vocab_, bound, list_);
    if (count < k) return {-kInf, k - count};  // bound is kLowest
    return SelectCut(kernels_, nullptr, list_, count, static_cast<double>(k));
  }

  // The fewest of the tokens that `call` keeps whose weights reach TopPTarget of their sum,
  // `total`.
  Cut Nucleus(const WeightCall& call, double total, int64_t tokens) {
    // All tokens with an x below this weigh together less than what the nucleus may lack. The
    // margin covers rounding; should it not, the list is made again without a bound.
    const double target = ops::TopPTarget(params_, total);
    const double spare = std::log((total - target) / static_cast<double>(tokens));
    const float x = std::clamp(static_cast<float>(spare) - 0.01f, ops::kWeightFloor, -0.01f);
    const float least = std::max(call.cut, kLowest);
    const float bound = std::max(call.max + x / call.scale, least);
    int64_t count = kernels_.take_at_least(call.logits, vocab_, bound, list_);
    const Cut cut = SelectCut(kernels_, &call, list_, count, target);
    if (cut.reached) return cut;
    count = kernels_.take_at_least(call.logits, vocab_, least, list_);
    return SelectCut(kernels_, &call, list_, count, target);
  }

  // The first token, by id, at which the running sum of kept weights exceeds the aim.
  int32_t DrawKept(const WeightCall& call, double* total) {
    double sums[kBlocksMax];
    const int64_t size = kBlock * ((vocab_ + kBlock * kBlocksMax - 1) / (kBlock * kBlocksMax));
    const int64_t blocks = (vocab_ + size - 1) / size;
    *total = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      sums[b] = kernels_.total(Part(call, b * size, size));
      *total += sums[b];
    }
    const double aim = ops::DrawAim(*total, ops::LotOf(params_, DrawPurpose::kToken));
    double sum = 0;
    int64_t block = 0;
    for (; block + 1 < blocks && sum + sums[block] <= aim; ++block) sum += sums[block];
    const int64_t end = std::min(vocab_, (block + 1) * size);
    for (int64_t begin = block * size; begin < end; begin += kBlock) {
      double weights[kBlock];
      const WeightCall part = Part(call, begin, kBlock);
      kernels_.weights(part, weights);
      for (int64_t i = 0; i < part.n; ++i) {
        sum += weights[i];
        if (sum > aim) return static_cast<int32_t>(begin + i);
      }
    }
    return 0;
  }

  // The draft, or what is drawn in its place.
  int32_t DrawRejecting(const WeightCall& call, double* total) {
    *total = kernels_.total(call);
    const ops::Proposal proposal(
        args_, params_, [&](const float* logits, int64_t n) { return ScanGuesses(logits, n); },
        [&](const float* logits, int64_t n, float max, float divisor) {
          return kernels_.total(AllOf(logits, n, max, divisor));
        });
    const double steps = ops::StepsPerWeight(vocab_);
    double draft = 0;
    kernels_.weights(Part(call, params_.target, 1), &draft);
    return ops::DrawByRejection(
        params_, proposal, static_cast<uint64_t>(*total * steps),
        static_cast<uint64_t>(draft * steps), [&](const auto& visit) {
          double weights[kBlock];
          for (int64_t begin = 0; begin < vocab_; begin += kBlock) {
            const WeightCall part = Part(call, begin, kBlock);
            kernels_.weights(part, weights);
            for (int64_t i = 0; i < part.n; ++i) {
              if (weights[i] > 0 && !visit(static_cast<int32_t>(begin + i),
                                           static_cast<uint64_t>(weights[i] * steps)))
                return;
            }
          }
        });
  }

  struct GuessScan {
    float max;
    bool degenerate;
  };
  // Of a row of as many guesses as there are, which the lists have no room for.
  GuessScan ScanGuesses(const float* logits, int64_t n) const {
    GuessScan seen = {-kInf, false};
    float maxima[kBlock / kSamplingChunk];
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const LogitScan part = kernels_.scan(logits + begin, std::min(kBlock, n - begin), maxima);
      seen.max = std::max(seen.max, part.max);
      seen.degenerate |= part.bad;
    }
    seen.degenerate |= !HasSignal(logits, n, seen.max);
    return seen;
  }

  WeightCall Part(const WeightCall& call, int64_t begin, int64_t size) const {
    WeightCall part = call;
    part.logits += begin;
    part.n = std::min(size, vocab_ - begin);
    part.ties_end = std::max<int64_t>(0, call.ties_end - begin);
    return part;
  }

  void ReportLogprobs(double log_total) {
    const int64_t token = output_.token;
    const float logit = raw_[token];
    const auto logprob = [&](float value) {
      return ops::LogProb(value, raw_max_, 1.0f, log_total);
    };
    output_.logprob = logprob(logit);
    const bool allowed = params_.top_allowed && params_.mask_row >= 0;
    if (allowed) CopyAllowed(raw_);
    const float* const told = allowed ? processed_ : raw_;
    output_.rank = static_cast<int32_t>(kernels_.count_at_least(told, token, logit) +
                                        kernels_.count_above(told + token, vocab_ - token, logit));
    const int64_t wanted =
        std::min({int64_t{params_.top_logprobs}, int64_t{desc_.top_logprobs_max}, vocab_});
    const int64_t stride = args_.top_ids.strides[0];
    int32_t* ids = args_.top_ids.ptr<int32_t>() + row_ * stride;
    float* logprobs = args_.top_logprobs.ptr<float>() + row_ * stride;
    if (wanted > 0) {
      Scan(told);
      const Cut cut = TopK(told, wanted);
      const int64_t ties_end = kernels_.after_equal(told, vocab_, cut.value, cut.ties);
      kernels_.kept_ids(told, vocab_, cut.value, ties_end, ids, wanted);
      std::sort(ids, ids + wanted, ops::Before{told});
      for (int64_t i = 0; i < wanted; ++i) logprobs[i] = logprob(told[ids[i]]);
    }
    if (output_.rank >= wanted) {
      ids[wanted] = output_.token;
      logprobs[wanted] = output_.logprob;
    }
  }

  const SamplingKernels& kernels_;
  const ops::Sample::Desc& desc_;
  const ops::Sample::Args& args_;
  const ops::SampleRow& params_;
  ops::SampleOutput& output_;
  const int64_t row_, vocab_;
  const float* const raw_;
  float* const processed_;  // [vocab]
  float* const list_;       // [vocab]: chunk maxima, then candidates
  float raw_max_ = 0.0f;
  double raw_total_ = 0.0;  // of the weights of the raw logits; 0 until it is known
};

}  // namespace

void SampleRowBy(const SamplingKernels& kernels, const ops::Sample::Desc& desc,
                 const ops::Sample::Args& args, int64_t row, std::span<float> workspace) {
  RowSampler(kernels, desc, args, row, workspace).Run();
}

}  // namespace sluice::cpu
