// sluice prune-draft: a draft that guesses only the tokens that a text uses most.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "cli/text_input.h"
#include "files/draft_cut.h"
#include "files/eagle_files.h"
#include "files/model_files.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

// So much of a text is tokenized at a time, to the end of a line.
constexpr size_t kPieceBytes = size_t{1} << 20;

struct PruneOptions {
  std::string model, out, text, tokenizer;
  int tokens = 16384;
  bool force = false, json = false;
};

// How often each token of the vocabulary stands in the text.
Result<std::vector<int64_t>> CountTokens(const TextModel& model, const std::string& text,
                                         int vocab_size) {
  std::vector<int64_t> counts(static_cast<size_t>(vocab_size));
  InterruptGuard interrupt;
  for (size_t at = 0; at < text.size();) {
    if (interrupt.raised()) return Status(StatusCode::kCancelled, "stopped by the user");
    size_t end = text.size();
    if (end - at > kPieceBytes) {
      const size_t line = text.find('\n', at + kPieceBytes);
      end = line == std::string::npos ? end : line + 1;
    }
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                            model.Tokenize(text.substr(at, end - at), /*add_special=*/false,
                                           /*parse_special=*/true));
    for (const int32_t id : ids) {
      if (id < vocab_size) ++counts[static_cast<size_t>(id)];
    }
    at = end;
  }
  return counts;
}

struct Choice {
  std::vector<int32_t> rows;  // ascending
  int64_t covered = 0;        // of the text's tokens
  int used = 0;               // tokens that it has at all
};

// The tokens that end an answer, then those that the text has most often, the lower id first.
Choice Choose(const files::DraftSource& source, const std::vector<int64_t>& counts, int tokens) {
  Choice choice;
  std::vector<int32_t> rows(source.ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto count = [&](int32_t row) {
    return counts[static_cast<size_t>(source.ids[static_cast<size_t>(row)])];
  };
  const auto ends = [&](int32_t row) {
    return std::count(source.end_ids.begin(), source.end_ids.end(),
                      source.ids[static_cast<size_t>(row)]) > 0;
  };
  for (const int64_t times : counts) choice.used += times > 0 ? 1 : 0;
  std::stable_sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) {
    return std::pair(ends(b), count(b)) < std::pair(ends(a), count(a));
  });
  rows.resize(static_cast<size_t>(tokens));
  for (const int32_t row : rows) choice.covered += count(row);
  std::sort(rows.begin(), rows.end());
  choice.rows = std::move(rows);
  return choice;
}

Status Prune(const PruneOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, files::ResolveModel(options.model));
  SLUICE_ASSIGN_OR_RETURN(const files::DraftSource source, files::OpenDraftSource(path));
  const auto all = static_cast<int>(source.ids.size());
  if (options.tokens >= all)
    return InvalidArgument(StrCat("--tokens ", options.tokens, " cuts nothing: ", Quote(path),
                                  " guesses ", all, " tokens"),
                           "tokens");
  if (options.tokenizer.empty() && files::IsEagle(path))
    return InvalidArgument(StrCat(Quote(path),
                                  " has no tokenizer; name that of its model with "
                                  "--tokenizer"),
                           "tokenizer");
  SLUICE_ASSIGN_OR_RETURN(
      const std::string words,
      files::ResolveModel(options.tokenizer.empty() ? options.model : options.tokenizer));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model, TextModel::Open(words));
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadText(options.text));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> counts,
                          CountTokens(*model, text, source.vocab_size));
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (total == 0)
    return InvalidArgument(StrCat("--text ", Quote(options.text), " has no tokens to count"),
                           "text");
  const Choice choice = Choose(source, counts, options.tokens);
  SLUICE_RETURN_IF_ERROR(files::WriteCutDraft(source, choice.rows, options.out, options.force));
  const double share = static_cast<double>(choice.covered) / static_cast<double>(total);
  if (options.json) {
    std::cout << DumpJson(Json{{"output", options.out},
                               {"tokens", options.tokens},
                               {"tokens_before", all},
                               {"text_tokens", total},
                               {"text_tokens_used", choice.used},
                               {"covered", share}})
              << "\n";
    return OkStatus();
  }
  std::cout << options.out << ": " << options.tokens << " of " << all << " tokens, which are "
            << 100 * share << " % of the " << total << " in the text\n";
  if (choice.used < options.tokens)
    std::cerr << "note: the text has only " << choice.used
              << " different tokens; a longer one tells more\n";
  return OkStatus();
}

}  // namespace

Action SetUpPruneDraft(CLI::App& app) {
  auto options = std::make_shared<PruneOptions>();
  app.add_option("model", options->model,
                 "a draft: a model, or the folder of a head of EAGLE-3's form")
      ->required()
      ->type_name("MODEL");
  app.add_option("out", options->out,
                 "what to write: a .gguf file where MODEL is one, else a folder")
      ->required()
      ->type_name("OUT");
  app.add_option("--text", options->text, "a text as it will be written: answers, code")
      ->required()
      ->type_name("FILE");
  app.add_option("--tokens", options->tokens, "how many tokens are left to guess")
      ->check(CLI::Range(1, 1 << 22))
      ->capture_default_str();
  app.add_option("--tokenizer", options->tokenizer,
                 "whose tokenizer reads the text; default: MODEL's own");
  app.add_flag("--force", options->force, "replace what OUT has");
  app.add_flag("--json", options->json, "print one JSON object");
  return [options] { return Prune(*options); };
}

}  // namespace sluice::cli
