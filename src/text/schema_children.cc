#include "text/schema_children.h"

namespace sluice::text {
namespace {

const OrderedJson* FrontItem(const SchemaForm& form, size_t member, size_t index) {
  const OrderedJson* items = form.Find(member, "items");
  const bool old = items != nullptr && items->is_array();
  return &(old ? *items : *form.Find(member, "prefixItems"))[index];
}

const OrderedJson* RestItems(const SchemaForm& form, size_t member) {
  const OrderedJson* items = form.Find(member, "items");
  return items != nullptr && items->is_array() ? form.Find(member, "additionalItems") : items;
}

}  // namespace

size_t FrontItems(const SchemaForm& form, size_t member) {
  const OrderedJson* items = form.Find(member, "items");
  if (items != nullptr && items->is_array()) return items->size();
  const OrderedJson* front = form.Find(member, "prefixItems");
  return front != nullptr && front->is_array() ? front->size() : 0;
}

std::optional<std::vector<std::string>> ListedNames(const OrderedJson& schema) {
  std::vector<std::string> names;
  const OrderedJson alone = OrderedJson::array({schema});
  for (const OrderedJson& part : schema.contains("anyOf") ? schema["anyOf"] : alone) {
    if (!part.contains("enum")) return std::nullopt;
    for (const OrderedJson& name : part["enum"]) names.push_back(name.get<std::string>());
  }
  return names;
}

SchemaGoal ItemGoal(const SchemaForm& form, size_t index) {
  SchemaGoal goal;
  for (size_t i = 0; i < form.members.size(); ++i) {
    if (index < FrontItems(form, i)) {
      AddTo(&goal, FrontItem(form, i, index));
    } else if (const OrderedJson* rest = RestItems(form, i)) {
      AddTo(&goal, rest);
    }
    const OrderedJson* others = form.Find(i, "unevaluatedItems");
    if (others == nullptr) continue;
    bool evaluated = false;
    for (size_t j = 0; j < form.members.size(); ++j) {
      if (!form.IsWithin(static_cast<int>(j), static_cast<int>(i))) continue;
      evaluated = evaluated || index < FrontItems(form, j) || RestItems(form, j) != nullptr ||
                  (j != i && form.Find(j, "unevaluatedItems") != nullptr);
    }
    if (!evaluated) AddTo(&goal, others);
  }
  return goal;
}

SchemaGoal PropertyGoal(const SchemaForm& form, const std::string& name,
                        const PatternMatches& matches) {
  const auto has = [&](size_t member) {
    const OrderedJson* properties = form.Find(member, "properties");
    return properties != nullptr && properties->contains(name);
  };
  const auto names = [&](size_t member) { return has(member) || matches.contains(member); };
  SchemaGoal goal;
  for (size_t i = 0; i < form.members.size(); ++i) {
    if (names(i)) {
      if (has(i)) AddTo(&goal, &(*form.Find(i, "properties"))[name]);
      if (matches.contains(i)) {
        for (const OrderedJson* schema : matches.at(i)) AddTo(&goal, schema);
      }
    } else if (const OrderedJson* others = form.Find(i, "additionalProperties")) {
      AddTo(&goal, others);
    }
    const OrderedJson* others = form.Find(i, "unevaluatedProperties");
    if (others == nullptr) continue;
    bool evaluated = false;
    for (size_t j = 0; j < form.members.size(); ++j) {
      if (!form.IsWithin(static_cast<int>(j), static_cast<int>(i))) continue;
      evaluated = evaluated || names(j) || form.Find(j, "additionalProperties") != nullptr ||
                  (j != i && form.Find(j, "unevaluatedProperties") != nullptr);
    }
    if (!evaluated) AddTo(&goal, others);
  }
  return goal;
}

SchemaGoal OtherGoal(const SchemaForm& form) {
  // No schema has a property of this name: names are UTF-8.
  return PropertyGoal(form, "\xFF");
}

}  // namespace sluice::text
