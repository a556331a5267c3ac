#include "exec/kernel_profile.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/philox.h"
#include "base/str_cat.h"
#include "exec/call_timer.h"
#include "exec/local_runner.h"
#include "sluice/sampling.h"

namespace sluice::exec {
namespace {

// The host is ahead of the device by this much of the time that it took for the same step.
constexpr double kHeadStart = 1.5, kHeadStartMax_s = 0.25;

// Of a prompt the tokens from position `first` on.
std::vector<int32_t> RandomTokens(uint64_t seed, int first, int tokens, int vocab) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  int64_t position = first;
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(UniformDraw(seed, 0, ++position, DrawPurpose::kToken) * vocab);
  }
  return ids;
}

double MedianOf(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::vector<KernelFigure> Gather(const std::vector<TimedCall>& calls, int runs) {
  std::vector<KernelFigure> figures;
  std::vector<std::vector<double>> times;
  std::map<std::tuple<std::string_view, std::string_view, std::string>, size_t> found;
  for (const TimedCall& call : calls) {
    const auto [at, first] =
        found.try_emplace({call.op, call.implementation, call.work.shape}, figures.size());
    if (first) {
      figures.push_back({.op = std::string(call.op),
                         .implementation = std::string(call.implementation),
                         .shape = call.work.shape,
                         .known = call.work.known});
      times.emplace_back();
    }
    KernelFigure& figure = figures[at->second];
    figure.bytes += call.work.bytes;
    figure.flops += call.work.flops;
    figure.total_s += call.seconds;
    times[at->second].push_back(call.seconds);
  }
  for (size_t i = 0; i < figures.size(); ++i) {
    const auto count = static_cast<double>(times[i].size());
    figures[i].bytes /= count;
    figures[i].flops /= count;
    figures[i].total_s /= runs;
    figures[i].calls = static_cast<int64_t>(times[i].size()) / runs;
    figures[i].median_s = MedianOf(std::move(times[i]));
  }
  return figures;
}

}  // namespace

KernelProfiler::KernelProfiler() = default;
KernelProfiler::~KernelProfiler() {
  if (runner_ != nullptr) runner_->Observe(nullptr);
}

const RunnerInfo& KernelProfiler::Info() const { return runner_->Info(); }
device::Device& KernelProfiler::device() { return runner_->device(); }
bool KernelProfiler::by_device() const { return timer_->by_device(); }
double KernelProfiler::copied_per_second() const { return timer_->copied_per_second(); }

Result<std::unique_ptr<KernelProfiler>> KernelProfiler::Open(const files::ModelFiles& files,
                                                             const EngineOptions& options) {
  if (files.config.pooling) {
    return InvalidArgument("--kernels is for models that generate; the model embeds texts",
                           "kernels");
  }
  EngineOptions alone = options;
  alone.graphs = "none";
  alone.speculate = "none";
  std::unique_ptr<KernelProfiler> profiler(new KernelProfiler());
  SLUICE_ASSIGN_OR_RETURN(profiler->runner_, LocalRunner::Open(files, {}, alone, nullptr));
  SLUICE_ASSIGN_OR_RETURN(profiler->timer_, CallTimer::Make(profiler->device()));
  profiler->chunk_ = options.max_batch_tokens;
  profiler->sequence_of_.resize(static_cast<size_t>(options.max_num_seqs));
  return profiler;
}

Status KernelProfiler::Share(size_t sequences, int length) {
  if (length > Info().max_model_len) {
    return InvalidArgument(StrCat(length, " tokens of a sequence are above the ",
                                  Info().max_model_len, " that it may have; raise --max-model-len"),
                           "max-model-len");
  }
  share_.clear();
  for (const batch::KvGroup& group : Info().kv_groups) {
    const int32_t blocks = batch::PeakBlocks(group, length, chunk_);
    if (int64_t{blocks} * static_cast<int64_t>(sequences) > group.num_blocks) {
      return InvalidArgument(StrCat(sequences, " sequences of ", length, " tokens need ",
                                    int64_t{blocks} * static_cast<int64_t>(sequences),
                                    " blocks of the KV cache, which has ", group.num_blocks,
                                    "; raise --kv-memory, or lower --batch or --context"),
                             "kv-memory");
    }
    share_.push_back(blocks);
  }
  return OkStatus();
}

// A block is used again for what comes as many blocks later: a window has let go of it by then.
batch::BatchPlan KernelProfiler::PlanOf(const std::vector<Piece>& pieces) {
  batch::BatchPlan plan;
  plan.step = ++steps_;
  const std::vector<batch::KvGroup>& groups = Info().kv_groups;
  plan.groups.resize(groups.size());
  for (batch::GroupTable& table : plan.groups) table.begin = {0};
  for (const Piece& piece : pieces) {
    if (piece.prompt > 0 && piece.first == 0) {
      sequence_of_[static_cast<size_t>(piece.slot)] = ++sequences_;
    }
    const uint64_t sequence = sequence_of_[static_cast<size_t>(piece.slot)];
    const int end = piece.first + piece.tokens;
    const bool draws = end >= piece.prompt;
    plan.entries.push_back({.sequence = sequence,
                            .slot = piece.slot,
                            .told_whole = plan.step,
                            .first_position = piece.first,
                            .query_tokens = piece.tokens,
                            .token_begin = static_cast<int32_t>(plan.tokens.size()),
                            .logits_begin = static_cast<int32_t>(plan.logits_rows.size()),
                            .logits_count = draws ? 1 : 0});
    if (piece.prompt == 0) {
      plan.tokens.push_back(batch::kLastDrawn);
    } else {
      const int vocab = Info().vocab_size;
      const std::vector<int32_t> ids = RandomTokens(sequence, piece.first, piece.tokens, vocab);
      plan.tokens.insert(plan.tokens.end(), ids.begin(), ids.end());
      if (piece.first == 0) {
        batch::SlotStart& start = plan.starts.emplace_back();
        start.slot = piece.slot;
        start.sampling = Greedy(batch::SamplingParams{});
        start.prompt_tokens = piece.prompt;
        start.history = RandomTokens(sequence, 0, piece.prompt, vocab);
      }
    }
    if (draws) plan.logits_rows.push_back({.token = static_cast<int32_t>(plan.tokens.size()) - 1});
    for (size_t g = 0; g < groups.size(); ++g) {
      batch::GroupTable& table = plan.groups[g];
      const int32_t ratio = groups[g].ratio(), share = share_[g];
      for (int32_t i = 0; i < batch::TableWidth(groups[g], end); ++i) {
        table.ids.push_back((piece.slot * share + i / ratio % share) * ratio + i % ratio);
      }
      table.begin.push_back(static_cast<int32_t>(table.ids.size()));
      table.first.push_back(0);
    }
  }
  return plan;
}

Status KernelProfiler::Step(const std::vector<Piece>& pieces, std::vector<TimedCall>* calls) {
  batch::BatchPlan plan = PlanOf(pieces);
  if (calls != nullptr) {
    ops::StepSizes sizes;
    for (const Piece& piece : pieces) {
      sizes.query_tokens.push_back(piece.tokens);
      sizes.contexts.push_back(piece.first + piece.tokens);
    }
    timer_->Begin(std::move(sizes), head_start_s_);
  }
  runner_->Observe(calls != nullptr ? timer_.get() : nullptr);
  const int64_t start = NowMicros();
  SLUICE_ASSIGN_OR_RETURN(exec::Step step, runner_->Launch(&plan, nullptr));
  const double put_s = 1e-6 * static_cast<double>(NowMicros() - start);
  batch::StepResult result;
  SLUICE_RETURN_IF_ERROR(step.Finish(&result));
  if (calls == nullptr) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<TimedCall> made, timer_->Take());
  calls->insert(calls->end(), made.begin(), made.end());
  if (head_start_s_ == 0) head_start_s_ = std::min(kHeadStart * put_s, kHeadStartMax_s);
  return OkStatus();
}

Status KernelProfiler::Prompt(int slot, int tokens, std::vector<TimedCall>* calls) {
  for (int first = 0; first < tokens;) {
    const int end = batch::StepEnd(Info().kv_groups, first, std::min(first + chunk_, tokens));
    SLUICE_RETURN_IF_ERROR(
        Step({{.slot = slot, .first = first, .tokens = end - first, .prompt = tokens}}, calls));
    first = end;
  }
  return OkStatus();
}

Result<std::vector<KernelFigure>> KernelProfiler::Prefill(int prompt_tokens, int runs) {
  SLUICE_RETURN_IF_ERROR(Share(1, prompt_tokens));
  head_start_s_ = 0;
  std::vector<TimedCall> calls;
  for (int run = 0; run <= runs; ++run) {
    if (run == 1) calls.clear();
    SLUICE_RETURN_IF_ERROR(Prompt(0, prompt_tokens, &calls));
  }
  return Gather(calls, runs);
}

Result<std::vector<KernelFigure>> KernelProfiler::Decode(const std::vector<int>& contexts,
                                                         int runs) {
  SLUICE_RETURN_IF_ERROR(
      Share(contexts.size(),
            std::max(1, *std::max_element(contexts.begin(), contexts.end())) + runs + 1));
  std::vector<Piece> pieces;
  for (const int context : contexts) {
    const int slot = static_cast<int>(pieces.size()), prompt = std::max(1, context);
    SLUICE_RETURN_IF_ERROR(Prompt(slot, prompt, nullptr));
    pieces.push_back({.slot = slot, .first = prompt, .tokens = 1});
  }
  head_start_s_ = 0;
  std::vector<TimedCall> calls;
  for (int run = 0; run <= runs; ++run) {
    if (run == 1) calls.clear();
    SLUICE_RETURN_IF_ERROR(Step(pieces, &calls));
    for (Piece& piece : pieces) ++piece.first;
  }
  return Gather(calls, runs);
}

}  // namespace sluice::exec
