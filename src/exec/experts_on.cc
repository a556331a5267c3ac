#include "exec/experts_on.h"

#include <algorithm>
#include <string_view>

#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "exec/whole_number.h"

namespace sluice::exec {
namespace {

constexpr char kField[] = "experts-on";
constexpr std::string_view kLayersPrefix = "host:";

Status MalformedPlace(const std::string& text) {
  return InvalidArgument(StrCat("--experts-on ", Quote(text),
                                " is none of auto, device, host and host:LAYERS with numbers of "
                                "layers, as host:0-11,20 has them"),
                         kField);
}

// "0-11,20": by layer of the checkpoint, whether it is named.
Result<std::vector<bool>> NamedLayers(const std::string& text, int stored_layers) {
  std::vector<bool> named(static_cast<size_t>(stored_layers));
  std::string_view rest = std::string_view(text).substr(kLayersPrefix.size());
  for (;;) {
    const size_t comma = rest.find(',');
    const std::string_view range = rest.substr(0, comma);
    const size_t dash = range.find('-');
    const int first = WholeNumber(range.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : WholeNumber(range.substr(dash + 1));
    if (first < 0 || last < first) return MalformedPlace(text);
    if (last >= stored_layers) {
      return InvalidArgument(StrCat("--experts-on ", text, " names layer ", last,
                                    "; the model has ", stored_layers, ", from 0 on"),
                             kField);
    }
    std::fill(named.begin() + first, named.begin() + last + 1, true);
    if (comma == std::string_view::npos) return named;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<int> ExpertLayers(const files::ModelConfig& config) {
  std::vector<int> layers;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (config.layers[static_cast<size_t>(layer)].experts) layers.push_back(layer);
  }
  return layers;
}

Result<std::vector<int>> LayersOnHost(const files::ModelConfig& config,
                                      const EngineOptions& options) {
  const std::string& text = options.experts_on;
  std::vector<int> layers;
  if (text == "auto" || text == "device") return layers;
  if (text != "host" && !text.starts_with(kLayersPrefix)) return MalformedPlace(text);
  layers = ExpertLayers(config);
  if (layers.empty()) {
    return InvalidArgument(
        StrCat("--experts-on ", text, ": the model has no experts; start without it"), kField);
  }
  if (options.expert_ranks > 1) {
    return InvalidArgument(
        StrCat("--experts-on ", text, " and --expert-ranks ", options.expert_ranks,
               " exclude one another: experts on the host do not move; leave one of them out"),
        kField);
  }
  if (text == "host") return layers;
  const int first = config.StoredMlp(layers.front());
  SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> named, NamedLayers(text, config.stored_layers()));
  std::erase_if(layers, [&](int layer) { return !named[config.StoredMlp(layer)]; });
  if (layers.empty()) {
    return InvalidArgument(
        StrCat("--experts-on ", text,
               ": none of these layers has experts; the first that has some is layer ", first),
        kField);
  }
  return layers;
}

Result<size_t> LeftOnHost(const HostNeed& need, size_t free_bytes) {
  const size_t lie = need.weights + need.device;
  if (lie > free_bytes) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("experts on the host: the model's weights need ", FormatBytes(lie),
                         " there, but ", FormatBytes(free_bytes),
                         " are free; use a smaller model or one with fewer bits per weight"));
  }
  if (need.buffers > free_bytes - lie) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("experts on the host: a step of ", need.max_tokens, " tokens needs ",
                         FormatBytes(need.buffers), " there beside the weights, but ",
                         FormatBytes(free_bytes - lie), " are free; lower --max-batch-tokens"),
                  "max-batch-tokens");
  }
  return free_bytes - lie - need.buffers;
}

size_t FewestThatFit(size_t all, const std::function<bool(size_t)>& fits) {
  size_t low = 1, high = all;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace sluice::exec
