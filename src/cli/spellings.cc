#include "cli/spellings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/str_cat.h"
#include "cli/sampling_options.h"
#include "sluice/sampling.h"

namespace sluice::cli {
namespace {

struct Spelling {
  std::string_view other, own;
};

// Of the same meaning and the same values. An empty one stands for MODEL, which has no flag.
constexpr Spelling kTaken[] = {
    {"-m", ""},
    {"--model", ""},
    {"-c", "--max-model-len"},
    {"--ctx-size", "--max-model-len"},
    {"-t", "--threads"},
    {"--n-predict", "--max-tokens"},
    {"--predict", "--max-tokens"},
    {"-np", "--max-num-seqs"},
    {"--parallel", "--max-num-seqs"},
    {"-s", "--seed"},
    {"-sys", "--system"},
    {"--system-prompt", "--system"},
    {"-a", "--served-model-name"},
    {"--alias", "--served-model-name"},
    {"--ssl-cert-file", "--tls-cert"},
    {"--ssl-key-file", "--tls-key"},
    {"--ssl-certfile", "--tls-cert"},
    {"--ssl-keyfile", "--tls-key"},
};

// Of a like meaning: what to write instead.
constexpr Spelling kHinted[] = {
    {"-hf", "use sluice run OWNER/NAME:Q4_K_M, which fetches a model"},
    {"-ngl", "use --device, which takes all layers"},
    {"--n-gpu-layers", "use --device, which takes all layers"},
    {"--gpu-layers", "use --device, which takes all layers"},
    {"-cmoe", "use --experts-on host"},
    {"--cpu-moe", "use --experts-on host"},
    {"-ncmoe", "use --experts-on host:LAYERS, as host:0-11 for the first 12"},
    {"--n-cpu-moe", "use --experts-on host:LAYERS, as host:0-11 for the first 12"},
    {"-ot", "use --experts-on host:LAYERS, as host:0-11,20"},
    {"--override-tensor", "use --experts-on host:LAYERS, as host:0-11,20"},
    {"-b", "use --max-batch-tokens"},
    {"--batch-size", "use --max-batch-tokens"},
    {"-ub", "use --max-batch-tokens"},
    {"--ubatch-size", "use --max-batch-tokens"},
    {"--api-key", "use --api-key-file, so that no list of processes shows the key"},
    {"-fa", "leave it out, attention is always fused"},
    {"--flash-attn", "leave it out, attention is always fused"},
    {"-cnv", "use sluice chat"},
    {"-ctk", "use --kv-dtype"},
    {"-ctv", "use --kv-dtype"},
    {"--cache-type-k", "use --kv-dtype"},
    {"--cache-type-v", "use --kv-dtype"},
    {"--gpu-memory-utilization", "use --kv-memory"},
    {"--max-num-batched-tokens", "use --max-batch-tokens"},
    {"--kv-cache-dtype", "use --kv-dtype"},
    {"--enable-auto-tool-choice", "leave it out, calls of tools are always told apart"},
    {"--tool-call-parser", "use --tool-parser"},
    {"--enable-prefix-caching", "leave it out, it is on by default"},
    {"--models-dir", "name each model, as NAME=MODEL"},
    {"--models-max", "use --memory-budget"},
};

// Longer ones are no slips of a flag or a command.
constexpr size_t kLongestWord = 32;

// How many letters to add, drop or change to make one word of the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// A flag of the same meaning, or nothing; those that set a sampling field are in its table.
std::optional<std::string> OwnSpelling(std::string_view flag) {
  for (const Spelling& one : kTaken) {
    if (one.other == flag) return std::string(one.own);
  }
  std::optional<std::string> own;
  ForEachSamplingField(
      [&](const SamplingField& field, const auto&) {
        for (const std::string_view alias : {field.alias, field.flag_alias}) {
          if (!alias.empty() && flag == FlagOf(alias)) own = FlagOf(field.name);
        }
      },
      Sampling{});
  return own;
}

bool Has(const CLI::App& command, const std::string& flag) {
  return command.get_option_no_throw(flag) != nullptr;
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kSlips = 2;
  if (names.empty() || word.size() > kLongestWord) return "";
  const auto distance = [word](const std::string& name) { return EditDistance(word, name); };
  const auto nearest =
      std::min_element(names.begin(), names.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return distance(*nearest) <= kSlips ? *nearest : "";
}

std::vector<std::string> Translated(const std::vector<std::string>& arguments,
                                    const CLI::App& command) {
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      out.insert(out.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    const std::string flag = word.substr(0, word.find('='));
    const std::string value = word.substr(flag.size());  // "=VALUE" or nothing
    const std::optional<std::string> own = OwnSpelling(flag);
    const bool value_before =
        i > 0 && Has(command, arguments[i - 1]) &&
        command.get_option_no_throw(arguments[i - 1])->get_items_expected_min() > 0;
    if (!own || Has(command, flag) || value_before) {
      out.push_back(word);
    } else if (own->empty()) {
      if (!value.empty()) out.push_back(value.substr(1));
    } else if (Has(command, *own)) {
      out.push_back(StrCat(*own, value));
    } else {
      out.push_back(word);
    }
  }
  return out;
}

std::string FlagHint(const std::string& word, const CLI::App& command) {
  const std::string flag = word.substr(0, word.find('='));
  for (const Spelling& one : kHinted) {
    if (flag == one.other) return StrCat("; ", one.own);
  }
  if (!flag.starts_with("--")) return "";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string nearest = Nearest(flag, names);
  return nearest.empty() ? "" : StrCat("; did you mean ", nearest, "?");
}

}  // namespace sluice::cli
