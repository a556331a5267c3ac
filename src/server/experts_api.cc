#include "server/experts_api.h"

#include "base/json.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/target.h"
#include "server/shared/fields.h"

namespace sluice::server {
namespace {}  // namespace

Result<std::string> ReadExpertsQuery(std::string_view query) {
  OrderedJson command{{"command", "experts"}};
  for (const char* name : {"ranks", "replicas", "nodes"}) {
    const std::string text = QueryValue(query, name);
    if (text.empty()) continue;
    const std::optional<int> value = ParseNumber<int>(text);
    if (!value) {
      return InvalidArgument(StrCat(name, " is ", Quote(text), "; it must be a whole number"),
                             name);
    }
    command[name] = *value;
  }
  return DumpJson(command);
}

Result<EngineOrder> ReadExpertsOrder(std::string_view body) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  EngineOrder order;
  order.model = fields.String("model", kLongNameBytesMax).value_or("");
  OrderedJson command{{"command", "move_experts"}};
  for (const char* name : {"rebalance", "nodes", "layers"}) {
    const OrderedJson* const value = fields.Any(name);
    if (value != nullptr) command[name] = *value;
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  order.command = DumpJson(command);
  return order;
}

}  // namespace sluice::server
