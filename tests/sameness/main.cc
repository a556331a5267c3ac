// sluice_sameness MODEL [--tokens N] [--requests R] [--isa NAME] [--kv-dtype NAME] [--seed S]
//                 [--device NAME] [--level 1|2] [--force-op OP=IMPLEMENTATION]
//                 [--state-block TOKENS] [--speculate NAME] [--draft-model MODEL]
//
// Runs a fixed set of requests one by one, then under each perturbation (neighbours, chunks, prefix
// cache, preemption, threads, drafts) until N tokens were compared, and prints how many differ in
// their id or in any bit of their log-prob. Exit code 0 only if none does.
//
// Level 1, the default for devices other than the CPU, keeps what a device may answer to: where a
// prompt is cut into chunks, cache hits and preemption. Neighbours, their order and number,
// padding, graphs and drafts change.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/str_cat.h"
#include "perturbations.h"

namespace sluice::sameness {
namespace {

struct Arguments {
  EngineOptions options;
  int64_t tokens = 20000;
  int requests = 32;
  uint64_t seed = 1;
  int level = 0;  // 0: by the device
  Drafts drafts;  // of the runs that have some

  Arguments() { options.speculate = "none"; }
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const bool value = i + 1 < argc;
    if (std::strcmp(argv[i], "--tokens") == 0 && value) {
      arguments->tokens = std::atoll(argv[++i]);
    } else if (std::strcmp(argv[i], "--requests") == 0 && value) {
      arguments->requests = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--seed") == 0 && value) {
      arguments->seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--isa") == 0 && value) {
      arguments->options.isa = argv[++i];
    } else if (std::strcmp(argv[i], "--kv-dtype") == 0 && value) {
      arguments->options.kv_dtype = argv[++i];
    } else if (std::strcmp(argv[i], "--device") == 0 && value) {
      arguments->options.device = argv[++i];
    } else if (std::strcmp(argv[i], "--force-op") == 0 && value) {
      arguments->options.force_op = argv[++i];
    } else if (std::strcmp(argv[i], "--state-block") == 0 && value) {
      arguments->options.state_block = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--speculate") == 0 && value) {
      arguments->drafts.proposer = argv[++i];
    } else if (std::strcmp(argv[i], "--draft-model") == 0 && value) {
      arguments->drafts.model = argv[++i];
    } else if (std::strcmp(argv[i], "--level") == 0 && value) {
      arguments->level = std::atoi(argv[++i]);
      if (arguments->level < 1 || arguments->level > 2) return false;
    } else if (argv[i][0] != '-' && arguments->options.model.empty()) {
      arguments->options.model = argv[i];
    } else {
      return false;
    }
  }
  return !arguments->options.model.empty() && arguments->tokens > 0 && arguments->requests > 0;
}

// Bytes of KV that hold the longest subject and half as much again, so that others begin beside it:
// by what the engine plans for one sequence.
Result<int64_t> TightMemory(EngineOptions options, int longest) {
  options.max_num_seqs = 1;
  options.max_model_len = longest;
  SLUICE_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options, {}));
  return engine->Info().kv_bytes * 3 / 2;
}

class Runner {
 public:
  explicit Runner(Arguments arguments) : arguments_(std::move(arguments)) {
    const std::string& device = arguments_.options.device;
    const bool cpu = device == "auto" || device == "cpu";
    level_ = arguments_.level != 0 ? arguments_.level : cpu ? 2 : 1;
  }

  Status Run() {
    SLUICE_RETURN_IF_ERROR(RunAlone());
    const std::vector<Perturbation> all =
        level_ == 1 ? LevelOnePerturbations(arguments_.options, arguments_.drafts)
                    : Perturbations(arguments_.options, scarce_, arguments_.drafts);
    if (level_ == 2) {
      SLUICE_ASSIGN_OR_RETURN(const Difference read,
                              ReadBack(arguments_.options, subjects_, expected_));
      SLUICE_RETURN_IF_ERROR(Report("answers read back as prompts", read, 0));
    }
    for (uint64_t seed = arguments_.seed; sum_.tokens < arguments_.tokens; ++seed) {
      for (const Perturbation& perturbation : all) {
        SLUICE_RETURN_IF_ERROR(RunOne(perturbation, seed));
      }
    }
    std::printf("sameness: %lld of %lld tokens differ\n", static_cast<long long>(sum_.differing),
                static_cast<long long>(sum_.tokens));
    return sum_.differing == 0
               ? OkStatus()
               : Status{StatusCode::kInternal, "the same request got another answer"};
  }

 private:
  // One by one, one thread, no prefix cache: what everything else is held against.
  Status RunAlone() {
    EngineOptions& options = arguments_.options;
    const EngineOptions given = options;
    options.prefix_cache = false;
    options.threads = 1;
    if (level_ == 1) FixChunks(kPromptMax, &options);
    SLUICE_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options, {}));
    const EngineInfo info = engine->Info();
    vocab_ = info.vocab_size;
    const int room = std::min(info.max_model_len, kPromptMax * 8 / 5);
    subjects_ = MakeSubjects(arguments_.requests, room * 5 / 8, room / 8, vocab_, arguments_.seed);
    int64_t longest = 0, tokens = 0;
    for (const Request& subject : subjects_) {
      expected_.push_back(Pending::Submit(*engine, subject).Wait());
      SLUICE_RETURN_IF_ERROR(expected_.back().error);
      const auto& prompt = std::get<std::vector<int32_t>>(subject.prompt);
      longest = std::max(longest, static_cast<int64_t>(prompt.size()) + *subject.max_tokens);
      for (const auto& choice : expected_.back().choices) tokens += choice.tokens.size();
    }
    if (level_ == 2) options = given;
    scarce_.max_model_len = static_cast<int>(longest);
    SLUICE_ASSIGN_OR_RETURN(scarce_.kv_bytes, TightMemory(options, scarce_.max_model_len));
    EngineOptions drafting = options;
    arguments_.drafts.Set(arguments_.drafts.proposer, &drafting);
    SLUICE_ASSIGN_OR_RETURN(scarce_.kv_bytes_drafting,
                            TightMemory(drafting, scarce_.max_model_len));
    std::printf("%s on %s, %s, KV %s, level %d: %d requests, %lld tokens alone\n",
                info.model_name.c_str(), info.device.c_str(), info.isa.c_str(),
                options.kv_dtype.c_str(), level_, arguments_.requests,
                static_cast<long long>(tokens));
    return OkStatus();
  }

  // Whether sequences get in each other's way is a matter of time, so a run that must preempt has
  // several tries, in other orders.
  Status RunOne(const Perturbation& perturbation, uint64_t seed) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      double preempted = 0;
      SLUICE_ASSIGN_OR_RETURN(const Difference one,
                              sameness::Run(perturbation, subjects_, expected_, vocab_,
                                            seed + 1000 * attempt, &preempted));
      SLUICE_RETURN_IF_ERROR(Report(perturbation.name, one, preempted));
      if (!perturbation.must_preempt || preempted > 0) return OkStatus();
    }
    return Status{StatusCode::kInternal,
                  "nothing was preempted: the run with little memory shows nothing"};
  }

  Status Report(const std::string& name, const Difference& one, double preempted) {
    sum_.tokens += one.tokens;
    sum_.differing += one.differing;
    std::printf("  %-32s %8lld tokens, %lld differ", name.c_str(),
                static_cast<long long>(one.tokens), static_cast<long long>(one.differing));
    if (preempted > 0) std::printf(", %.0f preemptions", preempted);
    std::printf("\n");
    std::fflush(stdout);
    if (one.tokens == 0)
      return Status{StatusCode::kInternal, StrCat(name, ": no token was compared")};
    return OkStatus();
  }

  static constexpr int kAttempts = 10, kPromptMax = 640;

  Arguments arguments_;
  std::vector<Request> subjects_;
  std::vector<Outcome> expected_;
  Difference sum_;
  int vocab_ = 0, level_ = 2;
  Scarcity scarce_;
};

}  // namespace
}  // namespace sluice::sameness

int main(int argc, char** argv) {
  sluice::sameness::Arguments arguments;
  if (!sluice::sameness::Parse(argc, argv, &arguments)) {
    std::fprintf(stderr,
                 "Usage: sluice_sameness MODEL [--tokens N] [--requests R] [--isa NAME] "
                 "[--kv-dtype NAME] [--seed S] [--device NAME] [--level 1|2] [--state-block N] "
                 "[--speculate NAME] [--draft-model MODEL]\n");
    return 2;
  }
  const sluice::Status status = sluice::sameness::Runner(std::move(arguments)).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "sameness: %s\n", status.message().c_str());
  return 1;
}
