#include "features.h"
#include "base/source_dir_fixture.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "base/str_cat.h"
#include "sluice/logits_processor.h"

namespace sluice::pairs {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kBanned = 201;  // an id that greedy answers have; see the feature's `shown`
constexpr char kStop[] = "a";
constexpr char kStates[] = "qwen3_next", kStatesName[] = "states", kHead[] = "a head";
constexpr char kExperts[] = "qwen3_moe", kExpertsName[] = "experts";
// A model that heads of EAGLE's form were trained for.
constexpr char kTrainedFor[] = "../drafts/target", kTrainedForName[] = "a head beside";
const std::vector<std::string> kChoices = {"to the", "to the end", "aaaa", "once", "no"};
constexpr char kOneAtATime[] = "one at a time", kChoiceName[] = "one of texts";
constexpr char kSchemaName[] = "a JSON schema", kRegexName[] = "a regex";
constexpr char kCallsName[] = "a required call";
constexpr int kCallTokens = 70;  // more than one has

Feature OfEngine(std::string name, std::string spelling,
                 std::function<void(EngineOptions&)> engine) {
  Feature feature;
  feature.name = std::move(name);
  feature.spelling = std::move(spelling);
  feature.engine = std::move(engine);
  return feature;
}

Feature OfRequest(std::string name, std::string spelling, std::function<void(Request&)> request) {
  Feature feature;
  feature.name = std::move(name);
  feature.spelling = std::move(spelling);
  feature.request = std::move(request);
  return feature;
}

Feature SameAnswer(Feature feature, decltype(Feature::shown) shown) {
  feature.same_answer = true;
  feature.shown = std::move(shown);
  return feature;
}

Feature Checked(Feature feature, decltype(Feature::check) check) {
  feature.check = std::move(check);
  return feature;
}

Feature InPlace(std::string place, Feature feature) {
  feature.place = std::move(place);
  return feature;
}

// Other engines, the same answers.
void AddTransparentEngines(std::vector<Feature>* list) {
  const auto add = [&](Feature feature, decltype(Feature::shown) shown) {
    list->push_back(SameAnswer(std::move(feature), std::move(shown)));
  };
  add(OfEngine("prefix cache", "--prefix-cache", [](EngineOptions& o) { o.prefix_cache = true; }),
      [](const Outcome& with, const Outcome&) { return with.hits > 0; });
  add(OfEngine("chunked prefill", "--max-batch-tokens",
               [](EngineOptions& o) { o.max_batch_tokens = o.max_num_seqs = 5; }),
      [](const Outcome& with, const Outcome& plain) { return with.steps > plain.steps; });
  // The draft is the model itself, so that it has the vocabulary of any.
  add(InPlace("drafts", OfEngine("drafts of a model", "--speculate model",
                                 [](EngineOptions& o) {
                                   o.speculate = "model";
                                   o.draft_model = o.model;
                                   o.speculate_adapt = false;
                                 })),
      [](const Outcome& with, const Outcome&) { return with.accepted > 0; });
  list->back().refused = {{kStatesName, "has recurrent layers"}};
  // Room for a sequence of the most tokens and little more, twice of it beside a draft. Comes
  // behind the features that choose a model, whose states take more than the others' KV.
  add(OfEngine("little memory", "--kv-memory",
               [](EngineOptions& o) {
                 const bool more = o.model.ends_with(kStates) || o.model.ends_with(kExperts) ||
                                   o.model.ends_with(kTrainedFor) || o.speculate == "model";
                 o.kv_memory = more ? "128KiB" : "48KiB";
               }),
      [](const Outcome& with, const Outcome&) { return with.preempted > 0; });
  add(OfEngine("moving experts", "--expert-ranks",
               [](EngineOptions& o) {
                 o.expert_ranks = o.redundant_experts = 2;
                 o.expert_balance_interval = "2";
                 o.expert_migration_bytes = "4000";
               }),
      [](const Outcome& with, const Outcome&) { return with.moved > 0; });
  list->back().needs = kExpertsName;
  add(OfEngine(kOneAtATime, "--max-num-seqs", [](EngineOptions& o) { o.max_num_seqs = 1; }),
      [](const Outcome& with, const Outcome& plain) { return with.steps > plain.steps; });
  add(OfEngine("other blocks", "--block-size",
               [](EngineOptions& o) { o.block_size = o.kernel_block_size = 16; }),
      [](const Outcome&, const Outcome&) { return true; });
  add(OfEngine("two threads", "--threads", [](EngineOptions& o) { o.threads = 2; }),
      [](const Outcome&, const Outcome&) { return true; });
  for (const auto& [name, level] :
       {std::pair{"no graphs", "none"}, {"graphs in pieces", "piecewise"}}) {
    add(InPlace("graphs", OfEngine(name, std::string("--graphs ") + level,
                                   [level = level](EngineOptions& o) { o.graphs = level; })),
        [](const Outcome&, const Outcome&) { return true; });
  }
  add(OfEngine("chunks in graphs", "--graph-chunk-tokens",
               [](EngineOptions& o) { o.graph_chunk_tokens = o.max_batch_tokens; }),
      [](const Outcome&, const Outcome&) { return true; });
  add(OfEngine("by arrival", "--scheduler-policy fcfs",
               [](EngineOptions& o) { o.scheduler_policy = "fcfs"; }),
      [](const Outcome&, const Outcome&) { return true; });
}

// Drafts, which change no answer either.
void AddDrafts(std::vector<Feature>* list) {
  const auto add = [&](Feature feature, decltype(Feature::shown) shown) {
    list->push_back(SameAnswer(std::move(feature), std::move(shown)));
  };
  for (const auto& [name, proposer, flag] : {std::tuple{kDrafts, "ngram", "--speculate ngram"},
                                             {"suffix drafts", "suffix", "--speculate suffix"},
                                             {"drafts in trees", "suffix", "--speculate-tree"},
                                             {"drafts of the head", "mtp", "--speculate mtp"}}) {
    const bool tree = std::string_view(flag).ends_with("tree");
    add(InPlace("drafts", OfEngine(name, flag,
                                   [proposer = proposer, tree](EngineOptions& o) {
                                     o.speculate = proposer;
                                     o.speculate_tree = tree;
                                     // A tiny model's steps are too short to be worth a draft, or
                                     // to wait for it.
                                     o.speculate_adapt = false;
                                     o.draft_wait_us = 10'000'000;
                                   })),
        [](const Outcome& with, const Outcome&) { return with.accepted > 0; });
  }
  list->back().needs = kHead;
  for (const auto& [name, proposer, head] : {std::tuple{"drafts of EAGLE-3", "eagle3", "eagle3"},
                                             {"drafts of EAGLE", "eagle", "eagle1"},
                                             {"drafts of a block", "block", "block"},
                                             {"trees of EAGLE-3", "eagle3", "eagle3"}}) {
    const bool tree = std::string_view(name).starts_with("trees");
    const std::string flag =
        std::string("--speculate ") + proposer + (tree ? " --speculate-tree" : "");
    add(InPlace("drafts", OfEngine(name, flag,
                                   [proposer = proposer, head = head, tree](EngineOptions& o) {
                                     o.speculate = proposer;
                                     o.speculate_tree = tree;
                                     o.draft_model = o.model + "/../" + head;
                                     o.speculate_adapt = false;
                                   })),
        [](const Outcome& with, const Outcome&) { return with.accepted > 0; });
    list->back().needs = kTrainedForName;
  }
}

// Engines that answer otherwise.
void AddOtherEngines(std::vector<Feature>* list) {
  for (const char* const type : {"fp8", "int8"}) {
    list->push_back(InPlace("KV", OfEngine(std::string(type) + " KV", "--kv-dtype",
                                           [type](EngineOptions& o) { o.kv_dtype = type; })));
  }
  const auto model = [&](const char* name, const char* folder) {
    list->push_back(InPlace("model", OfEngine(name, "MODEL", [folder](EngineOptions& o) {
                              o.model = PlainOptions().model + "/../" + folder;
                            })));
  };
  model("windows", "gemma3");
  model(kStatesName, kStates);
  model(kHead, "mimo");
  model(kTrainedForName, kTrainedFor);
  model(kExpertsName, kExperts);
}

// More is told of the same answer.
void AddTransparentRequests(std::vector<Feature>* list) {
  const auto add = [&](Feature feature, decltype(Feature::shown) shown) {
    list->push_back(SameAnswer(std::move(feature), std::move(shown)));
  };
  add(OfRequest("several choices", "n", [](Request& r) { r.n = 3; }),
      [](const Outcome& with, const Outcome&) { return with.answers[0]->choices.size() == 3; });
  add(OfRequest("log-probs", "logprobs", [](Request& r) { r.logprobs = 3; }),
      [](const Outcome& with, const Outcome&) {
        return !with.answers[0]->choices[0].logprobs.empty();
      });
  add(OfRequest("prompt log-probs", "prompt_logprobs", [](Request& r) { r.prompt_logprobs = 1; }),
      [](const Outcome& with, const Outcome&) { return !with.answers[0]->prompt.empty(); });
  add(OfRequest("whole distributions", "Request::all_logprobs",
                [](Request& r) { r.all_logprobs = Distribution::kRaw; }),
      [](const Outcome& with, const Outcome&) {
        return with.answers[0]->choices[0].distributions > 0;
      });
  add(OfRequest("priority", "priority",
                [](Request& r) { r.priority = static_cast<int>(*r.sampling.seed); }),
      [](const Outcome&, const Outcome&) { return true; });
}

// What it answers is said by more than the model.
bool IsHeld(const Request& request) {
  return !request.choice.empty() || request.grammar.kind != Grammar::Kind::kNone ||
         request.tool_choice.required;
}

template <class Set>
Feature Sampled(std::string name, std::string spelling, Set set) {
  return OfRequest(std::move(name), std::move(spelling), [set](Request& r) {
    if (r.sampling.temperature == 0.0) r.sampling.temperature = 0.8;
    set(r.sampling);
  });
}

void AddSampling(std::vector<Feature>* list) {
  list->push_back(Sampled("temperature", "temperature", [](Sampling&) {}));
  list->push_back(Sampled("top-k", "top_k", [](Sampling& s) { s.top_k = 5; }));
  list->push_back(Sampled("top-p", "top_p", [](Sampling& s) { s.top_p = 0.7; }));
  list->push_back(Sampled("min-p", "min_p", [](Sampling& s) { s.min_p = 0.2; }));
  const auto penalty = [&](const char* name, const char* spelling, auto set) {
    list->push_back(OfRequest(name, spelling, [set](Request& request) { set(request.sampling); }));
  };
  penalty("repetition penalty", "repetition_penalty",
          [](Sampling& s) { s.repetition_penalty = 1.3; });
  penalty("presence penalty", "presence_penalty", [](Sampling& s) { s.presence_penalty = 0.7; });
  penalty("frequency penalty", "frequency_penalty", [](Sampling& s) { s.frequency_penalty = 0.6; });
  list->push_back(Checked(OfRequest("no repeated n-gram", "no_repeat_ngram_size",
                                    [](Request& r) { r.sampling.no_repeat_ngram = 3; }),
                          [](const Request& request, const Choice& choice) -> std::string {
                            // What is held to few texts has to repeat what they repeat.
                            if (IsHeld(request)) return "";
                            std::set<std::vector<int32_t>> seen;
                            for (size_t i = 0; i + 3 <= choice.ids.size(); ++i) {
                              const auto at = choice.ids.begin() + static_cast<int64_t>(i);
                              if (!seen.insert({at, at + 3}).second) return "repeats three ids";
                            }
                            return "";
                          }));
  list->push_back(Checked(OfRequest("logit bias", "logit_bias",
                                    [](Request& r) {
                                      r.sampling.logit_bias = {{kBanned, -100.0}};
                                    }),
                          [](const Request& request, const Choice& choice) -> std::string {
                            const bool has = std::find(choice.ids.begin(), choice.ids.end(),
                                                       kBanned) != choice.ids.end();
                            return has && !IsHeld(request) ? "has an id that is banned" : "";
                          }));
}

// An embedder's: what it adds depends on every token before.
class Shifting : public LogitsProcessor {
 public:
  void Process(const Row& row, std::span<float> logits) override {
    size_t sum = row.prompt.size();
    for (const int32_t id : row.answer) sum += static_cast<size_t>(id);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] += static_cast<float>((i + sum) % 7) / 4;
  }
};

void AddEmbedders(std::vector<Feature>* list) {
  list->push_back(OfRequest("logits processor", "Request::logits_processor",
                            [](Request& r) { r.logits_processor = std::make_shared<Shifting>(); }));
}

// Where answers end.
void AddEnds(std::vector<Feature>* list) {
  list->push_back(Checked(OfRequest("stop string", "stop", [](Request& r) { r.stop = {kStop}; }),
                          [](const Request& request, const Choice& choice) -> std::string {
                            // One within the first min_tokens tokens is passed over.
                            if (request.min_tokens > 0) return "";
                            return choice.text.find(kStop) == std::string::npos
                                       ? ""
                                       : "has the stop string";
                          }));
  list->push_back(Checked(OfRequest("stop tokens", "stop_token_ids",
                                    [](Request& r) {
                                      for (int32_t id = 40; id < 80; ++id) {
                                        r.stop_token_ids.push_back(id);
                                      }
                                    }),
                          [](const Request& request, const Choice& choice) -> std::string {
                            for (size_t i = request.min_tokens; i + 1 < choice.ids.size(); ++i) {
                              const int32_t id = choice.ids[i];
                              if (id >= 40 && id < 80) return "goes on behind a stop token";
                            }
                            return "";
                          }));
  list->push_back(Checked(OfRequest("at most", "max_tokens", [](Request& r) { r.max_tokens = 11; }),
                          [](const Request&, const Choice& choice) -> std::string {
                            return choice.ids.size() <= 11 ? "" : "is longer than max_tokens";
                          }));
  list->push_back(Checked(OfRequest("at least", "min_tokens",
                                    [](Request& r) {
                                      r.min_tokens = 9;
                                      r.ignore_eos = false;
                                      // Ends early without it.
                                      for (int32_t id = 80; id < 128; ++id)
                                        r.stop_token_ids.push_back(id);
                                    }),
                          [](const Request& request, const Choice& choice) -> std::string {
                            const bool other_end = IsHeld(request) || !request.stop.empty();
                            return other_end || choice.ids.size() >= 9
                                       ? ""
                                       : "is shorter than min_tokens";
                          }));
}

// Calls may have white space between the parts of their JSON.
std::string WithoutSpace(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
  return text;
}

// An answer that is one of `texts`, or cut off within one. `longest`: its tokens.
Feature HeldTo(std::vector<std::string> texts, int longest, Feature feature) {
  return Checked(std::move(feature), [texts = std::move(texts), longest](const Request& request,
                                                                         const Choice& choice) {
    const bool whole =
        request.stop.empty() && request.stop_token_ids.empty() && *request.max_tokens >= longest;
    const std::string said = WithoutSpace(choice.text);
    const bool fits = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return whole ? WithoutSpace(text) == said : WithoutSpace(text).starts_with(said);
    });
    return std::string(fits ? "" : "is none of the texts");
  });
}

// What answers are held to.
void AddConstraints(std::vector<Feature>* list) {
  list->push_back(HeldTo(
      kChoices, 21, OfRequest(kChoiceName, "choice", [](Request& r) { r.choice = kChoices; })));
  const auto grammar = [&](const char* name, const char* spelling, Grammar::Kind kind,
                           const char* text, std::vector<std::string> texts) {
    list->push_back(InPlace(
        "grammar", HeldTo(std::move(texts), 40, OfRequest(name, spelling, [kind, text](Request& r) {
                            r.grammar = {kind, text};
                          }))));
    list->back().refused = {{kChoiceName, "either to a grammar or to a choice of texts"}};
  };
  std::vector<std::string> objects, words;
  for (const char* done : {"true", "false"}) {
    for (int count = 0; count < 30; ++count) {
      objects.push_back(StrCat(R"({"done":)", done, R"(,"count":)", count, "}"));
    }
  }
  for (const char* first : {"ab", "cde"}) {
    for (const char* second : {"ab", "cde"}) words.push_back(StrCat(first, second, "!"));
  }
  grammar(kSchemaName, "response_format: json_schema", Grammar::Kind::kJsonSchema,
          R"({"type": "object", "properties": {"done": {"type": "boolean"}, "count":
              {"type": "integer", "minimum": 0, "maximum": 29}}, "required": ["done", "count"]})",
          objects);
  grammar(kRegexName, "regex", Grammar::Kind::kRegex, "(ab|cde){2}!", words);
  std::vector<std::string> calls;
  for (const char* city : {"Rome", "Oslo"}) {
    calls.push_back(StrCat(R"(<tool_call>)", "\n", R"({"name": "f", "arguments": {"city": ")", city,
                           R"("}})", "\n</tool_call>"));
  }
  list->push_back(HeldTo(calls, kCallTokens, OfRequest(kCallsName, "tool_choice", [](Request& r) {
                           ChatPrompt chat;
                           chat.messages_json = StrCat(R"([{"role": "user", "content": "to the )",
                                                       *r.sampling.seed, R"("}])");
                           chat.tools_json = R"([{"type": "function", "function": {"name": "f",
                               "parameters": {"type": "object", "properties":
                               {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}}}])";
                           r.prompt = chat;
                           r.tool_choice = {.required = true, .tool = "f"};
                           // Of the others' 40.
                           if (*r.max_tokens >= 40) r.max_tokens = kCallTokens;
                         })));
  for (const char* other : {kChoiceName, kSchemaName, kRegexName}) {
    list->back().refused.emplace_back(other, "another field holds the answer to something else");
  }
}

// Searches, and requests that are cancelled.
void AddLives(std::vector<Feature>* list) {
  list->push_back(OfRequest("beams", "use_beam_search", [](Request& r) { r.beams.widths = {3}; }));
  constexpr char kByItself[] = "takes the likeliest tokens by the model's own log-probs";
  auto& refused = list->back().refused;
  refused = {{kStatesName, "one running state, which beams cannot share"},
             {kOneAtATime, "has 3 beams, but at most 1 sequences run at once"},
             {"whole distributions", "tells the log-probs of its tokens alone"},
             {"little memory", "tokens of answer for each beam need"},
             {"stop tokens", "together they may be 20 at most"},
             {"at least", "together they may be 20 at most"},
             {"stop string", "has no text before its end in which a stop string could be found"}};
  for (const char* other :
       {"temperature", "top-k", "top-p", "min-p", "repetition penalty", "presence penalty",
        "frequency penalty", "no repeated n-gram", "logit bias", "logits processor"}) {
    refused.emplace_back(other, kByItself);
  }
  Feature cancel;
  cancel.name = "cancelled twins";
  cancel.spelling = "Engine::Cancel";
  cancel.cancels = true;
  list->push_back(SameAnswer(std::move(cancel), [](const Outcome& with, const Outcome&) {
    return !with.cancelled.empty();
  }));
}

// A folder of the tiny models whose chat templates take tools, for as long as the program runs.
class Models {
 public:
  Models() {
    const fs::path golden = fs::path(SourceDir()) / "tests/golden";
    for (const char* part : {"models/llama", "models/gemma3", "models/qwen3_next",
                             "models/qwen3_moe", "models/mimo", "drafts"}) {
      for (const auto& entry : fs::recursive_directory_iterator(golden / part)) {
        if (entry.is_directory()) continue;
        const fs::path link = root_ / fs::relative(entry.path(), golden);
        fs::create_directories(link.parent_path());
        fs::create_symlink(entry.path(), link);
        if (link.filename() != "tokenizer_config.json") continue;
        std::ofstream(link.parent_path() / "chat_template.jinja")
            << "{{ messages[0].content }}{% for tool in tools %}{{ tool.function.name }}"
               "{% endfor %}";
      }
    }
  }
  ~Models() { fs::remove_all(root_); }
  std::string folder() const { return root_ / "models"; }

 private:
  const fs::path root_ =
      fs::path(::testing::TempDir()) / StrCat("sluice_pairs_", static_cast<int>(getpid()));
};

}  // namespace

const std::vector<Feature>& Features() {
  static const std::vector<Feature> features = [] {
    std::vector<Feature> list;
    AddOtherEngines(&list);
    AddTransparentEngines(&list);
    AddDrafts(&list);
    AddTransparentRequests(&list);
    AddSampling(&list);
    AddEmbedders(&list);
    AddEnds(&list);
    AddConstraints(&list);
    AddLives(&list);
    return list;
  }();
  return features;
}

EngineOptions PlainOptions() {
  static const Models models;
  EngineOptions options = engine::TinyOptions();
  options.model = models.folder() + "/llama";
  options.prefix_cache = false;
  options.tool_parser = "hermes";
  return options;
}

// Prompts that repeat themselves, so that drafts are found, and begin alike in pairs, so that
// prefixes are.
std::vector<Request> PlainRequests() {
  std::vector<Request> requests;
  for (const int length : {43, 20, 31, 9}) {
    std::vector<int32_t> prompt;
    for (int i = 0; i < length; ++i) prompt.push_back(20 + (length % 2 + i % 7) * 13);
    Request request = engine::TinyRequest(prompt, 40);
    request.sampling.seed = length;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace sluice::pairs
