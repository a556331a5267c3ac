#include "cli/bench_serve.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <ctime>
#include <iostream>
#include <memory>

#include "base/log_options.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/file_limit.h"
#include "cli/load/arrivals.h"
#include "cli/load/load_client.h"
#include "cli/load/load_report.h"
#include "cli/open_engine.h"
#include "cli/signals.h"
#include "sluice/engine.h"
#include "sluice/server.h"

namespace sluice::cli {
namespace {

constexpr char kGroup[] = "Options of --serve";
constexpr int kDefaultConcurrency = 32;
constexpr size_t kKeyFileBytesMax = 4096;

// Without --seed, which the environment may set for other commands.
constexpr const char* kOfServe[] = {"--url",        "--key-file",    "--input-tokens", "--dataset",
                                    "--requests",   "--prompts",     "--vocab-size",   "--rate",
                                    "--burstiness", "--concurrency", "--goodput",      "--warmup",
                                    "--timeout",    "--detailed"};
constexpr const char* kOfEngine[] = {"--prompt-tokens", "--context", "--batch",    "--mix",
                                     "--text",          "--repeat",  "--ceilings", "--kernels"};

// The server of this program, in this process.
struct LocalServer {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Server> server;  // ends before the engine
};

Result<LocalServer> StartServer(const EngineOptions& engine_options) {
  LocalServer local;
  SLUICE_ASSIGN_OR_RETURN(local.engine, OpenEngine(engine_options));
  ServerOptions options;
  options.port = 0;
  options.drain_seconds = 0;
  options.log_requests = "none";
  SetLog(LogLevel::kWarning, LogFormat::kText);  // the figures say what there was to do
  SLUICE_ASSIGN_OR_RETURN(local.server, Server::Start(*local.engine, options));
  return local;
}

Result<std::string> ReadKey(const std::string& path) {
  if (path.empty()) return std::string();
  SLUICE_ASSIGN_OR_RETURN(std::string key, ReadRegularFile(path, kKeyFileBytesMax));
  key.erase(std::min(key.find_first_of("\r\n"), key.size()));
  for (const unsigned char c : key) {
    if (c > ' ' && c < 0x7f) continue;
    return InvalidArgument(StrCat("the first line of ", Quote(path),
                                  " is no API key: it has a blank or what is not ASCII"),
                           "key-file");
  }
  return key;
}

Status CheckRate(const ServeBenchOptions& options) {
  if (options.rate && !(*options.rate > 0)) {
    return InvalidArgument(StrCat("--rate ", *options.rate,
                                  " sends nothing; give requests per second above 0, inf for all "
                                  "at once, or --concurrency instead"),
                           "rate");
  }
  if (!(options.burstiness > 0) || !std::isfinite(options.burstiness)) {
    return InvalidArgument(StrCat("--burstiness ", options.burstiness,
                                  " is no shape of arrivals; give a number above 0, of which 1 is "
                                  "a Poisson process"),
                           "burstiness");
  }
  if (!options.rate && options.burstiness != 1) {
    return InvalidArgument(StrCat("--burstiness ", options.burstiness,
                                  " is about arrivals at a --rate, which is not given"),
                           "burstiness");
  }
  return OkStatus();
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

load::Load LoadOf(const ServeBenchOptions& options, size_t requests) {
  load::Load load;
  load.requests = requests;
  load.concurrency =
      options.concurrency.value_or(options.rate ? load::kConcurrencyMax : kDefaultConcurrency);
  return load;
}

// Answers of requests like those that are measured, which are not.
Status WarmUp(const load::Target& target, const ServeBenchOptions& options,
              const load::Workload& work) {
  load::Load load = LoadOf(options, static_cast<size_t>(options.warmup));
  load.body = [&](size_t index) { return work.WarmUpBody(index); };
  return load::RunLoad(target, load).status();
}

Result<std::vector<load::Outcome>> Measure(const load::Target& target,
                                           const ServeBenchOptions& options,
                                           const load::Workload& work) {
  load::Load load = LoadOf(options, work.size());
  load.body = [&](size_t index) { return work.Body(index); };
  if (options.rate) {
    load.arrivals_s =
        load::Arrivals(work.size(), *options.rate, options.burstiness, options.work.seed);
  }
  if (isatty(STDERR_FILENO) != 0) {
    load.progress = [&](size_t done) {
      ShowProgress(StrCat(done, " of ", work.size(), " requests"));
    };
  }
  auto outcomes = load::RunLoad(target, load);
  if (load.progress) ShowProgress("");
  if (!outcomes.ok()) return outcomes.status();
  for (size_t i = 0; i < work.size(); ++i) {
    load::Outcome& outcome = (*outcomes)[i];
    if (outcome.input_tokens == 0) outcome.input_tokens = work.input_tokens()[i];
  }
  return outcomes;
}

std::string Title(const load::LoadFacts& facts, const load::Target& target,
                  const load::Workload& work, const ServeBenchOptions& options) {
  std::string text =
      StrCat(Quote(facts.model), " at http://", target.url.HostField(), target.url.prefix, ": ");
  if (facts.rate) {
    text += StrCat(*facts.rate, " requests per second, burstiness ", facts.burstiness);
    if (facts.concurrency) text += StrCat(", at most ", *facts.concurrency, " at a time");
  } else {
    text += StrCat(*facts.concurrency, " requests at a time");
  }
  return StrCat(text, "; prompts ",
                !options.work.dataset.empty() ? StrCat("of ", Quote(options.work.dataset))
                : work.sends_ids()            ? std::string("of random token ids")
                                              : std::string("of random words"),
                "; seed ", facts.seed, "\n");
}

Status Print(const load::LoadFacts& facts, const std::vector<load::Outcome>& outcomes,
             const load::LoadReport& report, const std::string& title,
             const ServeBenchOptions& options, bool json) {
  if (json) {
    std::cout << DumpJson(load::ToJson(facts, report, outcomes, options.detailed)) << "\n";
  } else {
    std::cout << title << load::ToText(facts, report);
  }
  std::cout.flush();
  if (facts.interrupted) return Status(StatusCode::kCancelled, "stopped by the user");
  if (report.completed > 0) return OkStatus();
  const load::Failure& failure = report.failures.front();
  return Status(StatusCode::kUnavailable,
                StrCat("no request of ", outcomes.size(), " was answered: ", Visible(failure.what),
                       failure.first_detail.empty() ? "" : ": ", Visible(failure.first_detail)));
}

void AddLengthOptions(CLI::App& app, load::WorkloadOptions* work) {
  app.add_option("--input-tokens", work->input_tokens,
                 "tokens of a random prompt: N, uniform:LO:HI or lognormal:MEDIAN:SIGMA[:MAX]")
      ->type_name("LENGTHS")
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--dataset", work->dataset,
                 "prompts of a file instead: an object with prompt and output_len a line, or "
                 "ShareGPT's list of conversations")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--requests", work->requests,
                 "how many; default: 100, or all prompts of a smaller dataset")
      ->check(CLI::Range(1, load::kRequestsMax))
      ->group(kGroup);
  app.add_option("--prompts", work->prompts,
                 "random prompts are ids, text, or auto (ids, where the server takes them)")
      ->check(CLI::IsMember({"auto", "ids", "text"}))
      ->type_name("TEXT")
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--vocab-size", work->vocab_size,
                 "random ids are below it; 0: what the server says, else 32000")
      ->check(CLI::Range(0, 1 << 24))
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--seed", work->seed, "of prompts, lengths and arrivals")
      ->group(kGroup)
      ->capture_default_str();
}

}  // namespace

void AddServeBenchOptions(CLI::App& app, ServeBenchOptions* options) {
  app.add_flag("--serve", options->serve,
               "measure an HTTP server under load instead: of MODEL, started in this process, or "
               "the one at --url")
      ->group(kGroup);
  app.add_option("--url", options->url,
                 "put the load on this server of OpenAI's API, as http://127.0.0.1:8000")
      ->type_name("URL")
      ->group(kGroup);
  app.add_option("--key-file", options->key_file, "file whose first line is the API key for --url")
      ->type_name("FILE")
      ->group(kGroup);
  AddLengthOptions(app, &options->work);
  app.add_option("--rate", options->rate,
                 "requests per second, or inf; default: a closed loop of --concurrency")
      ->group(kGroup);
  app.add_option("--burstiness", options->burstiness,
                 "of arrivals at --rate: 1 is a Poisson process, less comes in bursts")
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--concurrency", options->concurrency,
                 "requests at a time, at most; default: 32, or 1024 with --rate")
      ->check(CLI::Range(1, load::kConcurrencyMax))
      ->group(kGroup);
  app.add_option("--goodput", options->goodput,
                 "limits of a good request in milliseconds: ttft:MS tpot:MS e2el:MS")
      ->delimiter(',')
      ->expected(1, 3)
      ->type_name("LIMITS")
      ->group(kGroup);
  app.add_option("--warmup", options->warmup, "requests before, which are not measured")
      ->check(CLI::Range(0, load::kRequestsMax))
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--timeout", options->timeout_s,
                 "seconds without a byte after which a request has failed")
      ->check(CLI::Range(1, 86400))
      ->group(kGroup)
      ->capture_default_str();
  app.add_flag("--detailed", options->detailed, "with --json: each request's times, too")
      ->group(kGroup);
}

Status CheckServeBenchOptions(const CLI::App& app, const ServeBenchOptions& options) {
  const auto refuse = [&](const char* name, const char* how) {
    return InvalidArgument(StrCat(name, how), std::string(name).substr(2));
  };
  if (!options.serve) {
    for (const char* name : kOfServe) {
      if (app.get_option(name)->count() > 0) {
        return refuse(name, " is about a load on a server; it goes with --serve");
      }
    }
    return OkStatus();
  }
  for (const char* name : kOfEngine) {
    if (app.get_option(name)->count() > 0) {
      return refuse(name,
                    " is about figures of the engine and means nothing with --serve; leave "
                    "one of the two out");
    }
  }
  if (options.url.empty() && !options.key_file.empty()) {
    return refuse("--key-file", " is for the server at --url, which is not given");
  }
  // Before the model is asked for, which may stand among these limits.
  SLUICE_RETURN_IF_ERROR(load::ParseGoodput(options.goodput).status());
  return CheckRate(options);
}

Status RunServeBench(const EngineOptions& engine, const ServeBenchOptions& options, bool json) {
  load::LoadFacts facts;
  load::Target target;
  target.timeout_s = options.timeout_s;
  target.stopped = InterruptRaised;
  SLUICE_ASSIGN_OR_RETURN(facts.goodput, load::ParseGoodput(options.goodput));
  SLUICE_ASSIGN_OR_RETURN(load::Workload work, load::Workload::Make(options.work));
  SLUICE_ASSIGN_OR_RETURN(target.api_key, ReadKey(options.key_file));
  if (!options.url.empty()) {
    SLUICE_ASSIGN_OR_RETURN(target.url, load::ParseUrl(options.url));
  }
  RaiseFileLimit();
  LocalServer local;
  if (options.url.empty()) {
    SLUICE_ASSIGN_OR_RETURN(local, StartServer(engine));
    target.url.host = "127.0.0.1";
    target.url.port = local.server->port();
  }
  InterruptGuard interrupt;
  SLUICE_ASSIGN_OR_RETURN(const load::ServerFacts server, load::AskForFacts(target));
  SLUICE_RETURN_IF_ERROR(work.Fit(target, server));
  if (options.warmup > 0) SLUICE_RETURN_IF_ERROR(WarmUp(target, options, work));
  facts.date = Now();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<load::Outcome> outcomes,
                          Measure(target, options, work));
  facts.backend = options.url.empty() ? "sluice" : "openai";
  facts.model = server.model;
  facts.requests = static_cast<int64_t>(work.size());
  facts.rate = options.rate;
  facts.burstiness = options.burstiness;
  facts.concurrency = options.concurrency;
  if (!facts.rate && !facts.concurrency) facts.concurrency = kDefaultConcurrency;
  facts.seed = options.work.seed;
  facts.interrupted = InterruptRaised();
  const load::LoadReport report = load::ReportOf(outcomes, work.output_tokens(), facts.goodput);
  return Print(facts, outcomes, report, Title(facts, target, work, options), options, json);
}

}  // namespace sluice::cli
