// sluice tokenize: the ids of standard input or a file, or text from ids.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/json.h"
#include "base/str_cat.h"
#include "cli/cli.h"
#include "cli/text_input.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::string file;
  bool decode = false;
  bool no_special = false;
  bool jsonl = false;
};

Result<std::vector<int32_t>> ReadIds(const std::string& text) {
  std::istringstream words(text);
  std::vector<int32_t> ids;
  std::string word;
  while (words >> word) {
    size_t used = 0;
    long value = -1;
    try {
      value = std::stol(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size() || value < 0 || value > INT32_MAX) {
      return InvalidArgument(StrCat("\"", word, "\" is not a token id; ids are numbers from 0 on"));
    }
    ids.push_back(static_cast<int32_t>(value));
  }
  return ids;
}

Status EncodeLines(const TextModel& model, const TokenizeOptions& options, std::istream& in) {
  std::string line;
  for (int number = 1; std::cout && std::getline(in, line); ++number) {
    auto text = ParseJson(line, StrCat("line ", number));
    if (!text.ok()) return text.status();
    if (!text->is_string())
      return InvalidArgument(StrCat("line ", number, " is not a JSON string"));
    SLUICE_ASSIGN_OR_RETURN(
        const std::vector<int32_t> ids,
        model.Tokenize(text->get<std::string>(), !options.no_special, !options.no_special));
    std::cout << DumpJson(Json(ids)) << "\n";
  }
  return OkStatus();
}

Status Tokenize(const TokenizeOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model, TextModel::Open(options.model));
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadText(options.file));
  if (options.jsonl) {
    std::istringstream lines(text);
    return EncodeLines(*model, options, lines);
  }
  if (options.decode) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadIds(text));
    SLUICE_ASSIGN_OR_RETURN(const std::string decoded, model->Detokenize(ids, options.no_special));
    std::cout << decoded;
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          model->Tokenize(text, !options.no_special, !options.no_special));
  for (size_t i = 0; i < ids.size(); ++i) std::cout << (i == 0 ? "" : " ") << ids[i];
  std::cout << "\n";
  return OkStatus();
}

}  // namespace

Action SetUpTokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  app.add_option("model", options->model,
                 "a model, a vocabulary-only GGUF file, or a tokenizer.json")
      ->required()
      ->type_name("MODEL");
  app.add_option("--file", options->file, "the text or ids; default: standard input");
  app.add_flag("--decode", options->decode, "read ids, separated by spaces, and print their text");
  app.add_flag("--no-special", options->no_special,
               "neither add special tokens nor read special strings as tokens");
  app.add_flag("--jsonl", options->jsonl,
               "each line is a JSON string; print its ids as a JSON array");
  return [options] { return Tokenize(*options); };
}

}  // namespace sluice::cli
