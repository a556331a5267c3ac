#include "cli/fetch_model.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string_view>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/log_options.h"
#include "base/parse_bytes.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/signals.h"
#include "files/model_cache.h"

namespace sluice::cli {
namespace {

constexpr size_t kTokenFileBytesMax = 8u << 10;

// Where the fetching is: a bar on a terminal, a line once in a while elsewhere.
class FetchProgress {
 public:
  ~FetchProgress() {
    if (shown_) ShowProgress("");
  }

  void Show(const fetch::Progress& progress) {
    constexpr int64_t kTerminalMicros = 100'000, kLineMicros = 10'000'000;
    const int64_t now = NowMicros();
    if (start_ == 0 || progress.done < first_bytes_) {
      start_ = last_ = now;
      first_bytes_ = progress.done;
    }
    const bool news = progress.checking != checking_ || progress.file != file_;
    if (!(news && terminal_) && now - last_ < (terminal_ ? kTerminalMicros : kLineMicros)) return;
    last_ = now;
    checking_ = progress.checking;
    file_ = progress.file;
    if (!terminal_) {
      std::cerr << Line(progress, now) + "\n";
      return;
    }
    shown_ = true;
    ShowProgress(Bar(progress) + Line(progress, now));
  }

 private:
  static std::string Bar(const fetch::Progress& progress) {
    constexpr size_t kWidth = 24;
    if (progress.total == 0) return "";
    const double share = static_cast<double>(progress.done) / static_cast<double>(progress.total);
    std::string bar(std::min(kWidth, static_cast<size_t>(share * kWidth)), '#');
    bar.resize(kWidth, ' ');
    return StrCat("[", bar, "] ");
  }

  std::string Line(const fetch::Progress& progress, int64_t now) const {
    constexpr size_t kNameMax = 30;
    const std::string name = Visible(progress.file.substr(0, kNameMax));
    if (progress.checking) return StrCat("checking ", name);
    std::string line = FormatBytes(progress.done);
    if (progress.total > 0) line += StrCat(" of ", FormatBytes(progress.total));
    const double seconds = static_cast<double>(now - start_) * 1e-6;
    const double rate = static_cast<double>(progress.done - first_bytes_) / std::max(seconds, 1e-3);
    if (seconds >= 1) line += StrCat(", ", FormatBytes(static_cast<uint64_t>(rate)), "/s");
    if (seconds >= 1 && rate >= 1 && progress.total > progress.done) {
      const double left = static_cast<double>(progress.total - progress.done) / rate;
      constexpr double kMinute = 60, kLongest = 1e7;
      if (left < kLongest) {
        line += left < 2 * kMinute ? StrCat(", ", static_cast<int>(left), " s left")
                                   : StrCat(", ", static_cast<int>(left / kMinute), " min left");
      }
    }
    return StrCat(line, " ", name);
  }

  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  int64_t start_ = 0, last_ = 0;  // microseconds
  uint64_t first_bytes_ = 0;      // there already at the start
  bool shown_ = false, checking_ = false;
  std::string file_;
};

Result<std::string> ReadToken(const std::string& path) {
  if (path.empty()) return std::string(Trimmed(Environment("HF_TOKEN")));
  auto text = ReadRegularFile(path, kTokenFileBytesMax);
  if (!text.ok()) {
    return InvalidArgument(
        StrCat("the file of --hf-token-file cannot be read: ", text.status().message()));
  }
  return std::string(Trimmed(*text));
}

}  // namespace

void AddFetchOptions(CLI::App& app, FetchFlags* flags) {
  constexpr const char* kGroup = "Options of fetching";
  const auto add = [&app](const char* flag, auto& field, const char* help) {
    return app.add_option(flag, field, help)->group(kGroup);
  };
  add("--revision", flags->options.revision,
      "a branch, tag or commit of the repository; else main");
  app.add_flag("--update", flags->options.update, "fetch what is newer than what is there")
      ->group(kGroup);
  add("--hf-endpoint", flags->hf_endpoint, "the hub; else HF_ENDPOINT, else https://huggingface.co")
      ->type_name("URL");
  add("--hf-token-file", flags->hf_token_file, "holds the token of the hub; else HF_TOKEN is it")
      ->type_name("FILE");
  add("--pypi-url", flags->pypi_url,
      "the package index; else PIP_INDEX_URL, else https://pypi.org/simple")
      ->type_name("URL");
  add("--stall-seconds", flags->options.stall_seconds,
      "a server that sends nothing so long has failed")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  add("--retries", flags->options.retries, "of a request that failed, in a row without progress")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
}

Result<fetch::Fetched> FetchModel(const FetchFlags& flags, const std::string& name) {
  fetch::FetchOptions options = flags.options;
  options.name = name;
  SLUICE_ASSIGN_OR_RETURN(options.cache, files::ModelCacheFolder());
  SLUICE_ASSIGN_OR_RETURN(options.token, ReadToken(flags.hf_token_file));
  options.ca_file = Environment("SSL_CERT_FILE");
  const auto choose = [](std::string* field, const std::string& flag, const char* variable) {
    const std::string value = flag.empty() ? Environment(variable) : flag;
    if (!value.empty()) *field = value;
  };
  choose(&options.hub_url, flags.hf_endpoint, "HF_ENDPOINT");
  choose(&options.index_url, flags.pypi_url, "PIP_INDEX_URL");
  InterruptGuard interrupt;
  options.stopped = [&interrupt] { return interrupt.raised(); };
  options.on_wait = [] { std::cerr << "waiting for another sluice that fetches the same\n"; };
  Result<fetch::Fetched> fetched = [&] {
    FetchProgress progress;
    options.on_progress = [&](const fetch::Progress& now) { progress.Show(now); };
    return fetch::Fetch(options);
  }();
  if (fetched.status().code() == StatusCode::kCancelled) {
    std::cerr << "stopped; the same command goes on from here\n";
  }
  return fetched;
}

std::string Describe(const fetch::Fetched& fetched) {
  const std::string commit =
      fetched.commit.empty() ? "" : StrCat(" (commit ", fetched.commit.substr(0, 12), ")");
  const std::string what =
      fetched.was_whole
          ? StrCat(fetched.path, commit, " is there already; nothing was fetched")
          : StrCat(FormatBytes(fetched.bytes), " were fetched to ", fetched.path, commit,
                   fetched.checked ? ", and their checksums hold"
                                   : "; the server told no checksum of some files");
  return StrCat(what, "\nits name for other commands is ", fetched.model, "\n");
}

}  // namespace sluice::cli
