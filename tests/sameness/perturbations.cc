#include "perturbations.h"

#include <algorithm>
#include <numeric>

#include "base/str_cat.h"

namespace sluice::sameness {

namespace {

double Metric(const Engine& engine, std::string_view name) {
  const std::string text = engine.Metrics();
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += name.size()) {
    if (at != 0 && text[at - 1] != '\n') continue;
    const size_t space = text.find(' ', at);
    if (space == std::string::npos) break;
    return std::strtod(text.c_str() + space, nullptr);
  }
  return -1;
}

std::vector<int32_t>& PromptOf(Request& request) {
  return std::get<std::vector<int32_t>>(request.prompt);
}

// A request like nothing else, or one that shares the beginning of a subject's prompt.
Request Neighbour(const std::vector<Request>& subjects, int vocab, std::mt19937_64& random) {
  Request request = subjects[random() % subjects.size()];
  std::vector<int32_t>& prompt = PromptOf(request);
  const size_t kept = random() % 2 == 0 ? 0 : random() % (prompt.size() + 1);
  for (size_t i = kept; i < prompt.size(); ++i) {
    prompt[i] = static_cast<int32_t>(vocab / 16 + random() % (vocab / 2));
  }
  request.sampling.seed = random();
  request.max_tokens = 1 + static_cast<int>(random() % *request.max_tokens);
  return request;
}

void WithDrafts(int tokens, Perturbation* perturbation, const Drafts& drafts,
                std::string_view proposer) {
  drafts.Set(proposer, &perturbation->options);
  perturbation->options.speculate_tokens = tokens;
  perturbation->options.speculate_adapt = false;
  perturbation->options.draft_wait_us = 10'000'000;
  perturbation->must_draft = true;
}

}  // namespace

void FixChunks(int prompt_max, EngineOptions* options) {
  options->prefix_cache = false;
  options->max_num_seqs = std::min(options->max_num_seqs, 8);
  options->max_batch_tokens = options->max_num_seqs * (prompt_max + 1);
}

std::vector<Perturbation> LevelOnePerturbations(const EngineOptions& base, const Drafts& drafts) {
  std::vector<Perturbation> list;
  for (const char* const graphs : {"full", "piecewise", "none"}) {
    const auto add = [&](std::string name, int neighbours) -> Perturbation& {
      list.push_back({StrCat(name, ", graphs ", graphs), base, neighbours});
      list.back().options.graphs = graphs;
      return list.back();
    };
    add("neighbours", 1);
    add("neighbours that are cancelled", 2).cancelled = 50;
    Perturbation& together = add("all together", 0);
    together.options.max_num_seqs = 4 * base.max_num_seqs;
    together.options.max_batch_tokens = 4 * base.max_batch_tokens;
    together.rounds = 2;  // a bucket's first step runs without its graph
    add("three at a time", 0).options.max_num_seqs = 3;
    if (graphs != std::string_view("none")) {
      Perturbation& chunks = add("chunks in graphs", 1);
      chunks.options.graph_chunk_tokens = base.max_batch_tokens;
      chunks.rounds = 2;
    }
    for (const int tokens : {2, 8}) {
      WithDrafts(tokens, &add(StrCat("drafts of ", tokens), 1), drafts, drafts.proposer);
    }
    Perturbation& trees = add("drafts in trees", 1);
    WithDrafts(8, &trees, drafts, "suffix");
    trees.options.speculate_tree = true;
    if (drafts.proposer == "ngram" || drafts.proposer == "suffix") continue;
    Perturbation& guessed = add(StrCat("drafts in trees, ", drafts.proposer), 1);
    WithDrafts(8, &guessed, drafts, drafts.proposer);
    guessed.options.speculate_tree = true;
  }
  return list;
}

std::vector<Perturbation> Perturbations(const EngineOptions& base, const Scarcity& scarcity,
                                        const Drafts& drafts) {
  std::vector<Perturbation> list;
  auto add = [&](std::string name, int neighbours) -> Perturbation& {
    list.push_back({std::move(name), base, neighbours});
    list.back().options.threads = 2;
    return list.back();
  };
  add("neighbours", 1).options.prefix_cache = false;
  add("neighbours that are cancelled", 2).cancelled = 50;
  Perturbation& cache = add("prefix cache", 1);
  cache.rounds = 2;
  cache.must_hit = true;
  for (const int tokens : {1, 7, 33, 130}) {
    Perturbation& chunks = add(StrCat("chunks of ", tokens), tokens == 1 ? 0 : 1);
    chunks.options.max_batch_tokens = tokens;
    chunks.options.max_num_seqs = std::min(base.max_num_seqs, tokens);
  }
  Perturbation& memory = add("little memory", 0);
  memory.options.kv_memory = std::to_string(scarcity.kv_bytes) + "B";
  memory.must_preempt = true;
  Perturbation& blocks = add("other blocks, one thread", 1);
  blocks.options.threads = 1;
  blocks.options.block_size = 16;
  blocks.options.kernel_block_size = 16;
  Perturbation& few = add("three at a time", 0);
  few.options.max_num_seqs = 3;
  for (const int tokens : {1, 3, 8}) {
    Perturbation& drafted = add(StrCat("drafts of ", tokens), 1);
    WithDrafts(tokens, &drafted, drafts, drafts.proposer);
    drafted.cancelled = tokens == 3 ? 30 : 0;
  }
  for (const int tokens : {3, 8}) {  // of what others of the key said, too
    WithDrafts(tokens, &add(StrCat("drafts of ", tokens, ", suffix"), 1), drafts, "suffix");
  }
  Perturbation& trees = add("drafts in trees", 2);
  WithDrafts(8, &trees, drafts, "suffix");
  trees.options.speculate_tree = true;
  const bool on_device = drafts.proposer != "ngram" && drafts.proposer != "suffix";
  for (const int tokens : {3, 8}) {
    if (!on_device) break;
    Perturbation& guessed = add(StrCat("drafts of ", tokens, " in trees, ", drafts.proposer), 1);
    WithDrafts(tokens, &guessed, drafts, drafts.proposer);
    guessed.options.speculate_tree = true;
    guessed.cancelled = tokens == 3 ? 30 : 0;
  }
  std::vector<std::string_view> proposers = {"suffix"};
  if (drafts.proposer != "ngram") proposers.push_back(drafts.proposer);
  for (const std::string_view proposer : proposers) {
    Perturbation& paying = add(StrCat("drafts as they pay, ", proposer), 1);
    WithDrafts(8, &paying, drafts, proposer);
    paying.options.speculate_adapt = true;
    paying.options.draft_wait_us = 500;
    paying.must_draft = false;  // which is a matter of time
  }
  Perturbation& cut = add("drafts, chunks of 33", 1);
  WithDrafts(8, &cut, drafts, drafts.proposer);
  cut.options.max_batch_tokens = 33;
  cut.options.max_num_seqs = std::min(base.max_num_seqs, 33);
  Perturbation& scarce = add("drafts, little memory", 0);
  WithDrafts(8, &scarce, drafts, drafts.proposer);
  scarce.options.kv_memory = std::to_string(scarcity.kv_bytes_drafting) + "B";
  scarce.options.max_model_len = scarcity.max_model_len;
  scarce.must_preempt = true;
  return list;
}

Result<Difference> Run(const Perturbation& perturbation, const std::vector<Request>& subjects,
                       const std::vector<Outcome>& expected, int vocab, uint64_t seed,
                       double* preempted) {
  auto engine = Engine::Open(perturbation.options, {});
  if (!engine.ok()) return engine.status();
  std::mt19937_64 random(seed);
  Difference sum;
  for (int round = 0; round < perturbation.rounds; ++round) {
    std::vector<size_t> order(subjects.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Pending> pending(subjects.size()), others;
    for (const size_t subject : order) {
      for (int i = 0; i < perturbation.neighbours; ++i) {
        others.push_back(Pending::Submit(**engine, Neighbour(subjects, vocab, random)));
      }
      pending[subject] = Pending::Submit(**engine, subjects[subject]);
      if (!others.empty() && static_cast<int>(random() % 100) < perturbation.cancelled) {
        (*engine)->Cancel(others[random() % others.size()].id());
      }
    }
    for (size_t i = 0; i < subjects.size(); ++i) {
      const Difference one = Compare(expected[i], pending[i].Wait());
      sum.tokens += one.tokens;
      sum.differing += one.differing;
    }
    for (Pending& other : others) other.Wait();
  }
  *preempted = Metric(**engine, "vllm:num_preemptions_total");
  if (perturbation.must_hit && Metric(**engine, "vllm:prefix_cache_hits_total") == 0) {
    return Status{StatusCode::kInternal,
                  "no prompt was found in the prefix cache: the run shows nothing"};
  }
  const double accepted = Metric(**engine, "vllm:spec_decode_num_accepted_tokens_total");
  const double drafted = Metric(**engine, "vllm:spec_decode_num_draft_tokens_total");
  if (perturbation.must_draft && !(0 < accepted && accepted < drafted)) {
    return Status{StatusCode::kInternal, StrCat(accepted, " of ", drafted,
                                                " drafts were accepted: the run shows nothing")};
  }
  // The second command is answered after a step that has seen the first.
  for (int i = 0; i < 2; ++i) {
    const auto flushed = (*engine)->Admin(R"({"command": "cache_flush"})");
    if (!flushed.ok()) return flushed.status();
  }
  const EngineInfo info = (*engine)->Info();
  if (info.kv_free_blocks != info.kv_blocks) {
    return Status{StatusCode::kInternal,
                  StrCat(info.kv_blocks - info.kv_free_blocks, " KV blocks are not free")};
  }
  return sum;
}

Result<Difference> ReadBack(const EngineOptions& options, const std::vector<Request>& subjects,
                            const std::vector<Outcome>& expected) {
  auto engine = Engine::Open(options, {});
  if (!engine.ok()) return engine.status();
  std::vector<Pending> pending;
  for (size_t i = 0; i < subjects.size(); ++i) {
    Request request = subjects[i];
    const std::vector<int32_t>& answer = expected[i].choices[0].tokens;
    PromptOf(request).insert(PromptOf(request).end(), answer.begin(), answer.end());
    request.n = 1;
    request.max_tokens = 0;
    request.prompt_logprobs = 0;
    pending.push_back(Pending::Submit(**engine, std::move(request)));
  }
  Difference sum;
  for (size_t i = 0; i < subjects.size(); ++i) {
    const std::vector<double>& decoded = expected[i].choices[0].logprobs;
    const Outcome& read = pending[i].Wait();
    Outcome tail, wanted;
    wanted.prompt = decoded;
    if (read.prompt.size() >= decoded.size()) {
      tail.prompt.assign(read.prompt.end() - static_cast<int64_t>(decoded.size()),
                         read.prompt.end());
    }
    tail.error = read.error;
    const Difference one = Compare(wanted, tail);
    sum.tokens += one.tokens;
    sum.differing += one.differing;
  }
  return sum;
}

}  // namespace sluice::sameness
