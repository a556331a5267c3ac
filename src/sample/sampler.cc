#include "sample/sampler.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::sample {

using batch::BatchPlan;
using batch::LogitsRow;
using batch::PlanEntry;
using batch::RowPurpose;

Result<std::unique_ptr<Sampler>> Sampler::Make(device::Device& device, const Options& options) {
  std::unique_ptr<Sampler> sampler(new Sampler(options));
  const ops::Sample::Desc desc{options.vocab, options.top_logprobs_max};
  SLUICE_ASSIGN_OR_RETURN(sampler->sample_, ops::Bind<ops::Sample>(device.ops(), desc));
  const auto memory = device::MemoryKind::kHost;
  const size_t top = static_cast<size_t>(options.rows_max) * (options.top_logprobs_max + 1) * 4;
  SLUICE_ASSIGN_OR_RETURN(sampler->top_ids_, device.Allocate(top, memory));
  SLUICE_ASSIGN_OR_RETURN(sampler->top_logprobs_, device.Allocate(top, memory));
  return sampler;
}

void Sampler::Begin(const BatchPlan& plan) {
  for (const batch::SlotStart& start : plan.starts) {
    CHECK(start.slot >= 0 && start.slot < options_.slots, "slot ", start.slot);
    slots_[start.slot].Start(start);
  }
}

Status Sampler::BuildEntryRows(const BatchPlan& plan, const PlanEntry& entry,
                               batch::MaskSource* masks) {
  SlotState& slot = slots_[entry.slot];
  const batch::SamplingParams& params = slot.params();
  const bool masked = masks != nullptr && entry.logits_count > 0 && masks->HasMask(entry);
  int drafts = 0;
  for (int i = 0; i < entry.logits_count; ++i) {
    const LogitsRow& plan_row = plan.logits_rows[entry.logits_begin + i];
    ops::SampleRow row;
    row.position = entry.first_position + (plan_row.token - entry.token_begin) + 1;
    row.target = plan_row.target;
    row.draw = plan_row.purpose != RowPurpose::kScore;
    if (!row.draw) {
      row.top_logprobs = std::max(params.prompt_top_logprobs, 0);
      rows_.push_back(row);
      continue;
    }
    row.temperature = params.temperature;
    row.top_k = params.top_k;
    row.top_p = params.top_p;
    row.min_p = params.min_p;
    row.seed = params.seed;
    row.choice = params.choice;
    row.top_logprobs = params.top_logprobs;
    if (params.full_distribution) row.distribution_row = distribution_rows_++;
    row.edit_begin = static_cast<int32_t>(edits_.size());
    slot.AppendEdits(options_.vocab, &edits_);
    row.edit_count = static_cast<int32_t>(edits_.size()) - row.edit_begin;
    if (masked) {
      const size_t words = (options_.vocab + 31) / 32;
      mask_words_.resize((mask_rows_ + 1) * words);
      row.mask_row = mask_rows_++;
      SLUICE_RETURN_IF_ERROR(masks->Fill(
          entry, i, std::span<uint32_t>(mask_words_).subspan(row.mask_row * words, words)));
    }
    rows_.push_back(row);
    if (plan_row.purpose == RowPurpose::kVerify && plan_row.target >= 0) {
      slot.Append(plan_row.target);  // the next row's edits see this draft as accepted
      ++drafts;
    }
  }
  for (; drafts > 0; --drafts) slot.RemoveLast();
  return OkStatus();
}

Status Sampler::BuildRows(const BatchPlan& plan, batch::MaskSource* masks) {
  rows_.clear();
  edits_.clear();
  mask_words_.clear();
  mask_rows_ = distribution_rows_ = 0;
  CHECK(static_cast<int>(plan.logits_rows.size()) <= options_.rows_max, plan.logits_rows.size());
  for (const PlanEntry& entry : plan.entries) {
    SLUICE_RETURN_IF_ERROR(BuildEntryRows(plan, entry, masks));
  }
  CHECK(rows_.size() == plan.logits_rows.size(), "the entries' rows cover the plan's");
  outputs_.resize(rows_.size());
  distributions_.resize(distribution_rows_ * options_.vocab);
  return OkStatus();
}

batch::ResultToken Sampler::Token(int64_t row, batch::StepResult* result) const {
  const ops::SampleOutput& output = outputs_[row];
  batch::ResultToken token{.id = output.token};
  const int32_t asked = rows_[row].top_logprobs;
  if (asked < 0) return token;
  token.logprob = output.logprob;
  token.rank = output.rank;
  token.top_begin = static_cast<int32_t>(result->top.size());
  const int32_t best =
      static_cast<int32_t>(std::min<int64_t>({asked, options_.top_logprobs_max, options_.vocab}));
  token.top_count = output.degenerate ? 1 : best + (output.rank >= best);
  const int64_t base = row * (options_.top_logprobs_max + 1);
  const auto* ids = reinterpret_cast<const int32_t*>(top_ids_.data()) + base;
  const auto* logprobs = reinterpret_cast<const float*>(top_logprobs_.data()) + base;
  for (int32_t i = 0; i < token.top_count; ++i) result->top.push_back({ids[i], logprobs[i]});
  return token;
}

void Sampler::Collect(const BatchPlan& plan, batch::StepResult* result) {
  for (const PlanEntry& entry : plan.entries) {
    SlotState& slot = slots_[entry.slot];
    batch::ResultEntry out;
    out.sequence = entry.sequence;
    out.token_begin = static_cast<int32_t>(result->tokens.size());
    out.score_begin = static_cast<int32_t>(result->scores.size());
    bool open = true;  // no draft was rejected so far
    for (int i = 0; i < entry.logits_count; ++i) {
      const int64_t row = entry.logits_begin + i;
      const LogitsRow& plan_row = plan.logits_rows[row];
      const ops::SampleOutput& output = outputs_[row];
      if (plan_row.purpose == RowPurpose::kScore) {
        result->scores.push_back(Token(row, result));
        if (output.degenerate) out.status = batch::RowStatus::kDegenerate;
        continue;
      }
      if (!open) continue;  // rows past the accepted length do not count, degenerate or not
      if (output.degenerate) out.status = batch::RowStatus::kDegenerate;
      result->tokens.push_back(Token(row, result));
      slot.Append(output.token);
      slot.AddLogprob(output.processed_logprob);
      open = plan_row.purpose == RowPurpose::kVerify && output.token == plan_row.target &&
             !output.degenerate;
    }
    out.token_count = static_cast<int32_t>(result->tokens.size()) - out.token_begin;
    out.score_count = static_cast<int32_t>(result->scores.size()) - out.score_begin;
    out.cumulative_logprob = slot.cumulative_logprob();
    result->entries.push_back(out);
  }
}

Status Sampler::Run(device::Stream& stream, const BatchPlan& plan, const ops::Tensor& logits,
                    batch::MaskSource* masks, batch::StepResult* result) {
  SLUICE_RETURN_IF_ERROR(BuildRows(plan, masks));
  const int64_t rows = static_cast<int64_t>(rows_.size());
  if (rows > 0) {
    const int64_t top = options_.top_logprobs_max + 1;
    const int64_t words = (options_.vocab + 31) / 32;
    ops::Sample::Args args;
    args.logits = logits;
    args.top_ids = ops::Dense(top_ids_.view(), DType::kI32, {options_.rows_max, top});
    args.top_logprobs = ops::Dense(top_logprobs_.view(), DType::kF32, {options_.rows_max, top});
    const auto host = [](auto& values) {
      return device::View{reinterpret_cast<std::byte*>(values.data()),
                          values.size() * sizeof(values[0]),
                          device::MemoryKind::kHost,
                          {}};
    };
    args.rows = ops::Dense(host(rows_), DType::kU8, {rows, int64_t{sizeof(ops::SampleRow)}});
    if (!edits_.empty()) {
      args.edits =
          ops::Dense(host(edits_), DType::kU8,
                     {static_cast<int64_t>(edits_.size()), int64_t{sizeof(ops::LogitEdit)}});
    }
    args.outputs =
        ops::Dense(host(outputs_), DType::kU8, {rows, int64_t{sizeof(ops::SampleOutput)}});
    if (mask_rows_ > 0)
      args.masks = ops::Dense(host(mask_words_), DType::kI32, {mask_rows_, words});
    if (distribution_rows_ > 0) {
      args.distributions =
          ops::Dense(host(distributions_), DType::kF32, {distribution_rows_, options_.vocab});
    }
    SLUICE_RETURN_IF_ERROR(sample_(stream, args));
  }
  result->Reset(plan.step);
  Collect(plan, result);
  result->distributions.assign(distributions_.begin(), distributions_.end());
  return OkStatus();
}

}  // namespace sluice::sample
