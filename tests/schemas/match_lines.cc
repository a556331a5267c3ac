// match_lines VOCABULARY.gguf: every line of standard input is {"schema": TEXT, "texts":
// [TEXT...]}, with "open": false for a schema of a tool. Every line of output is {"error":
// SENTENCE}, or {"fits": [BOOL...], "compile_us": NUMBER, "mask_us": [NUMBER...]}: whether an
// answer that is this text fits, token by token as the tokenizer cuts it, and the times of
// compiling, with the first mask, and of each mask. The times of all come on standard error at the
// end.
#include <algorithm>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/gguf.h"
#include "files/tokenizer_data.h"
#include "text/grammar.h"

namespace {

using sluice::Json;
using sluice::text::CompiledGrammar;
using sluice::text::TokenId;
using sluice::text::Tokenizer;

struct Times {
  std::vector<double> compile_us, mask_us;
};

double NowUs() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

void Mask(sluice::text::AnswerWalk* walk, int vocab, std::vector<uint32_t>* words) {
  words->assign((static_cast<size_t>(vocab) + 31) / 32, 0);
  walk->AllowTokens(*words);
}

bool Fits(const CompiledGrammar& grammar, const Tokenizer& tokenizer, const std::string& text,
          Times* times) {
  const auto ids = tokenizer.Encode(text, {false, false});
  if (!ids.ok()) return false;
  const auto walk = grammar.Walk(false);
  std::vector<uint32_t> words;
  for (const TokenId id : *ids) {
    const double begin = NowUs();
    Mask(walk.get(), tokenizer.vocab_size(), &words);
    times->mask_us.push_back(NowUs() - begin);
    const bool allowed = (words[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
    if (walk->Go(id) != allowed) std::cerr << "mask and walk differ in " << text << "\n";
    if (!allowed) return false;
  }
  return walk->complete();
}

Json Answer(const Json& line, sluice::text::GrammarCompiler* compiler, const Tokenizer& tokenizer,
            Times* times) {
  const double begin = NowUs();
  const auto grammar =
      compiler->CompileLong({sluice::Grammar::Kind::kJsonSchema, line["schema"].get<std::string>(),
                             line.value("open", true)});
  if (!grammar.ok()) return {{"error", grammar.status().message()}};
  std::vector<uint32_t> words;
  Mask((*grammar)->Walk(false).get(), tokenizer.vocab_size(), &words);
  times->compile_us.push_back(NowUs() - begin);
  const double compile_us = times->compile_us.back();
  const size_t masks = times->mask_us.size();
  Json fits = Json::array();
  for (const Json& text : line["texts"]) {
    fits.push_back(Fits(**grammar, tokenizer, text.get<std::string>(), times));
  }
  const std::vector<double> mask_us(times->mask_us.begin() + static_cast<int64_t>(masks),
                                    times->mask_us.end());
  return {{"fits", fits}, {"compile_us", compile_us}, {"mask_us", mask_us}};
}

void Print(const char* name, std::vector<double> us) {
  if (us.empty()) return;
  std::sort(us.begin(), us.end());
  const auto at = [&](double share) { return us[static_cast<size_t>(share * (us.size() - 1))]; };
  std::cerr << name << ": " << us.size() << " times, median " << at(0.5) << " us, 95 % " << at(0.95)
            << " us, 99 % " << at(0.99) << " us, longest " << us.back() << " us\n";
}

int Run(const std::string& path) {
  auto file = sluice::files::GgufFile::Open(path);
  auto data = file.ok() ? sluice::files::TokenizerFromGguf(**file)
                        : sluice::Result<sluice::files::TokenizerData>(file.status());
  if (!data.ok()) {
    std::cerr << data.status().message() << "\n";
    return 3;
  }
  const std::vector<TokenId> ends = data->end_of_generation_ids;
  auto tokenizer = Tokenizer::Make(*std::move(data));
  if (!tokenizer.ok()) return 3;
  sluice::text::GrammarCompiler compiler(*tokenizer, (*tokenizer)->vocab_size(), ends);
  // The first grammar pays for the vocabulary.
  if (!compiler.CompileLong({sluice::Grammar::Kind::kRegex, "a"}).ok()) return 1;
  Times times;
  for (std::string line; std::getline(std::cin, line);) {
    const auto json = sluice::ParseJson(line, "a line");
    if (!json.ok()) return 2;
    std::cout << sluice::DumpJson(Answer(*json, &compiler, **tokenizer, &times)) << "\n";
  }
  Print("compile and first mask", times.compile_us);
  Print("mask", times.mask_us);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return Run(argv[1]);
  std::cerr << "usage: match_lines VOCABULARY.gguf\n";
  return 2;
}
