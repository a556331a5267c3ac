// EngineOptions: everything that shapes an engine, const after Open. Each option is declared once,
// in ForEach: field, flag, help with unit, and range; the command line, the TOML file and the
// environment are all derived from it.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/limits.h"

namespace sluice {

struct EngineOptions {
  // For `sluice inspect` too, which has the option and no engine.
  static constexpr char kKvDtypeHelp[] =
      "number format of the KV cache: auto (f32 for F32 weights, else bf16 on CUDA and AMX, f16 "
      "elsewhere), f32, f16, bf16, fp8 or int8";

  std::string model;  // a .gguf file, a Hugging Face folder, or a name in the model cache
  std::string served_model_name;
  std::string device = "auto";
  int threads = 0;
  std::string isa;
  int max_model_len = 0;
  int max_num_seqs = 64;
  int max_batch_tokens = 512;
  std::string kv_memory;
  std::string kv_dtype = "auto";
  int block_size = 32;
  int kernel_block_size = 32;
  int state_block = 2048;
  bool prefix_cache = true;
  std::string graphs = "full";
  int graph_chunk_tokens = 0;
  std::string speculate = "auto";
  std::string draft_model;
  int speculate_tokens = limits::kDraftTokensMax;
  bool speculate_adapt = true;
  bool speculate_tree = false;
  std::string speculate_verify = "exact";
  double speculate_synthetic = 0.0;
  bool jump_forward = true;
  int max_queue = 1024;
  int64_t max_queue_tokens = 1 << 22;
  std::string scheduler_policy = "fair";
  int text_workers = 1;
  std::string tool_parser = "auto";
  std::string reasoning_parser = "auto";
  uint64_t seed = 0;
  std::string force_op;
  bool explain_kernels = false;
  bool check_each_op = false;
  std::string dump_activations;
  std::string experts_on = "auto";
  int expert_ranks = 1;
  int redundant_experts = 0;
  std::string expert_balance_interval = "3000";
  std::string expert_migration_bytes = "32MiB";
  bool fake_balance_experts = false;
  // Of drafts, by a step, at most. Without a flag: 0.5 ms is what a thread takes to wake on a busy
  // machine, and little beside a step that is worth drafts.
  int64_t draft_wait_us = 500;
  // For measuring, without a flag: fill EngineInfo::device_busy_s and device_idle_s.
  bool time_steps = false;

  // visitor(field, flag, help, min, max) for numbers; visitor(field, flag, help) for the rest.
  template <class Visitor>
  void ForEach(Visitor&& v) {
    v(served_model_name, "served-model-name",
      "name that clients use; default: the model's file name");
    v(device, "device",
      "auto (cuda, else xpu, else cpu), cpu, cuda[:i] or xpu[:i]; see sluice devices");
    v(threads, "threads", "CPU worker threads; 0: one per physical core", 0, 1024);
    v(isa, "isa", "CPU instruction set: auto (the best), ref, avx2, avx512 or amx");
    v(max_model_len, "max-model-len",
      "tokens of prompt and answer; 0: what the model declares or fits", 0, 1 << 24);
    v(max_num_seqs, "max-num-seqs", "sequences that run at once", 1, 4096);
    v(max_batch_tokens, "max-batch-tokens", "tokens computed in one step", 1, 1 << 20);
    v(kv_memory, "kv-memory", "memory of the KV cache, as 512MiB or 2GiB; default: what fits");
    v(kv_dtype, "kv-dtype", kKvDtypeHelp);
    v(block_size, "block-size", "tokens of a cache block", 1, 1024);
    v(kernel_block_size, "kernel-block-size", "tokens of a kernel block; divides the block size", 1,
      1024);
    v(state_block, "state-block",
      "tokens between snapshots of a recurrent layer's state, a power of two; prompts share "
      "beginnings of multiples of it",
      1, 1 << 20);
    v(prefix_cache, "prefix-cache", "share KV of equal prompt beginnings within one API key");
    v(graphs, "graphs",
      "how much of a step runs as captured graphs where the device has them: none, piecewise (all "
      "but attention) or full");
    v(graph_chunk_tokens, "graph-chunk-tokens",
      "run steps with chunks of prefill as graphs up to so many tokens; 0: none", 0, 1 << 20);
    ForEachOfDrafts(v);
    v(max_queue, "max-queue", "requests that may wait", 1, 1 << 20);
    v(max_queue_tokens, "max-queue-tokens", "tokens of prompts that may wait", 1, 1 << 30);
    v(scheduler_policy, "scheduler-policy",
      "fair: API keys, or else addresses, share the steps, and of one's requests each step by "
      "which the field priority (-100 to 100) is lower counts as 10 s of waiting; priority: the "
      "same without regard to keys; fcfs: by arrival, and that field is ignored");
    v(text_workers, "text-workers", "threads that tokenize and detokenize", 1, 64);
    v(tool_parser, "tool-parser",
      "how the model writes calls of tools: auto (told from its chat template), none, or a name "
      "that docs/tool-calls.md lists");
    v(reasoning_parser, "reasoning-parser",
      "how the model sets apart what it thinks: auto (told from its chat template), none, or a "
      "name that docs/tool-calls.md lists");
    v(seed, "engine-seed", "seed of the seeds given to requests without one; 0: drawn at random");
    v(force_op, "force-op", "op=implementation[,...]: use this implementation or fail");
    v(explain_kernels, "explain-kernels",
      "print which implementation was chosen for each op and why");
    v(check_each_op, "check-each-op",
      "wait for the device after each op, so that an error names it; no graphs, slow");
    v(dump_activations, "dump-activations",
      "for kernel writers: FOLDER:LAYERS:STEPS, as /tmp/dump:0,11:0-3, writes there what these "
      "layers gave in these steps, a safetensors file each; steps do not overlap then");
    ForEachOfExperts(v);
    v(fake_balance_experts, "fake-balance-experts",
      "for load tests: tokens take experts in turn, so that all have equally many; answers mean "
      "nothing, and each says so in its system_fingerprint");
  }

 private:
  template <class Visitor>
  void ForEachOfExperts(Visitor& v) {
    v(experts_on, "experts-on",
      "where experts lie and are computed: device, host (in the host's memory, by the CPU, beside "
      "the device that does the rest), host:LAYERS (those of these layers, as host:0-11,20), or "
      "auto "
      "(on the device; where the model does not fit there, those of as many first layers on the "
      "host as it takes)");
    v(expert_ranks, "expert-ranks",
      "ranks that share the experts of each layer evenly, all on this device; experts move between "
      "them as they are loaded (docs/experts.md); 1: experts stay where they are",
      1, 512);
    v(redundant_experts, "redundant-experts",
      "copies of each layer's busiest experts beside the first, with --expert-ranks", 0, 1024);
    v(expert_balance_interval, "expert-balance-interval",
      "when ranks are balanced anew: every so many steps, as 3000, or seconds, as 60s; none: by "
      "POST /admin/experts alone");
    v(expert_migration_bytes, "expert-migration-bytes",
      "of experts on their way to other ranks, copied between two steps at most, as 32MiB");
  }

  template <class Visitor>
  void ForEachOfDrafts(Visitor& v) {
    v(speculate, "speculate",
      "where drafts come from that a step verifies, which changes no answer: none, ngram (what "
      "followed the last tokens where they stood before in prompt and answer), suffix (what "
      "followed them most often, there or in what was asked and answered before with the same API "
      "key), mtp (a head in the checkpoint that predicts tokens), model (the one that "
      "--draft-model names), eagle or eagle3 (the head of EAGLE's or EAGLE-3's form that "
      "--draft-model names), block (the head of parallel EAGLE's or DFlash's form that it names, "
      "which gives all drafts in one pass), or auto (what --draft-model names, mtp where there is "
      "one, else "
      "suffix on the CPU, none elsewhere)");
    v(draft_model, "draft-model",
      "a second, smaller model of the same vocabulary, or the folder of a head of EAGLE's, "
      "EAGLE-3's, "
      "parallel EAGLE's or DFlash's form, whose drafts a step verifies; for load tests one with "
      "random weights: synthetic:eagle, synthetic:eagle3, synthetic:block, synthetic:dflash");
    v(speculate_tokens, "speculate-tokens", "drafts of a sequence in a step, at most", 1,
      limits::kDraftTokensMax);
    v(speculate_adapt, "speculate-adapt",
      "verify as many drafts as pay, by what a step costs with them and how many were right, which "
      "may be none; without it all that there are");
    v(speculate_tree, "speculate-tree",
      "let drafts be trees, where these are expected to hold more of what is drawn: suffix adds "
      "what followed second most often, a head or a second model what it finds nearly as likely; "
      "on "
      "devices whose attention takes them");
    v(speculate_verify, "speculate-verify",
      "which drafts count: exact (those that would be drawn) or rejection (by rejection sampling)");
    v(speculate_synthetic, "speculate-synthetic",
      "for load tests: take this share of the drafts for what was drawn, right or wrong, so that "
      "answers make no sense; each answer's usage says so",
      0, 1);
    v(jump_forward, "jump-forward",
      "verify tokens that a schema, regex or grammar leaves no choice about as drafts, several in "
      "a step, which changes no answer; on a GPU with --speculate alone");
  }
};

}  // namespace sluice
