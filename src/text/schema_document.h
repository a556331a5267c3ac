// SchemaDocument: a JSON schema as it was sent: its parts by pointer and anchor, where they stand,
// and schemas that stand for some of them. Parts are told by their address. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "sluice/status.h"

namespace sluice::text {

class SchemaDocument {
 public:
  static Result<std::unique_ptr<SchemaDocument>> Parse(std::string_view text);
  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;

  const OrderedJson& root() const { return root_; }
  // Where a part stands: "#/properties/a". Of what stands for a part, that part's place, or that of
  // the same schema within it.
  std::string PlaceOf(const OrderedJson& part) const;
  // What "$ref" means in `from`: "#/$defs/a", "#anchor", or the $id of a part with one of those
  // behind it. Null where there is no such part here.
  const OrderedJson* Find(const std::string& reference, const OrderedJson& from) const;
  // What "$dynamicRef" or "$recursiveRef" means in `from`, wherever that is evaluated: where
  // several parts of the document could be meant, by the way that leads there, `*several` is set.
  // Null as of Find.
  const OrderedJson* FindDynamic(const std::string& reference, const OrderedJson& from,
                                 bool recursive, bool* several) const;
  // Keeps a schema that stands for what `part` says; references in it mean what they mean there.
  // Null: it would be too large.
  const OrderedJson* Adopt(OrderedJson schema, const OrderedJson& part);

 private:
  explicit SchemaDocument(OrderedJson root) : root_(std::move(root)) {}
  struct Origin {
    const OrderedJson* parent;
    std::string_view key;  // in an object
    size_t index;          // in an array
    bool adopted = false;  // it stands for the parent
  };

  void NoteOrigins(const OrderedJson& value);
  // Notes the names of a schema and of those within it. `base`: of the schema around it.
  void NoteNames(const OrderedJson& schema, const std::string& base);
  const std::string& BaseOf(const OrderedJson& part) const;

  const OrderedJson root_;
  std::deque<OrderedJson> adopted_;
  std::unordered_map<const OrderedJson*, Origin> origins_;     // of all but the root
  std::unordered_map<const OrderedJson*, std::string> bases_;  // the $id, resolved, where one is
  std::map<std::string, const OrderedJson*> by_id_;
  // Of each $dynamicAnchor, and under "" of those with $recursiveAnchor.
  std::map<std::string, int, std::less<>> dynamic_anchors_;
  std::map<std::pair<std::string, std::string>, const OrderedJson*> by_anchor_;  // and base
};

// "the keyword K of the JSON schema at PLACE ...".
Status RefuseKeyword(std::string_view keyword, std::string_view place, std::string_view why);

}  // namespace sluice::text
