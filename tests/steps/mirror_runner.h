// MirrorRunner: two runners of one process that compute the same steps, from plans that were bytes
// in between, as ranks would get them. Their results must be equal.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <utility>

#include "exec/step_runner.h"

namespace sluice {

class MirrorRunner : public exec::StepRunner {
 public:
  MirrorRunner(exec::StepRunner& first, exec::StepRunner& second) : runners_{&first, &second} {}

  const exec::RunnerInfo& Info() const override { return runners_[0]->Info(); }
  exec::RunnerTotals Totals() const override { return runners_[0]->Totals(); }
  uint64_t WeightsVersion() const override { return runners_[0]->WeightsVersion(); }
  Result<exec::Step> Launch(batch::BatchPlan* plan, batch::KvSink* sink) override {
    const std::vector<std::byte> bytes = batch::Serialize(*plan);
    auto pair = std::make_unique<Pair>(*this);
    for (size_t i = 0; i < runners_.size(); ++i) {
      SLUICE_ASSIGN_OR_RETURN(batch::BatchPlan received, batch::Deserialize(bytes));
      SLUICE_ASSIGN_OR_RETURN(pair->steps[i], runners_[i]->Launch(&received, sink));
    }
    pair->waits = pair->steps[0].waits_for_masks();
    pairs_.push_back(std::move(pair));
    return exec::Step(pairs_.back().get());
  }

 private:
  struct Pair final : exec::Step::Work {
    explicit Pair(MirrorRunner& all) : runner(all) {}
    bool ModelIsDone() override { return steps[0].ModelIsDone() && steps[1].ModelIsDone(); }
    Status FetchLogits(std::span<const int32_t> rows) override {
      SLUICE_RETURN_IF_ERROR(steps[0].FetchLogits(rows));
      return steps[1].FetchLogits(rows);
    }
    std::span<const float> Logits(size_t i) const override { return steps[0].Logits(i); }
    Status Sample(const batch::MaskSet& masks) override {
      waits = false;
      SLUICE_RETURN_IF_ERROR(steps[0].Sample(masks));
      return steps[1].Sample(masks);
    }
    Status Finish(batch::StepResult* result) override {
      batch::StepResult other;
      const Status first = steps[0].Finish(result);
      const Status second = steps[1].Finish(&other);
      EXPECT_EQ(first.code(), second.code());
      EXPECT_TRUE(!first.ok() || *result == other) << "step " << result->step;
      runner.pairs_.pop_front();  // this
      return first;
    }
    void Drop() override { runner.pairs_.pop_front(); }
    MirrorRunner& runner;
    std::array<exec::Step, 2> steps;
  };
  const std::array<exec::StepRunner*, 2> runners_;
  std::deque<std::unique_ptr<Pair>> pairs_;  // launched and not finished
};

}  // namespace sluice
