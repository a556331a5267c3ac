// How a chat template takes what an assistant has done before. Clients send the arguments of a tool
// call as a JSON text and no content beside it, as OpenAI does; many templates expect an object and
// would quote the text once more, and some print an absent content as None. Which one a template is
// shows when it is tried once. Pure functions; any thread.
#pragma once

#include <cstddef>

#include "base/json.h"
#include "sluice/status.h"
#include "text/chat_template.h"

namespace sluice::text {

struct HistoryStyle {
  bool object_arguments = false;  // a text of arguments has to become an object
  bool text_content = false;      // null beside tool calls has to become ""
};

// Renders a short conversation a few times.
HistoryStyle ProbeHistory(const ChatTemplate& chat_template);

// Changes what `messages` (an array) holds to that style; a null content without tool calls becomes
// "" in any. Arguments that are no JSON object stay as they are. kInvalidArgument when they hold
// more than `values_max` values together.
Status AdaptHistory(HistoryStyle style, size_t values_max, OrderedJson* messages);

}  // namespace sluice::text
