// Sampling on the device, in one launch: a row to a cluster of thread blocks. Gives the tokens of
// the reference; see ops/sampling.h for the order of the stages.
#include "backend/cuda/sampling/cluster_row.cuh"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

constexpr int kNobody = INT32_MAX;

// What a pass over a row's logits finds.
struct RowScan {
  float max = -INFINITY;     // NaN ignored
  float least = 0.0f;        // of finite values
  int32_t argmax = kNobody;  // the lowest id that has it
  bool degenerate = false;
};

// What the draft of a row that rejects was drawn from.
struct Proposal {
  const float* logits = nullptr;  // null: it was certain
  const int32_t* guess_of = nullptr;
  int64_t count = 0;
  int32_t draft = 0;
  Weigher weigh = {0.0f, 1.0f, Grid(1)};
  Shares shares;

  __device__ uint64_t operator()(int64_t id) const {
    if (logits == nullptr) return id == draft ? kCertainty : 0;
    const int64_t guess = guess_of == nullptr ? id : guess_of[id];
    if (guess < 0 || guess >= count) return 0;
    return shares(weigh(logits[guess]));
  }
};

class Sampler {
 public:
  __device__ Sampler(const SampleParams& params, ClusterRow::Shared& memory)
      : p_(params),
        row_(memory, params.vocab, params.slice),
        index_(static_cast<int>(blockIdx.y)),
        in_(*reinterpret_cast<const ops::SampleRow*>(params.rows + index_ * params.rows_stride)),
        logits_(params.logits + index_ * params.logits_stride) {}

  __device__ void Run() {
    const bool greedy = in_.greedy();
    const bool edited =
        in_.draw && (in_.edit_count > 0 || Counts() != nullptr || MaskRow() != nullptr);
    const bool logprobs = in_.top_logprobs >= 0;
    const bool keep = logprobs || in_.distribution_row >= 0 || edited || (in_.draw && !greedy);
    const RowScan raw = keep ? Load<true>() : Load<false>();
    out_.token = raw.argmax == kNobody ? 0 : raw.argmax;
    if (raw.degenerate) return ReportDegenerate();
    if (!in_.draw) {
      out_.token = in_.target;
    } else if (!(greedy && !edited && !logprobs)) {
      DrawToken(raw, greedy, edited, logprobs);
    }
    if (logprobs || in_.distribution_row >= 0) {
      if (edited) {
        __syncthreads();
        Load<true>();
      }
      ReportRaw(raw);
    }
    Store();
  }

 private:
  __device__ const uint32_t* Counts() const {
    if (in_.counts_row < 0 || in_.counts_row >= p_.counts_count) return nullptr;
    return p_.counts + in_.counts_row * p_.counts_stride;
  }
  __device__ const uint32_t* MaskRow() const {
    if (in_.mask_row < 0 || in_.mask_row >= p_.mask_count) return nullptr;
    return p_.masks + in_.mask_row * p_.mask_stride;
  }
  __device__ float* Distribution() const {
    if (in_.distribution_row < 0 || in_.distribution_row >= p_.distribution_count) return nullptr;
    return p_.distributions + in_.distribution_row * p_.distribution_stride;
  }

  struct Seen {
    float max = -INFINITY, least = INFINITY;
    int id = kNobody;  // within the slice
    bool bad = false, signal = false;

    __device__ void Add(float x, int i) {
      if (x > max || (x == max && i < id)) {
        max = x;
        id = i;
      }
      bad |= !(x < INFINITY);
      if (x > -INFINITY) {
        least = fminf(least, x);
        signal |= x != 0.0f;
      }
    }
  };

  // Reads the slice, and keeps it where the row needs more than its largest logit. Zeros become +0.
  template <bool kKeep>
  __device__ RowScan Load() {
    Seen seen;
    const float* from = logits_ + row_.begin;
    const auto take = [&](float x, int i) {
      x += 0.0f;
      seen.Add(x, i);
      return x;
    };
    if (reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      const int whole = row_.warp_begin + (row_.warp_end - row_.warp_begin) / 4 * 4;
#pragma unroll 4
      for (int i = row_.warp_begin + row_.lane * 4; i < whole; i += 128) {
        float4 four = *reinterpret_cast<const float4*>(from + i);
        four = {take(four.x, i), take(four.y, i + 1), take(four.z, i + 2), take(four.w, i + 3)};
        if constexpr (kKeep) *reinterpret_cast<float4*>(row_.shared.values + i) = four;
      }
      const int last = whole + row_.lane;
      if (last < row_.warp_end) {
        const float x = take(from[last], last);
        if constexpr (kKeep) row_.shared.values[last] = x;
      }
    } else {
#pragma unroll 4
      for (int i = row_.warp_begin + row_.lane; i < row_.warp_end; i += 32) {
        const float x = take(from[i], i);
        if constexpr (kKeep) row_.shared.values[i] = x;
      }
    }
    return Join(seen);
  }

  // What all threads of the cluster have seen.
  __device__ RowScan Join(const Seen& seen) {
    uint64_t key = 0;
    if (seen.id != kNobody) {
      const uint32_t id = static_cast<uint32_t>(row_.begin + seen.id);
      key = uint64_t{OrderedBits(seen.max)} << 32 | (0xffffffffu - id);
    }
    const uint64_t least = seen.least < INFINITY ? 0xffffffffu - OrderedBits(seen.least) : 0;
    const auto all =
        row_.Gather<cuda::Join::kMax, 4>({key, least, seen.bad ? 1u : 0u, seen.signal ? 1u : 0u});
    RowScan scan;
    key = ClusterRow::MaxOf(all, 0);
    if (key != 0) {
      scan.max = FromOrderedBits(static_cast<uint32_t>(key >> 32));
      scan.argmax = static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
    }
    scan.least = FromOrderedBits(0xffffffffu - static_cast<uint32_t>(ClusterRow::MaxOf(all, 1)));
    scan.degenerate = ClusterRow::MaxOf(all, 2) != 0 || ClusterRow::MaxOf(all, 3) == 0;
    return scan;
  }

  // The draft that is `back` rows before this one. REQUIRES: 0 < back <= Drafts().
  __device__ int32_t Draft(int back) const {
    const std::byte* const row = p_.rows + (index_ - back) * p_.rows_stride;
    return reinterpret_cast<const ops::SampleRow*>(row)->target;
  }
  __device__ int Drafts() const { return in_.drafts <= index_ ? in_.drafts : 0; }

  // One edit with the penalties of its id, if that is of the slice.
  __device__ void Apply(ops::LogitEdit edit, const uint32_t* counts) {
    const int64_t at = edit.id - row_.begin;
    if (at < 0 || at >= row_.n) return;
    if (counts != nullptr) {
      uint32_t count = counts[edit.id];
      for (int back = 1; back <= Drafts(); ++back) count += Draft(back) == edit.id ? 1 : 0;
      AddPenalties(in_, count, &edit);
    }
    row_.shared.values[at] = Edited(edit, logits_[edit.id] + 0.0f) + 0.0f;
  }

  // The penalties of what was drawn before, on the slice.
  __device__ void Penalise(const uint32_t* counts) {
    float* values = row_.shared.values;
#pragma unroll 4
    for (int i = row_.warp_begin + row_.lane; i < row_.warp_end; i += 32) {
      const uint32_t count = counts[row_.begin + i];
      if (count == 0) continue;
      ops::LogitEdit edit;
      AddPenalties(in_, count, &edit);
      values[i] = Edited(edit, values[i]) + 0.0f;
    }
    __syncthreads();
    for (int back = 1 + static_cast<int>(threadIdx.x); back <= Drafts(); back += kSampleThreads) {
      Apply({.id = Draft(back)}, counts);
    }
  }

  // Applies penalties, edits and mask to the slice.
  __device__ RowScan Process() {
    float* values = row_.shared.values;
    const uint32_t* const counts = Counts();
    __syncthreads();
    if (counts != nullptr) {
      Penalise(counts);
      __syncthreads();
    }
    const int end = min(in_.edit_begin + in_.edit_count, p_.edit_count);
    for (int e = max(in_.edit_begin, 0) + static_cast<int>(threadIdx.x); e < end;
         e += kSampleThreads) {
      Apply(*reinterpret_cast<const ops::LogitEdit*>(p_.edits + e * p_.edits_stride), counts);
    }
    __syncthreads();
    const uint32_t* words = MaskRow();
    Seen seen;
    for (int i = row_.warp_begin + row_.lane; i < row_.warp_end; i += 32) {
      const int64_t id = row_.begin + i;
      if (words != nullptr && (words[id / 32] >> (id % 32) & 1u) == 0) values[i] = -INFINITY;
      seen.Add(values[i], i);
    }
    return Join(seen);
  }

  __device__ void DrawToken(const RowScan& raw, bool greedy, bool edited, bool logprobs) {
    const RowScan scan = edited ? Process() : raw;
    if (isinf(scan.max)) {
      out_.degenerate = true;
      return;
    }
    const float divisor = LogitDivisor(in_);
    const Weigher weigh = {scan.max, WeightScale(divisor), Grid(p_.vocab)};
    const auto weight = [&](float x, int64_t) { return weigh(x); };
    float value = scan.max;
    out_.token = scan.argmax;
    uint64_t total = 0;  // of all weights; 0 until it is known
    if (!greedy) value = Draw(scan, weigh, &total);
    if (!logprobs) return;
    if (total == 0) total = row_.Sum(weight);
    out_.processed_logprob = LogProb(value, scan.max, divisor, log(total * weigh.grid.unit()));
    if (!edited && divisor == 1.0f) raw_total_ = total;
  }

  // Sets the token and returns its logit.
  __device__ float Draw(const RowScan& scan, const Weigher& weigh, uint64_t* total) {
    const auto weight = [&](float x, int64_t) { return weigh(x); };
    const bool limited = in_.top_k > 0 && in_.top_k < p_.vocab;
    Cut cut;
    row_.SetBins(scan.max, scan.least, weigh.scale);
    if (limited) {
      const auto one = [](float, int64_t) -> uint64_t { return 1; };
      cut = row_.Select(cut, one, static_cast<uint64_t>(in_.top_k));
    }
    if (LimitsTopP(in_)) {
      const uint64_t sum =
          row_.Sum([&](float x, int64_t id) { return cut.Keeps(x, id) ? weigh(x) : uint64_t{0}; });
      if (!limited) *total = sum;
      cut = row_.Select(cut, weight, TopPTarget(in_, sum));
    }
    const float floor = FloorOf(in_);
    const auto kept = [&](float x, int64_t id) {
      return cut.Keeps(x, id) && weigh.x(x) >= floor ? weigh(x) : uint64_t{0};
    };
    uint64_t mine = 0;
    row_.ForEach([&](float x, int64_t id) { mine += kept(x, id); });
    const uint64_t of_warp = ClusterRow::WarpSum(mine);
    const auto all = row_.Gather<cuda::Join::kSum, 1>({mine});
    const uint64_t sum = ClusterRow::SumOf(all);
    if (!limited && !LimitsByShare(in_)) *total = sum;
    if (Rejects()) return Take(DrawRejecting(kept, sum));
    return Take(row_.FindId(kept, all, of_warp, DrawTarget(sum, LotOf(in_, kTokenDraw))));
  }

  // Of what ClusterRow::FindId gave: sets the token and returns its logit.
  __device__ float Take(uint64_t found) {
    out_.token = static_cast<int32_t>(found);
    return __uint_as_float(static_cast<uint32_t>(found >> 32));
  }

  __device__ bool Rejects() const {
    return in_.guess_row != ops::kCompared && in_.guess_row < p_.guess_count && in_.target >= 0 &&
           in_.target < p_.vocab;
  }

  // The draft, or what is drawn in its place, with its logit, as ClusterRow::FindId gives it.
  // `kept` measures the weights that are kept, which sum to `weights`.
  template <class Kept>
  __device__ uint64_t DrawRejecting(const Kept& kept, uint64_t weights) {
    const Proposal proposal = Propose();
    const Shares shares(weights);
    uint64_t weight = 0, draft = 0;
    row_.ForEach([&](float x, int64_t id) {
      if (id != in_.target) return;
      weight = kept(x, id);
      draft = uint64_t{__float_as_uint(x)} << 32 | static_cast<uint32_t>(id);
    });
    const auto of_draft = row_.Gather<cuda::Join::kMax, 2>({weight, draft});
    weight = ClusterRow::MaxOf(of_draft, 0);
    draft = ClusterRow::MaxOf(of_draft, 1);
    if (ShareBelow(proposal(in_.target), LotOf(in_, kAcceptDraw)) < shares(weight)) return draft;
    // Where the two are the same but for rounding, nothing is left; then p itself is drawn from.
    for (const bool subtracts : {true, false}) {
      const auto left = [&](float x, int64_t id) {
        const uint64_t p = shares(kept(x, id)), q = subtracts && p > 0 ? proposal(id) : 0;
        return p > q ? p - q : uint64_t{0};
      };
      uint64_t mine = 0;
      row_.ForEach([&](float x, int64_t id) { mine += left(x, id); });
      const uint64_t of_warp = ClusterRow::WarpSum(mine);
      const auto all = row_.Gather<cuda::Join::kSum, 1>({mine});
      const uint64_t total = ClusterRow::SumOf(all);
      if (total == 0) continue;
      const uint64_t aim = ShareBelow(total, LotOf(in_, kResidualDraw));
      return row_.FindId(left, all, of_warp, aim + 1);
    }
    return draft;
  }

  // Threads of the cluster share out the guesses.
  template <class Visit>
  __device__ void ForEachGuess(const float* logits, const Visit& visit) const {
    for (int64_t i = int64_t{row_.rank} * kSampleThreads + threadIdx.x; i < p_.guess_vocab;
         i += kSampleCluster * kSampleThreads)
      visit(logits[i]);
  }

  __device__ Proposal Propose() {
    Proposal proposal;
    proposal.draft = in_.target;
    if (in_.guess_row < 0) return proposal;
    const float* const logits = p_.guesses + in_.guess_row * p_.guesses_stride;
    float largest = -INFINITY;
    bool bad = false, signal = false;
    ForEachGuess(logits, [&](float x) {
      bad |= !(x < INFINITY);
      signal |= x != 0.0f && x > -INFINITY;
      largest = fmaxf(largest, x + 0.0f);
    });
    const auto seen = row_.Gather<cuda::Join::kMax, 3>(
        {uint64_t{OrderedBits(largest)}, bad ? 1u : 0u, signal ? 1u : 0u});
    if (ClusterRow::MaxOf(seen, 1) != 0 || ClusterRow::MaxOf(seen, 2) == 0) return proposal;
    largest = FromOrderedBits(static_cast<uint32_t>(ClusterRow::MaxOf(seen, 0)));
    proposal.weigh = {largest, WeightScale(LogitDivisor(in_)), Grid(p_.guess_vocab)};
    uint64_t sum = 0;
    ForEachGuess(logits, [&](float x) { sum += proposal.weigh(x); });
    proposal.shares = Shares(ClusterRow::SumOf(row_.Gather<cuda::Join::kSum, 1>({sum})));
    proposal.logits = logits;
    proposal.guess_of = p_.guess_of;
    proposal.count = p_.guess_vocab;
    return proposal;
  }

  // Log-probs, rank and distribution. REQUIRES: the slice has the raw logits.
  __device__ void ReportRaw(const RowScan& raw) {
    const Weigher weigh = {raw.max, 1.0f, Grid(p_.vocab)};
    if (raw_total_ == 0) raw_total_ = row_.Sum([&](float x, int64_t) { return weigh(x); });
    const double log_total = log(raw_total_ * weigh.grid.unit());
    const auto logprob = [&](float x) { return LogProb(x, raw.max, 1.0f, log_total); };
    if (float* to = Distribution(); to != nullptr)
      row_.ForEach([&](float x, int64_t id) { to[id] = logprob(x); });
    if (in_.top_logprobs < 0) return;
    const int token = out_.token;
    const bool known = token >= 0 && token < p_.vocab;
    const float logit = known ? logits_[token] + 0.0f : -INFINITY;
    out_.logprob = logprob(logit);
    if (in_.top_allowed) ForbidRaw();
    out_.rank = static_cast<int32_t>(row_.Sum([&](float x, int64_t id) -> uint64_t {
      return x > logit || (x == logit && id < token) ? 1 : 0;
    }));
    const int wanted = static_cast<int>(min(int64_t{min(in_.top_logprobs, p_.top_max)}, p_.vocab));
    if (wanted > 0) ListTop(raw, wanted, logprob);
    if (out_.rank >= wanted && First()) {
      TopIds()[wanted] = token;
      TopLogprobs()[wanted] = out_.logprob;
    }
  }

  // Leaves the slice with -inf where the mask says so. The threads hold the numbers that they
  // read next themselves.
  __device__ void ForbidRaw() {
    const uint32_t* const words = MaskRow();
    if (words == nullptr) return;
    for (int i = row_.warp_begin + row_.lane; i < row_.warp_end; i += 32) {
      const int64_t id = row_.begin + i;
      if ((words[id / 32] >> (id % 32) & 1u) == 0) row_.shared.values[i] = -INFINITY;
    }
  }

  // The best raw logits, gathered in the first block, which puts each in its place.
  template <class LogProbOf>
  __device__ void ListTop(const RowScan& raw, int wanted, const LogProbOf& logprob) {
    row_.SetBins(raw.max, raw.least, 1.0f);
    if (threadIdx.x == 0) row_.shared.listed = 0;
    const auto one = [](float, int64_t) -> uint64_t { return 1; };
    const Cut cut = row_.Select(Cut(), one, static_cast<uint64_t>(wanted));
    auto& list = *cooperative_groups::this_cluster().map_shared_rank(&row_.shared, 0);
    row_.ForEach([&](float x, int64_t id) {
      if (!cut.Keeps(x, id)) return;
      const int at = atomicAdd(&list.listed, 1);
      if (at >= wanted) return;
      list.low[at] = OrderedBits(x);
      list.high[at] = static_cast<uint32_t>(id);
    });
    ClusterRow::Sync();
    if (row_.rank != 0) return;
    for (int i = threadIdx.x; i < wanted; i += kSampleThreads) {
      const uint32_t value = list.low[i], id = list.high[i];
      int place = 0;
      for (int j = 0; j < wanted; ++j) {
        place += list.low[j] > value || (list.low[j] == value && list.high[j] < id) ? 1 : 0;
      }
      TopIds()[place] = static_cast<int32_t>(id);
      TopLogprobs()[place] = logprob(FromOrderedBits(value));
    }
  }

  __device__ void ReportDegenerate() {
    if (!in_.draw) out_.token = in_.target;
    out_.degenerate = true;
    if (in_.top_logprobs >= 0) {
      out_.logprob = out_.processed_logprob = kZeroProbability;
      if (First()) {
        TopIds()[0] = out_.token;
        TopLogprobs()[0] = kZeroProbability;
      }
    }
    if (float* to = Distribution(); to != nullptr)
      row_.ForEach([&](float, int64_t id) { to[id] = kZeroProbability; });
    Store();
  }

  __device__ bool First() const { return row_.rank == 0 && threadIdx.x == 0; }
  __device__ int32_t* TopIds() const { return p_.top_ids + index_ * p_.top_ids_stride; }
  __device__ float* TopLogprobs() const {
    return p_.top_logprobs + index_ * p_.top_logprobs_stride;
  }

  __device__ void Store() const {
    if (!First()) return;
    *reinterpret_cast<ops::SampleOutput*>(p_.outputs + index_ * p_.outputs_stride) = out_;
  }

  const SampleParams& p_;
  ClusterRow row_;
  const int64_t index_;
  const ops::SampleRow in_;
  const float* const logits_;
  ops::SampleOutput out_;
  uint64_t raw_total_ = 0;  // of the weights of the raw logits; 0 until it is known
};

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __cluster_dims__(sluice::cuda::kSampleCluster, 1, 1)
    __launch_bounds__(sluice::cuda::kSampleThreads, 2)
        sm90_f32_sample(const __grid_constant__ sluice::cuda::SampleParams params) {
  extern __shared__ __align__(16) char memory[];
  sluice::cuda::WaitForInputs();
  // Blocks write and read one another's shared memory, which is there from a block's begin to its
  // end: all must have begun before the first access, and none may leave before the last.
  sluice::cuda::ClusterRow::Sync();
  sluice::cuda::Sampler(params, *reinterpret_cast<sluice::cuda::ClusterRow::Shared*>(memory)).Run();
  sluice::cuda::ClusterRow::Sync();
}
