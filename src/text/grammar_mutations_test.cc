// EBNF and GBNF that nobody wrote: the grammars of tests/fuzz/grammar, changed at random. Each is
// refused with a sentence, or compiled and followed, and the next one is compiled. This stands for
// a target of libFuzzer, since the compiler that those are built with takes no sources of the
// library. SLUICE_MUTATION_SECONDS: go on for so long; SLUICE_MUTATION_SEED: begin elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/source_dir_fixture.h"
#include "text/grammar.h"
#include "text/grammar_fixture.h"

namespace sluice::text {
namespace {

constexpr int kUsualGrammars = 60;
constexpr int kTokensMax = 48;

int Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

class GrammarMutations : public ::testing::Test {
 protected:
  GrammarMutations() : random_(static_cast<uint64_t>(Variable("SLUICE_MUTATION_SEED"))) {
    const std::string folder = SourceDir() + "/tests/fuzz/grammar";
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      std::ostringstream text;
      text << std::ifstream(path).rdbuf();
      seeds_.push_back(text.str());
    }
  }

  size_t Below(size_t end) { return static_cast<size_t>(random_() % std::max<size_t>(end, 1)); }
  const std::string& Seed() { return seeds_[Below(seeds_.size())]; }

  std::string Changed() {
    static constexpr std::string_view kWords[] = {"::=",
                                                  "root",
                                                  "|",
                                                  "(",
                                                  ")",
                                                  "*",
                                                  "+",
                                                  "?",
                                                  "{",
                                                  "}",
                                                  "{2,3}",
                                                  "{0,}",
                                                  "[^",
                                                  "]",
                                                  "-",
                                                  "\"",
                                                  "'",
                                                  "\\",
                                                  "#",
                                                  "\n",
                                                  ".",
                                                  " ",
                                                  "",
                                                  "\\x4",
                                                  "\\u00e9",
                                                  "\\UFFFFFFFF",
                                                  "\xff",
                                                  "(?=",
                                                  "\"\"",
                                                  "[]",
                                                  "[z-a]",
                                                  "root ::= root\n",
                                                  "Token(1)",
                                                  "TagDispatch(",
                                                  "{99999999999}"};
    std::string text = Seed();
    for (size_t changes = 1 + Below(4); changes > 0; --changes) {
      const size_t at = Below(text.size() + 1),
                   size = Below(std::min<size_t>(text.size() - at, 40) + 1);
      switch (Below(5)) {
        case 0:
          text.erase(at, size);
          break;
        case 1:
          text.insert(at, text.substr(at, size));
          break;
        case 2:
          text.insert(at, kWords[Below(std::size(kWords))]);
          break;
        case 3:
          if (at < text.size()) text[at] = static_cast<char>(Below(256));
          break;
        default: {
          const std::string& other = Seed();
          text.insert(at, other.substr(Below(other.size()), Below(60)));
        }
      }
    }
    return text;
  }

  // Draws at random what the masks allow, and goes back now and then.
  void Follow(const CompiledGrammar& grammar, int vocab) {
    const std::unique_ptr<AnswerWalk> walk = grammar.Walk(false);
    std::vector<uint32_t> words((static_cast<size_t>(vocab) + 31) / 32);
    int tokens = 0;
    for (int draws = 0; draws < kTokensMax; ++draws) {
      walk->AllowTokens(words);
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < vocab; ++id) {
        if (HasBit(words, id)) allowed.push_back(id);
      }
      if (allowed.empty()) return;
      const TokenId id = allowed[Below(allowed.size())];
      if (!walk->Go(id)) {
        // It took too much, so that nothing fits from here on.
        walk->AllowTokens(words);
        EXPECT_TRUE(std::all_of(words.begin(), words.end(), [](uint32_t w) { return w == 0; }))
            << id;
        return;
      }
      ++tokens;
      if (Below(8) == 0) {
        const int back = static_cast<int>(Below(static_cast<size_t>(tokens) + 1));
        walk->Back(back);
        tokens -= back;
      }
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

TEST_F(GrammarMutations, AreRefusedOrFollowed) {
  ASSERT_GE(seeds_.size(), 5u);
  const std::shared_ptr<const Tokenizer> tokenizer =
      ByteTokenizer({"\": \"", "  ", "ab", "\xce\xb1"});
  const int vocab = tokenizer->vocab_size();
  GrammarCompiler compiler(tokenizer, vocab, {kEndOfAnswer});
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(Variable("SLUICE_MUTATION_SECONDS"));
  int tried = 0, compiled = 0;
  for (; tried < kUsualGrammars || std::chrono::steady_clock::now() < until; ++tried) {
    const std::string text = Changed();
    SCOPED_TRACE(::testing::PrintToString(text));
    const auto grammar = Compile({Grammar::Kind::kRules, text}, &compiler);
    if (grammar.ok()) {
      ++compiled;
      Follow(**grammar, vocab);
    } else {
      EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument)
          << grammar.status().message();
      EXPECT_EQ(grammar.status().field(), "grammar");
      EXPECT_GT(grammar.status().message().size(), 10u);
    }
    if (HasFailure()) return;
  }
  std::cout << compiled << " of " << tried << " grammars were compiled\n";
  EXPECT_GT(compiled, 0) << "the test shows nothing";
}

TEST_F(GrammarMutations, TheirSeedsAreGrammars) {
  const std::shared_ptr<const Tokenizer> tokenizer = ByteTokenizer();
  GrammarCompiler compiler(tokenizer, tokenizer->vocab_size(), {kEndOfAnswer});
  int compiled = 0;
  for (const std::string& seed : seeds_) {
    const auto grammar = Compile({Grammar::Kind::kRules, seed}, &compiler);
    if (!grammar.ok()) std::cout << grammar.status().message() << "\n";
    compiled += grammar.ok() ? 1 : 0;
  }
  EXPECT_GE(compiled, static_cast<int>(seeds_.size()) - 1);  // one has a look-ahead
}

}  // namespace
}  // namespace sluice::text
