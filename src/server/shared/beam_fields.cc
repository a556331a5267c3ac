// The fields of a beam search, as vLLM and transformers spell them.
#include <cmath>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "server/shared/api_call.h"

namespace sluice::server {
namespace {

constexpr int kWidthMax = BeamSearch::kWidthMax;

// A number, or a list of them, one for each token.
std::vector<int> ReadWidths(Fields* fields) {
  const OrderedJson* value = fields->Any("beam_width");
  if (value == nullptr) return {};
  const OrderedJson list = value->is_array() ? *value : OrderedJson::array({*value});
  if (list.empty() || list.size() > static_cast<size_t>(BeamSearch::kWidthsMax)) {
    fields->Fail("beam_width",
                 StrCat("beam_width has ", list.size(),
                        " numbers; it must be one, or a list of 1 to ", BeamSearch::kWidthsMax));
    return {};
  }
  std::vector<int> widths;
  for (const OrderedJson& item : list) {
    const double width = item.is_number() ? item.get<double>() : 0;
    if (width != std::floor(width) || width < 1 || width > kWidthMax) {
      fields->Fail("beam_width", StrCat("beam_width has an item that is ", ShownValue(item),
                                        "; each must be an integer from 1 to ", kWidthMax));
      return {};
    }
    widths.push_back(static_cast<int>(width));
  }
  return widths;
}

std::optional<BeamSearch::Stop> ReadStop(Fields* fields) {
  const OrderedJson* value = fields->Any("early_stopping");
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) {
    return value->get<bool>() ? BeamSearch::Stop::kEarly : BeamSearch::Stop::kLikely;
  }
  if (*value == "never") return BeamSearch::Stop::kNever;
  fields->WrongValue("early_stopping", "true, false or \"never\"");
  return std::nullopt;
}

}  // namespace

void ReadBeams(Fields* fields, Request* request) {
  const bool on = fields->Bool("use_beam_search").value_or(false);
  const std::vector<int> widths = ReadWidths(fields);
  const std::optional<double> penalty = fields->Number("length_penalty");
  const std::optional<BeamSearch::Stop> stop = ReadStop(fields);
  if (!on) {
    const auto need = [fields](const char* name) {
      fields->Fail(name, StrCat(name,
                                " is for beams, and use_beam_search is not true; send both or "
                                "neither"));
    };
    if (!widths.empty()) need("beam_width");
    if (penalty.value_or(1.0) != 1.0) need("length_penalty");
    if (stop && *stop != BeamSearch::Stop::kLikely) need("early_stopping");
    return;
  }
  BeamSearch& beams = request->beams;
  if (penalty) {
    constexpr double kMost = BeamSearch::kLengthPenaltyMax;
    const Status status = CheckRange("length_penalty", *penalty, -kMost, kMost);
    if (!status.ok()) fields->Fail("length_penalty", status.message());
    beams.length_penalty = *penalty;
  }
  if (stop) beams.stop = *stop;
  beams.widths = widths;
  if (!widths.empty()) return;
  if (request->n > kWidthMax) {
    fields->Fail("n", StrCat("n is ", request->n, "; a search has as many beams, and at most ",
                             kWidthMax, ": send a lower n"));
  }
  beams.widths = {request->n};
}

}  // namespace sluice::server
