// sluice bench: prefill and decode speed of a model, through the engine as clients use it, or with
// --serve (bench_serve.h) through a server.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/philox.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/bench_ceilings.h"
#include "cli/bench_kernels.h"
#include "cli/bench_mix.h"
#include "cli/bench_rate.h"
#include "cli/bench_serve.h"
#include "cli/cli.h"
#include "cli/open_engine.h"
#include "cli/run_request.h"
#include "cli/signals.h"
#include "cli/text_input.h"
#include "exec/kv_dtype.h"
#include "files/synthetic_model.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

struct BenchOptions {
  EngineOptions engine;
  std::vector<int> prompt_tokens = {512};
  std::string output_text;  // --output-tokens; of the answers with --serve
  int output_tokens = 128;  // of it, without --serve
  std::vector<int> context = {0};
  std::vector<int> batch = {1, 8, 32};
  std::string mix_text;
  std::vector<int>
      mix;  // of it: contexts of sequences that decode together, instead of the two above
  std::string text_file;          // to decode behind, instead of --context
  std::vector<int32_t> text_ids;  // of it, as a prompt
  int repeat = 5;
  bool ceilings = false;
  bool kernels = false;
  bool json = false;
  std::string synthetic, dtype;  // a model without a file; both may be empty
  ServeBenchOptions serve;
};

struct Figure {
  std::string kind;
  int prompt_tokens = 0, context = 0, batch = 1;
  std::vector<int> contexts;      // of each sequence that decodes; `context` is their mean
  std::vector<double> rates;      // tokens per second, over the whole batch
  double busy_s = 0, idle_s = 0;  // of the device, while all sequences decode
  int64_t drafted = 0, accepted = 0;

  // The share of the time in which the device had nothing to run between steps.
  std::optional<double> IdleShare() const {
    if (busy_s <= 0) return std::nullopt;
    return idle_s / (busy_s + idle_s);
  }

  double Median() const {
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    const size_t n = sorted.size();
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  }
  double Min() const { return *std::min_element(rates.begin(), rates.end()); }
  double Max() const { return *std::max_element(rates.begin(), rates.end()); }
};

struct Event {
  int index = 0;
  int tokens = 0;
  bool last = false;
  int64_t at_us = 0;  // when its step had ended: an event may come long after that
  Usage usage;
  Status error;
};

// The contexts of the sequences of each decode figure.
std::vector<std::vector<int>> Decodes(const BenchOptions& options) {
  if (!options.mix.empty()) return {options.mix};
  std::vector<std::vector<int>> decodes;
  for (const int context : options.context) {
    for (const int batch : options.batch) decodes.emplace_back(batch, context);
  }
  return decodes;
}

// The most requests that run at a time.
int RequestsMax(const BenchOptions& options) {
  size_t most = 1;
  for (const std::vector<int>& contexts : Decodes(options)) most = std::max(most, contexts.size());
  return static_cast<int>(most);
}

int64_t TokensOf(const std::vector<int>& contexts) {
  return std::accumulate(contexts.begin(), contexts.end(), int64_t{0});
}

// Tokens that each sequence must be allowed: the first ones draw while the last ones are still
// prefilled, and must not end before.
int64_t AnswerTokens(const BenchOptions& options, const std::vector<int>& contexts) {
  const int64_t batch = static_cast<int64_t>(contexts.size());
  const int64_t prefill_steps = TokensOf(contexts) / options.engine.max_batch_tokens + batch + 8;
  const int64_t drawn =
      options.engine.speculate == "none" ? 1 : 1 + options.engine.speculate_tokens;
  return options.output_tokens + prefill_steps * drawn + 1;
}

class Bench {
 public:
  Bench(Engine& engine, const BenchOptions& options)
      : engine_(engine), options_(options), events_(EventsMax(engine, RequestsMax(options))) {}

  // After an error requests may still run, and their sinks write to the queue.
  ~Bench() { [[maybe_unused]] const Status cancelled = engine_.Drain(/*seconds_max=*/0); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Tokens per second of prefilling one prompt.
  Result<double> Prefill(int prompt_tokens) {
    SLUICE_RETURN_IF_ERROR(Submit(0, RandomPrompt(prompt_tokens), 1));
    for (;;) {
      SLUICE_ASSIGN_OR_RETURN(const Event event, Next());
      if (event.last) return prompt_tokens * 1e3 / event.usage.prefill_ms;
    }
  }

  // Tokens per second of all sequences together, while all of them decode. Adds the device's times
  // of just those steps to *figure unless it is null.
  Result<double> Decode(const std::vector<int>& contexts, Figure* figure) {
    const int batch = static_cast<int>(contexts.size());
    std::vector<RequestId> ids;
    for (int i = 0; i < batch; ++i) {
      SLUICE_RETURN_IF_ERROR(
          Submit(i, options_.text_ids.empty() ? RandomPrompt(contexts[i]) : options_.text_ids,
                 static_cast<int>(AnswerTokens(options_, contexts))));
      ids.push_back(last_id_);
    }
    std::vector<bool> started(batch);
    int waiting = batch, ended = 0;
    int64_t start_us = 0, tokens = 0;
    bool enough = false;
    std::vector<DrawnTokens> drawn;
    const int64_t wanted = static_cast<int64_t>(batch) * options_.output_tokens;
    while (ended < batch) {
      SLUICE_ASSIGN_OR_RETURN(const Event event, Next());
      ended += event.last;
      if (event.last && figure != nullptr) {
        figure->accepted += event.usage.accepted_tokens;
        figure->drafted += event.usage.accepted_tokens + event.usage.rejected_tokens;
      }
      if (event.tokens == 0) continue;
      drawn.push_back({event.at_us, event.tokens});
      if (waiting == 0 && !enough && event.at_us > start_us) {
        tokens += event.tokens;
        enough = tokens >= wanted;
        if (enough) {
          AddTimes(figure);
          for (const RequestId id : ids) engine_.Cancel(id);
        }
      }
      if (!started[event.index]) {
        started[event.index] = true;
        start_us = std::max(start_us, event.at_us);
        if (--waiting > 0) continue;
        before_ = engine_.Info();
        for (const DrawnTokens& step : drawn) tokens += step.at_us > start_us ? step.tokens : 0;
      }
    }
    return TokenRate(std::move(drawn), start_us, wanted);
  }

  // Prompt tokens that were not computed; a figure in which there are any is wrong.
  int64_t cached_tokens() const { return cached_tokens_; }

 private:
  // What the device did since before_.
  void AddTimes(Figure* figure) const {
    if (figure == nullptr) return;
    const EngineInfo now = engine_.Info();
    figure->busy_s += now.device_busy_s - before_.device_busy_s;
    figure->idle_s += now.device_idle_s - before_.device_idle_s;
  }

  // Of one token at least.
  std::vector<int32_t> RandomPrompt(int tokens) {
    std::vector<int32_t> ids(std::max(tokens, 1));
    const int vocab = engine_.Info().vocab_size;
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(UniformDraw(1, 0, ++drawn_, DrawPurpose::kToken) * vocab);
    }
    return ids;
  }

  Status Submit(int index, std::vector<int32_t> prompt, int max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.sampling = Greedy(Sampling{});
    auto id = engine_.Submit(std::move(request), [this, index](TextDelta&& delta) {
      const bool taken = events_.TryPush({.index = index,
                                          .tokens = static_cast<int>(delta.tokens.size()),
                                          .last = delta.last,
                                          .at_us = delta.at_us,
                                          .usage = delta.usage,
                                          .error = delta.error});
      CHECK(taken, "more events than tokens");
    });
    if (!id.ok()) return id.status();
    last_id_ = *id;
    return OkStatus();
  }

  Result<Event> Next() {
    for (;;) {
      if (InterruptRaised()) return Status(StatusCode::kCancelled, "stopped by the user");
      std::optional<Event> event = events_.PopFor(std::chrono::milliseconds(100));
      if (!event) continue;
      if (!event->error.ok()) return event->error;
      if (event->last) cached_tokens_ += event->usage.cached_tokens;
      return *std::move(event);
    }
  }

  Engine& engine_;
  const BenchOptions& options_;
  BoundedQueue<Event> events_;
  RequestId last_id_ = 0;
  EngineInfo before_;  // when all sequences of a decode run had started
  int64_t drawn_ = 0;
  int64_t cached_tokens_ = 0;
};

// What stands beside a figure: the ceilings, measured right after it.
Result<FigureShares> SharesOf(const Figure& figure, const BenchOptions& options,
                              FigureCeilings& ceilings) {
  return figure.kind == "prefill"
             ? ceilings.Prefill(figure.prompt_tokens, figure.Median())
             : ceilings.Decode(MeanContext(figure.context, options.output_tokens), figure.batch,
                               figure.Median());
}

Json ToJson(const Figure& figure, const FigureShares& shares, int threads) {
  Json json = Json{{"kind", figure.kind},
                   {"prompt_tokens", figure.prompt_tokens},
                   {"context", figure.context},
                   {"batch", figure.batch},
                   {"threads", threads},
                   {"tokens_per_second",
                    {{"median", figure.Median()}, {"min", figure.Min()}, {"max", figure.Max()}}}};
  if (figure.kind == "decode") {
    const std::optional<double> idle = figure.IdleShare();
    json["device_idle_share"] = idle ? Json(*idle) : Json(nullptr);
    json["drafts"] = {{"verified", figure.drafted}, {"accepted", figure.accepted}};
  }
  json.update(ToJson(shares));
  return json;
}

void PrintRow(const Figure& figure, const FigureShares& shares) {
  char line[256], idle[16] = "-";
  if (figure.IdleShare()) std::snprintf(idle, sizeof idle, "%.2f %%", *figure.IdleShare() * 100);
  std::snprintf(line, sizeof line, "%-8s %7d %8d %6d %11.1f %9.1f %9.1f %8s  %s\n",
                figure.kind.c_str(), figure.prompt_tokens, figure.context, figure.batch,
                figure.Median(), figure.Min(), figure.Max(), idle, ToText(shares).c_str());
  std::string text = line;
  if (figure.drafted > 0) {
    text.insert(text.size() - 1,
                StrCat(", ", figure.accepted, " of ", figure.drafted, " drafts accepted"));
  }
  std::cout << text << std::flush;
}

std::vector<Figure> FiguresOf(const BenchOptions& options) {
  std::vector<Figure> figures;
  for (const int tokens : options.prompt_tokens) {
    figures.push_back({.kind = "prefill", .prompt_tokens = tokens, .rates = {}});
  }
  for (std::vector<int>& contexts : Decodes(options)) {
    const int batch = static_cast<int>(contexts.size());
    figures.push_back({.kind = "decode",
                       .context = static_cast<int>(TokensOf(contexts) / batch),
                       .batch = batch,
                       .contexts = std::move(contexts),
                       .rates = {}});
  }
  return figures;
}

// What would be measured as something else than was asked for.
Status CheckFits(const BenchOptions& options, int max_model_len) {
  const int max_num_seqs = options.engine.max_num_seqs;
  const int batch = RequestsMax(options);
  if (batch > max_num_seqs) {
    const std::string_view option = options.mix.empty() ? "batch" : "mix";
    return InvalidArgument(
        StrCat("--", option, " asks for ", batch, " sequences, above --max-num-seqs ", max_num_seqs,
               ", so they would not decode at once; raise --max-num-seqs"),
        std::string(option));
  }
  const int prompt =
      options.prompt_tokens.empty()
          ? 0
          : *std::max_element(options.prompt_tokens.begin(), options.prompt_tokens.end());
  if (prompt >= max_model_len) {
    return InvalidArgument(
        StrCat("--prompt-tokens ", prompt, " leaves no room in the ", max_model_len,
               " tokens of a sequence; lower it or raise --max-model-len"),
        "prompt-tokens");
  }
  for (const std::vector<int>& contexts : Decodes(options)) {
    const int context = *std::max_element(contexts.begin(), contexts.end());
    const int64_t answer = AnswerTokens(options, contexts);
    if (std::max(context, 1) + answer <= max_model_len) continue;
    const std::string_view option = options.mix.empty() ? "context" : "mix";
    return InvalidArgument(
        StrCat("--", option, " ", context, " and --output-tokens ", options.output_tokens,
               ", with ", answer - options.output_tokens, " more while ", contexts.size(),
               " sequences start, are more than the ", max_model_len,
               " tokens of a sequence; lower them or raise --max-model-len"),
        std::string(option));
  }
  return OkStatus();
}

Status ReadOutputTokens(BenchOptions* options) {
  const std::string& text = options->output_text;
  if (text.empty()) return OkStatus();
  constexpr int kTokensMax = 1 << 20;
  const std::optional<int> tokens = ParseNumber<int>(text, 1, kTokensMax);
  if (!tokens) {
    return InvalidArgument(StrCat("--output-tokens ", Quote(text), " is no number of 1 to ",
                                  kTokensMax, " tokens; distributions of lengths go with --serve"),
                           "output-tokens");
  }
  options->output_tokens = *tokens;
  return OkStatus();
}

// Gives MODEL, which may be named in two ways.
Status NameModel(BenchOptions* options) {
  std::string& model = options->engine.model;
  if (options->synthetic.empty()) {
    if (!options->dtype.empty()) {
      return InvalidArgument(StrCat("--dtype ", options->dtype,
                                    " goes with --synthetic; a file has its own number format"),
                             "dtype");
    }
    return OkStatus();
  }
  if (!model.empty()) {
    return InvalidArgument(StrCat("both the model ", model, " and --synthetic ", options->synthetic,
                                  " are given; leave one out"),
                           "synthetic");
  }
  model =
      files::SyntheticPath(options->synthetic, options->dtype.empty() ? "bf16" : options->dtype);
  return OkStatus();
}

// The text as a user's message, where the model has a template for it.
Status ReadPrompt(Engine& engine, BenchOptions* options) {
  if (options->text_file.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadText(options->text_file));
  const bool chat = engine.Info().has_chat_template;
  std::string prompt = text;
  if (chat) {
    ChatPrompt message;
    message.messages_json = DumpJson(Json::array({{{"role", "user"}, {"content", text}}}));
    SLUICE_ASSIGN_OR_RETURN(prompt, engine.RenderChat(message, ""));
  }
  SLUICE_ASSIGN_OR_RETURN(options->text_ids, engine.Tokenize(prompt, !chat, chat));
  if (options->text_ids.empty()) {
    return InvalidArgument(
        StrCat(Quote(options->text_file), " of --text has no tokens; give it a text"), "text");
  }
  options->context = {static_cast<int>(options->text_ids.size())};
  return OkStatus();
}

Status RunKernels(const BenchOptions& options) {
  if (!options.text_file.empty()) {
    return InvalidArgument("--text goes with figures of answers; leave it or --kernels out",
                           "text");
  }
  return RunKernelBench(options.engine, {.prompt_tokens = options.prompt_tokens,
                                         .decodes = Decodes(options),
                                         .runs = options.repeat,
                                         .json = options.json});
}

Status RunBench(BenchOptions options) {
  EngineOptions engine_options = options.engine;
  engine_options.prefix_cache = false;
  engine_options.time_steps = true;
  // Before a large model is loaded, as far as the answer is known.
  const int asked_max = engine_options.max_model_len;
  SLUICE_RETURN_IF_ERROR(
      CheckFits(options, asked_max > 0 ? asked_max : std::numeric_limits<int>::max()));
  if (options.kernels) return RunKernels(options);
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, OpenEngine(engine_options));
  const EngineInfo info = engine->Info();
  SLUICE_RETURN_IF_ERROR(ReadPrompt(*engine, &options));
  SLUICE_RETURN_IF_ERROR(CheckFits(options, info.max_model_len));
  InterruptGuard interrupt;
  Bench bench(*engine, options);
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<FigureCeilings> ceilings,
                          FigureCeilings::Open(engine_options));
  std::vector<Figure> figures = FiguresOf(options);
  if (!options.json) {
    std::cout << Quote(info.model_name) << " (" << info.quantization << ") on " << DeviceOf(info)
              << ", " << info.isa << " kernels, " << info.threads << " units; tokens per second\n"
              << "kind      prompt  context  batch      median       min       max     idle  share "
                 "of the ceiling\n";
  }
  Json results = Json::array();
  for (Figure& figure : figures) {
    if (!std::cout) break;
    for (int i = 0; i <= options.repeat; ++i) {
      auto rate = figure.kind == "prefill"
                      ? bench.Prefill(figure.prompt_tokens)
                      : bench.Decode(figure.contexts, i > 0 ? &figure : nullptr);
      if (!rate.ok()) return rate.status();
      if (i > 0) figure.rates.push_back(*rate);  // the first run warms up
    }
    SLUICE_ASSIGN_OR_RETURN(const FigureShares shares, SharesOf(figure, options, *ceilings));
    if (!options.json) PrintRow(figure, shares);
    results.push_back(ToJson(figure, shares, info.threads));
  }
  if (options.json) {
    const Json machine = {{"cpu", info.device},
                          {"isa", info.isa},
                          {"threads", info.threads},
                          {"device", info.device_id}};
    std::cout << DumpJson(Json{{"machine", machine},
                               {"model", info.model_name},
                               {"cached_tokens", bench.cached_tokens()},
                               {"results", results}})
              << "\n";
  }
  return OkStatus();
}

void AddOutputOptions(CLI::App& app, BenchOptions* options) {
  app.add_option("--output-tokens", options->output_text,
                 "tokens per sequence that are timed (default: 128); with --serve, of an answer: "
                 "N, uniform:LO:HI or lognormal:MEDIAN:SIGMA[:MAX]")
      ->type_name("LENGTHS");
  app.add_option("--repeat", options->repeat, "timed runs of each figure, after one to warm up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

Status Run(BenchOptions* options) {
  SLUICE_RETURN_IF_ERROR(exec::ParseKvDtype(options->engine.kv_dtype, DType::kF16).status());
  SLUICE_RETURN_IF_ERROR(NameModel(options));
  const std::string& url = options->serve.url;
  if (!url.empty() && !options->engine.model.empty()) {
    return InvalidArgument(StrCat("both the model ", options->engine.model, " and --url ", url,
                                  " of a server that has one are given; leave one out"),
                           "url");
  }
  if (!options->mix_text.empty() && !options->text_file.empty()) {
    return InvalidArgument("--mix and --text both say what sequences decode behind; leave one out",
                           "text");
  }
  if (!options->mix_text.empty()) {
    SLUICE_ASSIGN_OR_RETURN(options->mix, ParseMix(options->mix_text));
  }
  if (options->ceilings) return RunCeilings(options->engine, options->json);
  if (options->engine.model.empty() && url.empty()) {
    return InvalidArgument("model or --synthetic is required; see sluice bench --help", "model");
  }
  if (options->serve.serve) {
    options->serve.work.output_tokens = options->output_text;
    return RunServeBench(options->engine, options->serve, options->json);
  }
  SLUICE_RETURN_IF_ERROR(ReadOutputTokens(options));
  return RunBench(*options);
}

}  // namespace

Action SetUpBench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  options->engine.speculate = "none";  // random tokens say nothing of what drafts gain
  AddEngineOptions(app, &options->engine);
  const auto list = [&](const char* name, std::vector<int>& field, const char* help, int low) {
    app.add_option(name, field, help)
        ->delimiter(',')
        ->allow_extra_args(false)  // what follows the one value may be MODEL
        ->check(CLI::Range(low, 1 << 20))
        ->capture_default_str();
  };
  list("--prompt-tokens", options->prompt_tokens, "lengths of the prompts to prefill", 1);
  list("--context", options->context, "tokens in the cache when decoding starts", 0);
  list("--batch", options->batch, "sequences that decode at once", 1);
  app.add_option("--mix", options->mix_text,
                 "sequences of several contexts that decode at once, instead of --context and "
                 "--batch: 122880x1,1024x63");
  app.add_option("--text", options->text_file,
                 "decode behind this file's text, as a user's message where the model has a chat "
                 "template, instead of --context")
      ->type_name("FILE");
  AddOutputOptions(app, options.get());
  app.add_option(
      "--synthetic", options->synthetic,
      "random weights of a known shape instead of MODEL, one of " + files::SyntheticModels());
  app.add_option(
      "--dtype", options->dtype,
      "number format of --synthetic (the default is bf16), one of " + files::SyntheticDTypes());
  app.add_flag("--ceilings", options->ceilings,
               "measure what this machine can read and multiply; MODEL is optional");
  app.add_flag("--kernels", options->kernels,
               "what each kernel takes of a prefill and of a decode step, op by op and without "
               "graphs");
  app.add_flag("--json", options->json, "print one JSON object");
  app.get_option("model")->required(false);
  AddServeBenchOptions(app, &options->serve);
  return [options, &app] {
    SLUICE_RETURN_IF_ERROR(CheckServeBenchOptions(app, options->serve));
    return Run(options.get());
  };
}

}  // namespace sluice::cli
