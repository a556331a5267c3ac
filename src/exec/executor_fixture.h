// For tests: a tiny checkpoint of tests/golden/models with an executor over it, on the CPU or on a
// device whose memory the host cannot read, and plans made by hand. One thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/source_dir_fixture.h"
#include "batch/mask_fixture.h"
#include "device/resolver.h"
#include "exec/executor.h"
#include "exec/memory_plan.h"
#include "files/model_files.h"
#include "model/load/load_model.h"
#include "ops/queued_device_fixture.h"

namespace sluice::exec {

inline constexpr int kTestBlock = 8, kTestKernelBlock = 4, kTestLength = 96, kTestSlots = 8;
inline constexpr int kTestStateBlock = 16;

// "cpu" or "xpu", a real one, or a queued device: "pinned" or "plain", after the host memory that
// copies use, "chunks", whose graphs hold chunks of prefill, "nographs", "noattention",
// "nosampling", "nonorms" and "nohostcalls", whose graphs cannot hold these, "checked", which waits
// after each op, "reference", "codes" and "chains", whose products are the references, read codes
// and come in chains, or "greedy", whose linears take more scratch memory than they say.
inline std::unique_ptr<device::Device> OpenTestDevice(const std::string& name) {
  if (name == "cpu" || name == "xpu") {
    const auto resolved = device::ResolveDevice(name, device::LinkedBackends());
    return std::move(resolved->Open({.threads = 1}).value());
  }
  ops::QueuedDevice::Options options;
  options.pinned_memory = name != "plain";
  options.check_each_op = name == "checked";
  options.reference_products = name == "reference" || name == "codes" || name == "chains";
  options.chains = name == "chains";
  options.takes_codes = name == "codes";
  if (name == "greedy") options.scratch_excess = 1;
  if (name == "nosampling") options.piecewise_op = "sample";
  if (name == "nonorms") options.piecewise_op = "norm";
  if (name == "noattention") options.graphs = device::GraphSupport::kPiecewise;
  if (name == "nohostcalls") options.captures_host_calls = false;
  if (name == "nographs") options.graphs = device::GraphSupport::kNone;
  return std::make_unique<ops::QueuedDevice>(options);
}

// What a sequence drew, as tests compare it.
struct Drawn {
  int32_t id = 0;
  float logprob = 0;
  friend bool operator==(const Drawn&, const Drawn&) = default;
  friend void PrintTo(const Drawn& d, std::ostream* out) { *out << d.id << " " << d.logprob; }
};

inline batch::SamplingParams Greedy(int top_logprobs = 2) {
  batch::SamplingParams params;
  params.temperature = 0.0f;
  params.top_logprobs = top_logprobs;
  return params;
}

struct TinyOptions {
  std::string device = "cpu";  // of OpenTestDevice
  device::GraphSupport graphs = device::GraphSupport::kFull;
  DType kv_dtype = DType::kF16;
  int group_blocks = 0;  // of every group; 0: for kTestSlots sequences of kTestLength tokens
  int draft_tokens = 0;
  bool draft_trees = false;
  decltype(Executor::Options::propose) propose = nullptr;
  ExpertRanks ranks = {};
  std::vector<int> host_layers = {};  // whose experts lie on the host
};

// Everything below an executor.
struct TinyExecutor {
  explicit TinyExecutor(const std::string& name, TinyOptions tiny = {}) {
    files = std::move(files::OpenModel(SourceDir() + "/tests/golden/models/" + name).value());
    device = OpenTestDevice(tiny.device);
    model::ModelOptions options;
    options.max_tokens = 128;
    options.max_logits_rows = 128;
    options.max_model_len = kTestLength;
    options.block_tokens = kTestBlock;
    options.kernel_block_tokens = kTestKernelBlock;
    options.state_block_tokens = kTestStateBlock;
    options.draft_tokens = tiny.draft_tokens;
    options.draft_trees = tiny.draft_trees;
    options.expert_slots = tiny.ranks.slots();
    std::optional<weights::WeightPlan> host_plan;
    if (!tiny.host_layers.empty()) {
      host = OpenTestDevice("cpu");
      options.host = host.get();
      host_plan = model::PlanHostExperts(files, *host, tiny.host_layers).value();
      options.host_layers = std::move(tiny.host_layers);
    }
    options.kv_dtype = tiny.kv_dtype;
    options.records = &bindings;
    // The checkpoint's head guesses, unless something else does.
    if (tiny.draft_tokens > 0 && tiny.propose == nullptr)
      options.mtp_heads = files.config.mtp_heads;
    weights::WeightPlan plan =
        model::PlanWeights(files, *device, options.activation, options.mtp_heads,
                           options.expert_slots, options.host_layers)
            .value();
    model = std::move(
        model::LoadModel(files.config, std::move(plan), *device, options, std::move(host_plan))
            .value());
    if (tiny.ranks.slots() > 0)
      mover = std::move(ExpertMover::Make(*device, *model, tiny.ranks).value());
    std::vector<batch::KvGroup> groups = model->groups();
    for (batch::KvGroup& group : groups) {
      group.num_blocks =
          tiny.group_blocks > 0 ? tiny.group_blocks : kTestSlots * kTestLength / kTestBlock;
    }
    store = std::move(kvstore::KvStore::Make(*device, groups).value());
    executor = std::move(Executor::Make(*device, *model, *store,
                                        {.max_num_seqs = kTestSlots,
                                         .depth = 2,
                                         .graphs = tiny.graphs,
                                         .graph_chunk_tokens = tiny.device == "chunks" ? 128 : 0,
                                         .draft_tokens = tiny.draft_tokens,
                                         .propose = std::move(tiny.propose),
                                         .mover = mover.get(),
                                         .bindings = &bindings})
                             .value());
  }

  // Of a queued device.
  ops::QueuedDevice& queued() { return static_cast<ops::QueuedDevice&>(*device); }

  // Puts a step on the device, its masks too. A step whose masks meet an error is dropped.
  Result<Step> Start(batch::BatchPlan plan, const batch::TestMasks* masks, batch::KvSink* sink) {
    if (masks != nullptr) batch::MarkMasked(*masks, &plan);
    const batch::BatchPlan kept = plan;
    SLUICE_ASSIGN_OR_RETURN(Step step, executor->Launch(&plan, sink));
    if (!step.waits_for_masks()) return step;
    batch::MaskSet set = batch::MasksOf(*masks, kept, model->vocab_size());
    if (spoil_masks) set.words.pop_back();
    SLUICE_RETURN_IF_ERROR(step.Sample(set));
    return step;
  }
  Status Launch(batch::BatchPlan plan, const batch::TestMasks* masks = nullptr,
                batch::KvSink* sink = nullptr) {
    SLUICE_ASSIGN_OR_RETURN(Step step, Start(std::move(plan), masks, sink));
    steps.push_back(std::move(step));
    return OkStatus();
  }
  // The oldest step that was launched.
  Status Finish(batch::StepResult* result) {
    Step step = std::move(steps.front());
    steps.pop_front();
    return step.Finish(result);
  }
  Result<batch::StepResult> Run(batch::BatchPlan plan, const batch::TestMasks* masks = nullptr,
                                batch::KvSink* sink = nullptr) {
    SLUICE_ASSIGN_OR_RETURN(Step step, Start(std::move(plan), masks, sink));
    costs = step.costs();
    batch::StepResult result;
    SLUICE_RETURN_IF_ERROR(step.Finish(&result));
    return result;
  }

  files::ModelFiles files;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Device> host;  // that has experts; null: none
  std::vector<ops::BindRecord> bindings;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<ExpertMover> mover;  // null: experts stay where they are
  std::unique_ptr<kvstore::KvStore> store;
  std::unique_ptr<Executor> executor;
  std::deque<Step> steps;  // launched and not finished
  StepCosts costs;         // of the last Run
  bool spoil_masks = false;
};

// A logits row of an entry: `offset` counts the entry's tokens.
struct TestRow {
  int offset = 0;
  batch::RowPurpose purpose = batch::RowPurpose::kSample;
  int32_t target = -1;
};

// A plan put together entry by entry. The blocks of the sequence in slot s are the s-th part of
// every pool, in descending order; each plan tells them whole.
class PlanBuilder {
 public:
  PlanBuilder(uint64_t step, size_t groups) {
    plan_.step = step;
    plan_.groups.resize(groups);
    for (batch::GroupTable& table : plan_.groups) table.begin = {0};
  }
  PlanBuilder& Entry(int slot, int first, const std::vector<batch::TokenRef>& tokens,
                     const std::vector<TestRow>& rows, int blocks_of = -1) {
    batch::PlanEntry entry;
    entry.sequence = static_cast<batch::SequenceId>(slot + 1);
    entry.slot = slot;
    entry.told_whole = plan_.step;
    entry.first_position = first;
    entry.query_tokens = static_cast<int32_t>(tokens.size());
    entry.token_begin = static_cast<int32_t>(plan_.tokens.size());
    entry.logits_begin = static_cast<int32_t>(plan_.logits_rows.size());
    entry.logits_count = static_cast<int32_t>(rows.size());
    for (const TestRow& row : rows) {
      plan_.logits_rows.push_back({entry.token_begin + row.offset, row.target, row.purpose});
    }
    plan_.tokens.insert(plan_.tokens.end(), tokens.begin(), tokens.end());
    const int end = first + entry.query_tokens;
    for (batch::GroupTable& table : plan_.groups) {
      for (int i = 0; i * kTestKernelBlock < end; ++i) {
        table.ids.push_back(KernelBlock(blocks_of < 0 ? slot : blocks_of, i));
      }
      table.begin.push_back(static_cast<int32_t>(table.ids.size()));
      table.first.push_back(0);
    }
    plan_.entries.push_back(entry);
    return *this;
  }
  // The last entry goes on from what earlier plans told, back to step `told_whole`: it tells its
  // blocks from number `first` on, in every group.
  PlanBuilder& GoesOn(uint64_t told_whole, int32_t first) {
    plan_.entries.back().told_whole = told_whole;
    for (batch::GroupTable& table : plan_.groups) {
      const size_t e = plan_.entries.size() - 1;
      table.ids.erase(table.ids.begin() + table.begin[e],
                      table.ids.begin() + table.begin[e] + first);
      table.begin[e + 1] -= first;
      table.first[e] = first;
    }
    return *this;
  }
  // The drafts of the last entry are a tree.
  PlanBuilder& Tree(const std::vector<int32_t>& parents) {
    plan_.entries.back().tree = static_cast<int32_t>(plan_.parents.size());
    plan_.parents.insert(plan_.parents.end(), parents.begin(), parents.end());
    return *this;
  }
  PlanBuilder& Start(int slot, const batch::SamplingParams& sampling,
                     std::vector<int32_t> history) {
    batch::SlotStart start;
    start.slot = slot;
    start.sampling = sampling;
    start.prompt_tokens = static_cast<int32_t>(history.size());
    start.history = std::move(history);
    plan_.starts.push_back(std::move(start));
    return *this;
  }
  batch::BatchPlan& plan() { return plan_; }

  // The cache block that holds tokens [i * kTestBlock, ...) of the sequence in `slot`.
  static int CacheBlock(int slot, int i) {
    constexpr int kBlocks = kTestLength / kTestBlock;
    return slot * kBlocks + kBlocks - 1 - i;
  }
  static int KernelBlock(int slot, int i) {
    constexpr int kRatio = kTestBlock / kTestKernelBlock;
    return CacheBlock(slot, i / kRatio) * kRatio + i % kRatio;
  }

 private:
  batch::BatchPlan plan_;
};

}  // namespace sluice::exec
