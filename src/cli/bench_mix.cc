#include "cli/bench_mix.h"

#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::cli {
namespace {

constexpr int kContextMax = 1 << 20, kSequencesMax = 1 << 16;

}  // namespace

Result<std::vector<int>> ParseMix(std::string_view text) {
  std::vector<int> contexts;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t cross = part.find('x');
    std::optional<int> context, count;
    if (cross != std::string_view::npos) {
      context = ParseNumber<int>(part.substr(0, cross), 1, kContextMax);
      count = ParseNumber<int>(part.substr(cross + 1), 1,
                               kSequencesMax - static_cast<int>(contexts.size()));
    }
    if (!context || !count) {
      return InvalidArgument(
          StrCat("--mix ", Quote(text), " is not a list of CONTEXTxSEQUENCES, such as ",
                 "122880x1,1024x63, with contexts of up to ", kContextMax, " tokens and up to ",
                 kSequencesMax, " sequences"),
          "mix");
    }
    contexts.insert(contexts.end(), *count, *context);
    if (comma == std::string_view::npos) return contexts;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace sluice::cli
