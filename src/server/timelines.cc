#include "server/timelines.h"

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/shared/fields.h"

namespace sluice::server {
namespace {

constexpr size_t kFollowed = 16;
// What a call takes beside its timelines, about, and a timeline whole.
constexpr int64_t kCallBytes = 512;
constexpr auto kTimelineBytes =
    static_cast<int64_t>(sizeof(Timeline) + Timeline::kEventsMax * sizeof(TimelineEvent));

// What Recent tells of.
constexpr size_t kRecentMax = 100;
constexpr int64_t kRecentUs = 60'000'000;

constexpr std::string_view kTimelineSuffix = "/timeline";

const char* NameOf(TimelineEvent::Kind kind) {
  switch (kind) {
    case TimelineEvent::Kind::kPrefill:
      return "prefill";
    case TimelineEvent::Kind::kDecode:
      return "decode";
    case TimelineEvent::Kind::kPreempted:
      return "preempted";
    case TimelineEvent::Kind::kLateMask:
      return "late_mask";
  }
  return "";
}

// Milliseconds between two times, with the microseconds behind the point; null: not yet.
OrderedJson Milliseconds(int64_t from_us, int64_t us) {
  return us == 0 ? OrderedJson() : OrderedJson(static_cast<double>(us - from_us) / 1000);
}

OrderedJson ShowEvent(const TimelineEvent& event, int64_t from_us) {
  OrderedJson json;
  json["kind"] = NameOf(event.kind);
  json["choice"] = event.choice;
  json["begin_ms"] = Milliseconds(from_us, event.begin_us);
  if (event.steps == 0) return json;
  json["end_ms"] = Milliseconds(from_us, event.end_us);
  json["first_step"] = event.first_step;
  json["steps"] = event.steps;
  json["tokens"] = event.tokens;
  json["sequences_per_step"] = static_cast<double>(event.sequences) / event.steps;
  return json;
}

// Times count from `from_us`.
OrderedJson ShowTimeline(const Timeline& timeline, int64_t from_us) {
  std::lock_guard lock(timeline.mutex);
  OrderedJson json;
  json["submitted_ms"] = Milliseconds(from_us, timeline.submitted_us);
  json["queued_ms"] = Milliseconds(from_us, timeline.queued_us);
  json["admitted_ms"] = Milliseconds(from_us, timeline.admitted_us);
  json["first_chunk_ms"] = Milliseconds(from_us, timeline.first_chunk_us);
  json["first_token_ms"] = Milliseconds(from_us, timeline.first_token_us);
  json["ended_ms"] = Milliseconds(from_us, timeline.ended_us);
  json["prompt_tokens"] = timeline.prompt_tokens;
  json["cached_tokens"] = timeline.cached_tokens;
  json["drawn_tokens"] = timeline.drawn;
  json["drafted_tokens"] = timeline.drafted;
  json["accepted_tokens"] = timeline.accepted;
  json["preemptions"] = timeline.preemptions;
  json["late_masks"] = timeline.late_masks;
  json["events"] = OrderedJson::array();
  for (const TimelineEvent& event : timeline.events)
    json["events"].push_back(ShowEvent(event, from_us));
  return json;
}

// What became of a call as a whole, whose requests run side by side.
struct Outline {
  bool submitted = false;                       // the engine has taken one
  int64_t admitted_us = 0, first_token_us = 0;  // of the first that came so far
  int64_t ended_us = 0;                         // of the last; 0: one runs
  int64_t prompt_tokens = 0, drawn = 0;         // of all
};

// The earlier of two times, of which 0 has not come.
int64_t Earlier(int64_t a, int64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

Outline OutlineOf(const std::vector<std::shared_ptr<Timeline>>& timelines) {
  Outline outline;
  bool runs = false;
  for (const auto& timeline : timelines) {
    std::lock_guard lock(timeline->mutex);
    outline.submitted = outline.submitted || timeline->submitted_us > 0;
    outline.admitted_us = Earlier(outline.admitted_us, timeline->admitted_us);
    outline.first_token_us = Earlier(outline.first_token_us, timeline->first_token_us);
    runs = runs || timeline->ended_us == 0;
    outline.ended_us = std::max(outline.ended_us, timeline->ended_us);
    outline.prompt_tokens += timeline->prompt_tokens;
    outline.drawn += timeline->drawn;
  }
  if (runs) outline.ended_us = 0;
  return outline;
}

// The id that the path names; nothing where it names none.
std::optional<std::string> IdIn(std::string_view path) {
  if (!path.starts_with(kTimelinePrefix) || !path.ends_with(kTimelineSuffix)) return std::nullopt;
  path.remove_prefix(std::string_view(kTimelinePrefix).size());
  if (path.size() <= kTimelineSuffix.size()) return std::nullopt;
  path.remove_suffix(kTimelineSuffix.size());
  return std::string(path);
}

}  // namespace

void Timelines::Follow(const std::string& key, const std::string& id, int64_t now_us,
                       std::vector<Request>* requests) {
  Call call{.requests = requests->size(), .begun_us = now_us};
  const size_t followed = std::min(requests->size(), kFollowed);
  call.bytes = kCallBytes + static_cast<int64_t>(followed) * kTimelineBytes;
  if (call.bytes > bytes_max_) return;
  for (size_t i = 0; i < followed; ++i) {
    call.timelines.push_back(std::make_shared<Timeline>());
    (*requests)[i].timeline = call.timelines.back();
  }
  std::lock_guard lock(mutex_);
  DropOld(now_us);
  Name name(key, id);
  if (const auto earlier = calls_.find(name); earlier != calls_.end()) Drop(earlier);
  while (bytes_ + call.bytes > bytes_max_) Drop(calls_.find(order_.front()));
  bytes_ += call.bytes;
  call.place = order_.insert(order_.end(), name);
  calls_.emplace(std::move(name), std::move(call));
}

Result<std::string> Timelines::Show(const std::string& key, std::string_view path, int64_t now_us) {
  const std::optional<std::string> id = IdIn(path);
  if (!id) {
    return Status(StatusCode::kNotFound, StrCat("there is no path ", Quote(path),
                                                "; a request's is /v1/requests/ID/timeline"));
  }
  Call call;
  {
    std::lock_guard lock(mutex_);
    DropOld(now_us);
    const auto found = calls_.find({key, *id});
    if (found == calls_.end()) {
      return Status(StatusCode::kNotFound, StrCat("no request ", Quote(*id),
                                                  " of this API key is known; the timelines of "
                                                  "the last minutes are kept"));
    }
    call = found->second;
  }
  OrderedJson json;
  json["id"] = *id;
  json["object"] = "request.timeline";
  json["requests"] = call.requests;
  json["age_ms"] = Milliseconds(call.begun_us, now_us);
  json["timelines"] = OrderedJson::array();
  for (const auto& timeline : call.timelines)
    json["timelines"].push_back(ShowTimeline(*timeline, call.begun_us));
  return DumpJson(json);
}

OrderedJson Timelines::Recent(const std::string& key, bool all, int64_t now_us) {
  struct Row {
    std::string id;
    int64_t begun_us;
    std::vector<std::shared_ptr<Timeline>> timelines;
  };
  std::vector<Row> rows;
  {
    std::lock_guard lock(mutex_);
    for (auto name = order_.rbegin(); name != order_.rend() && rows.size() < kRecentMax; ++name) {
      const Call& call = calls_.at(*name);
      if (call.begun_us < now_us - kRecentUs) break;
      if (all || name->first == key) rows.push_back({name->second, call.begun_us, call.timelines});
    }
  }
  OrderedJson json = OrderedJson::array();
  for (const Row& row : rows) {
    const Outline outline = OutlineOf(row.timelines);
    if (!outline.submitted) continue;
    json.push_back({{"id", row.id},
                    {"requests", row.timelines.size()},
                    {"begun_ms", row.begun_us / 1000},
                    {"admitted_ms", outline.admitted_us / 1000},
                    {"first_token_ms", outline.first_token_us / 1000},
                    {"ended_ms", outline.ended_us / 1000},
                    {"prompt_tokens", outline.prompt_tokens},
                    {"drawn_tokens", outline.drawn}});
  }
  return json;
}

int64_t Timelines::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void Timelines::DropOld(int64_t now_us) {
  while (!order_.empty()) {
    const auto oldest = calls_.find(order_.front());
    if (oldest->second.begun_us > now_us - age_us_max_) return;
    Drop(oldest);
  }
}

void Timelines::Drop(std::map<Name, Call>::iterator call) {
  bytes_ -= call->second.bytes;
  order_.erase(call->second.place);
  calls_.erase(call);
}

}  // namespace sluice::server
