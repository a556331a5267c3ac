// encode_lines MODEL [--no-special] [--decode] [--repeat N]: MODEL is a GGUF file or a
// tokenizer.json. Every line of standard input is a JSON string, every line of output a JSON array
// of its ids; with --decode the reverse. Beginning and end tokens are not added. --repeat N prints
// N times the speed in megabytes per second of processor time instead.
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "files/gguf.h"
#include "files/tokenizer_data.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using sluice::Result;
using sluice::text::TokenId;
using sluice::text::Tokenizer;

struct Options {
  std::string model;
  bool parse_special = true;
  bool decode = false;
  int repeat = 0;
};

Result<std::shared_ptr<const Tokenizer>> Load(const std::string& path) {
  if (path.ends_with(".gguf")) {
    SLUICE_ASSIGN_OR_RETURN(auto file, sluice::files::GgufFile::Open(path));
    SLUICE_ASSIGN_OR_RETURN(auto data, sluice::files::TokenizerFromGguf(*file));
    return Tokenizer::Make(std::move(data));
  }
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  SLUICE_ASSIGN_OR_RETURN(auto data, sluice::files::TokenizerFromJson(text.str(), ""));
  return Tokenizer::Make(std::move(data));
}

// Through the streaming detokenizer, which must agree with Decode.
std::string DecodeBothWays(const std::shared_ptr<const Tokenizer>& tokenizer,
                           const std::vector<TokenId>& ids) {
  sluice::text::Detokenizer detokenizer(tokenizer, true, {});
  std::string streamed;
  for (TokenId id : ids) streamed += detokenizer.Add(id);
  streamed += detokenizer.Finish();
  std::string whole = tokenizer->Decode(ids, true);
  if (streamed != whole) std::cerr << "the streamed text differs from the whole text\n";
  return streamed == whole ? whole : "the streamed text differs from the whole text";
}

int Time(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
         const Options& options) {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  for (int round = 0; round < options.repeat; ++round) {
    std::clock_t start = std::clock();
    size_t count = 0;
    for (const std::string& text : texts) {
      auto ids = tokenizer.Encode(text, {false, options.parse_special});
      count += ids.ok() ? ids->size() : 0;
    }
    double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::cout << count << " ids, " << static_cast<double>(bytes) / 1e6 / seconds << " MB/s\n";
  }
  return 0;
}

int Run(const Options& options) {
  auto tokenizer = Load(options.model);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << "\n";
    return 3;
  }
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) {
    auto value = sluice::ParseJson(line, "a line");
    if (!value.ok()) {
      std::cerr << value.status().message() << "\n";
      return 2;
    }
    if (options.decode) {
      auto ids = value->get<std::vector<TokenId>>();
      std::cout << sluice::DumpJson(sluice::Json(DecodeBothWays(*tokenizer, ids))) << "\n";
    } else if (options.repeat > 0) {
      texts.push_back(value->get<std::string>());
    } else {
      auto ids = (*tokenizer)->Encode(value->get<std::string>(), {false, options.parse_special});
      if (!ids.ok()) {
        std::cerr << ids.status().message() << "\n";
        return 2;
      }
      std::cout << sluice::DumpJson(sluice::Json(*ids)) << "\n";
    }
  }
  return options.repeat > 0 ? Time(**tokenizer, texts, options) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--no-special") == 0) {
      options.parse_special = false;
    } else if (std::strcmp(argv[i], "--decode") == 0) {
      options.decode = true;
    } else if (std::strcmp(argv[i], "--repeat") == 0 && i + 1 < argc) {
      options.repeat = std::stoi(argv[++i]);
    } else {
      options.model = argv[i];
    }
  }
  return Run(options);
}
