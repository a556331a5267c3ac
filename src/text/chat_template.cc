#include "text/chat_template.h"

#include <cstdio>
#include <new>

#include "base/str_cat.h"
#include "text/cancel.h"
#include "text/jinja/ast.h"
#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/unicode/python_str.h"

namespace sluice::text {
namespace {

// The longest published template has some 30 KB.
constexpr size_t kTemplateBytesMax = 1u << 20;
// Enough for what a template tells its user.
constexpr size_t kMessageBytesMax = 4096;

// "YYYY-MM-DDTHH:MM:SS", or nothing if it is not a moment.
std::optional<jinja::Moment> ParseMoment(const std::string& text) {
  jinja::Moment moment;
  std::tm& time = moment.time;
  int end = 0;
  if (text.size() != 19 ||
      std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &time.tm_year, &time.tm_mon,
                  &time.tm_mday, &time.tm_hour, &time.tm_min, &time.tm_sec, &end) != 6 ||
      end != 19) {
    return std::nullopt;
  }
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  std::tm check = time;
  timegm(&check);
  // timegm moves what is out of range into it.
  if (check.tm_year != time.tm_year || check.tm_mon != time.tm_mon ||
      check.tm_mday != time.tm_mday || check.tm_hour != time.tm_hour ||
      check.tm_min != time.tm_min || check.tm_sec != time.tm_sec) {
    return std::nullopt;
  }
  time.tm_wday = check.tm_wday;
  time.tm_yday = check.tm_yday;
  time.tm_isdst = -1;
  return moment;
}

}  // namespace

Result<std::string> ChatTemplate::Render(const OrderedJson& context, std::optional<std::string> now,
                                         const RenderLimits& limits) const {
  if (Cancel(limits.cancelled).asked()) return GivenUp();
  std::optional<jinja::Moment> moment;
  if (now) {
    moment = ParseMoment(*now);
    if (!moment) {
      return InvalidArgument(
          StrCat("now is \"", *now, "\"; it must be a local time YYYY-MM-DDTHH:MM:SS"), "now");
    }
  }
  if (!context.is_object()) {
    return InvalidArgument("the context of a chat template must be an object of variables");
  }
  jinja::Runtime runtime(limits, moment);
  try {
    return jinja::Render(*parsed_, context, runtime);
  } catch (const jinja::Failure& failure) {
    if (Cancel(limits.cancelled).asked()) return GivenUp();
    const std::string_view message = Utf8Prefix(failure.message, kMessageBytesMax);
    if (failure.verbatim) return InvalidArgument(std::string(message));
    return InvalidArgument(StrCat("chat template, line ", runtime.line, ": ", message));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "there is no memory left to render a chat template");
  }
}

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::Parse(std::string source) {
  const auto unprocessable = [](std::string message) {
    return Status(StatusCode::kUnprocessable, std::move(message));
  };
  if (source.size() > kTemplateBytesMax) {
    return unprocessable(
        StrCat("a chat template has ", source.size(), " bytes; the limit is ", kTemplateBytesMax));
  }
  if (!IsValidUtf8(source)) return unprocessable("a chat template is not UTF-8");
  try {
    return std::shared_ptr<const ChatTemplate>(new ChatTemplate(
        std::make_shared<const jinja::ParsedTemplate>(jinja::ParseTemplate(source))));
  } catch (const jinja::SyntaxFailure& failure) {
    return unprocessable(StrCat("chat template, line ", failure.line, ": ",
                                Utf8Prefix(failure.message, kMessageBytesMax)));
  } catch (const jinja::Failure& failure) {
    return unprocessable(StrCat("chat template: ", failure.message));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "there is no memory left to parse a chat template");
  }
}

}  // namespace sluice::text
