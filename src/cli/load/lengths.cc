#include "cli/load/lengths.h"

#include <boost/random/lognormal_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::load {
namespace {

constexpr double kSigmaMax = 10;

// The parts between colons.
std::vector<std::string_view> Parts(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

template <class Number>
bool ReadNumber(std::string_view text, Number low, Number high, Number* number) {
  const std::optional<Number> read = ParseNumber<Number>(text, low, high);
  *number = read.value_or(*number);
  return read.has_value();
}

bool ParseLength(std::string_view text, int* length) {
  return ReadNumber(text, 1, kLengthMax, length);
}

bool ParseParts(const std::vector<std::string_view>& parts, LengthDistribution* lengths) {
  if (parts.size() == 1) {
    if (!ParseLength(parts[0], &lengths->low)) return false;
    lengths->high = lengths->low;
    return true;
  }
  if (parts[0] == "uniform") {
    lengths->kind = LengthDistribution::Kind::kUniform;
    return parts.size() == 3 && ParseLength(parts[1], &lengths->low) &&
           ParseLength(parts[2], &lengths->high) && lengths->low <= lengths->high;
  }
  if (parts[0] != "lognormal" || parts.size() < 3 || parts.size() > 4) return false;
  lengths->kind = LengthDistribution::Kind::kLogNormal;
  lengths->high = kLengthMax;
  return ReadNumber(parts[1], 1.0, static_cast<double>(kLengthMax), &lengths->median) &&
         ReadNumber(parts[2], 0.0, kSigmaMax, &lengths->sigma) && lengths->sigma > 0 &&
         (parts.size() == 3 || ParseLength(parts[3], &lengths->high));
}

}  // namespace

Result<LengthDistribution> ParseLengths(std::string_view text, std::string_view option) {
  LengthDistribution lengths;
  if (ParseParts(Parts(text), &lengths)) return lengths;
  return InvalidArgument(
      StrCat("--", option, " ", Quote(text), " is no distribution of lengths; give N, ",
             "uniform:LO:HI or lognormal:MEDIAN:SIGMA[:MAX], with lengths of 1 to ", kLengthMax,
             " tokens and SIGMA above 0 and up to ", kSigmaMax),
      std::string(option));
}

std::vector<int> DrawLengths(const LengthDistribution& lengths, size_t count, uint64_t seed,
                             RandomPurpose purpose) {
  std::vector<int> drawn(count, lengths.low);
  RandomBits bits(seed, purpose);
  if (lengths.kind == LengthDistribution::Kind::kUniform) {
    boost::random::uniform_int_distribution<int> uniform(lengths.low, lengths.high);
    for (int& length : drawn) length = uniform(bits);
  } else if (lengths.kind == LengthDistribution::Kind::kLogNormal) {
    boost::random::lognormal_distribution<double> lognormal(std::log(lengths.median),
                                                            lengths.sigma);
    for (int& length : drawn) {
      length = static_cast<int>(
          std::clamp(std::round(lognormal(bits)), 1.0, static_cast<double>(lengths.high)));
    }
  }
  return drawn;
}

}  // namespace sluice::load
