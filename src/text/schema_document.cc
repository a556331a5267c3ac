#include "text/schema_document.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "sluice/limits.h"
#include "text/json_schema.h"

namespace sluice::text {
namespace {

constexpr size_t kDocumentShownBytes = 128;
// Of the schema and all that stands for parts of it.
constexpr size_t kAdoptedValuesMax = 100'000;
// Of a resolved $id; parts of one that is longer are not found by name.
constexpr size_t kIdBytesMax = 2048;

std::string Escaped(std::string_view key) {
  std::string escaped;
  for (const char c : key) {
    if (c == '~') escaped += "~0";
    if (c == '/') escaped += "~1";
    if (c != '~' && c != '/') escaped += c;
  }
  return escaped;
}

std::string Unescaped(std::string_view key) {
  std::string text;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool escape = key[i] == '~' && i + 1 < key.size();
    text += !escape ? key[i] : key[++i] == '1' ? '/' : '~';
  }
  return text;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// "%25" is "%", as in every URL.
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) i += 2;
    decoded += low >= 0 ? static_cast<char>(high * 16 + low) : text[i];
  }
  return decoded;
}

bool HasScheme(std::string_view url) {
  const size_t colon = url.find(':');
  return colon != std::string_view::npos && colon > 0 && url.find_first_of("/?#") > colon;
}

// A reference without fragment, relative to `base`; RFC 3986, section 5.2, without dot segments
// within.
std::string Resolved(const std::string& base, std::string_view reference) {
  if (reference.empty()) return base;
  if (HasScheme(reference)) return std::string(reference);
  const size_t authority = base.find("://");
  const size_t path =
      authority == std::string::npos ? std::string::npos : base.find('/', authority + 3);
  if (reference.starts_with('/')) return StrCat(base.substr(0, path), reference);
  std::string folder = base.substr(0, base.rfind('/') + 1);
  while (reference.starts_with("./") || reference.starts_with("../")) {
    const bool up = reference[1] == '.';
    reference.remove_prefix(up ? 3 : 2);
    if (up && folder.size() > 1) folder.resize(folder.rfind('/', folder.size() - 2) + 1);
  }
  return StrCat(folder, reference);
}

// Keywords whose value is a schema or a list of them, and those whose value names schemas.
constexpr const char* kOneOrMore[] = {"allOf",
                                      "anyOf",
                                      "oneOf",
                                      "not",
                                      "if",
                                      "then",
                                      "else",
                                      "items",
                                      "prefixItems",
                                      "contains",
                                      "additionalItems",
                                      "unevaluatedItems",
                                      "additionalProperties",
                                      "unevaluatedProperties",
                                      "propertyNames"};
constexpr const char* kNamed[] = {
    "$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies"};

// Calls visit(part) for each schema that stands right within another, or a list of them.
template <class Visit>
void ForEachSchemaWithin(const OrderedJson& schema, const Visit& visit) {
  for (const char* keyword : kOneOrMore) {
    if (const auto part = schema.find(keyword); part != schema.end()) visit(*part);
  }
  for (const char* keyword : kNamed) {
    const auto parts = schema.find(keyword);
    if (parts == schema.end() || !parts->is_object()) continue;
    for (const OrderedJson& part : *parts) visit(part);
  }
}

// The first schema anywhere within another that equals `part`; null: there is none.
const OrderedJson* SameWithin(const OrderedJson& schema, const OrderedJson& part) {
  const OrderedJson* same = nullptr;
  const auto look = [&](const OrderedJson& inner) {
    if (same != nullptr) return;
    same = inner == part ? &inner : SameWithin(inner, part);
  };
  if (schema.is_array()) {
    for (const OrderedJson& inner : schema) look(inner);
  }
  if (schema.is_object()) ForEachSchemaWithin(schema, look);
  return same;
}

}  // namespace

Status RefuseKeyword(std::string_view keyword, std::string_view place, std::string_view why) {
  const std::string_view shown = Utf8Prefix(place, kDocumentShownBytes);
  return InvalidArgument(StrCat("the keyword ", Quote(Utf8Prefix(keyword, kDocumentShownBytes)),
                                " of the JSON schema at ", Quote(shown),
                                shown.size() < place.size() ? "..." : "", " ", why),
                         "grammar");
}

Result<std::unique_ptr<SchemaDocument>> SchemaDocument::Parse(std::string_view text) {
  JsonLimits limits;
  limits.bytes_max = limits::kGrammarBytesMax;
  limits.depth_max = kSchemaDepthMax;
  limits.values_max = kSchemaValuesMax;
  auto root = ParseOrderedJson(text, "the JSON schema", limits);
  if (!root.ok()) return InvalidArgument(root.status().message(), "grammar");
  std::unique_ptr<SchemaDocument> document(new SchemaDocument(*std::move(root)));
  document->NoteOrigins(document->root_);
  document->bases_.emplace(&document->root_, "");
  document->by_id_.emplace("", &document->root_);
  document->NoteNames(document->root_, "");
  return document;
}

void SchemaDocument::NoteOrigins(const OrderedJson& value) {
  if (value.is_object()) {
    for (auto part = value.begin(); part != value.end(); ++part) {
      origins_.emplace(&*part, Origin{&value, part.key(), 0});
      NoteOrigins(*part);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      origins_.emplace(&value[i], Origin{&value, {}, i});
      NoteOrigins(value[i]);
    }
  }
}

void SchemaDocument::NoteNames(const OrderedJson& schema, const std::string& base) {
  if (schema.is_array()) {
    for (const OrderedJson& part : schema) NoteNames(part, base);
  }
  if (!schema.is_object()) return;
  std::string own = base;
  const auto id = schema.find("$id");
  if (id != schema.end() && id->is_string()) {
    const std::string& text = id->get_ref<const std::string&>();
    own = Resolved(base, std::string_view(text).substr(0, text.find('#')));
    if (own.size() > kIdBytesMax) return;
    bases_[&schema] = own;
    by_id_.emplace(own, &schema);
  }
  for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
    const auto anchor = schema.find(keyword);
    if (anchor == schema.end() || !anchor->is_string()) continue;
    by_anchor_.emplace(std::pair(own, anchor->get<std::string>()), &schema);
  }
  const auto dynamic = schema.find("$dynamicAnchor");
  if (dynamic != schema.end() && dynamic->is_string())
    ++dynamic_anchors_[dynamic->get<std::string>()];
  if (schema.value("$recursiveAnchor", OrderedJson()) == true) ++dynamic_anchors_[""];
  ForEachSchemaWithin(schema, [&](const OrderedJson& part) { NoteNames(part, own); });
}

const OrderedJson* SchemaDocument::Adopt(OrderedJson schema, const OrderedJson& part) {
  if (origins_.size() > kAdoptedValuesMax) return nullptr;
  adopted_.push_back(std::move(schema));
  origins_.emplace(&adopted_.back(), Origin{&part, {}, 0, /*adopted=*/true});
  NoteOrigins(adopted_.back());
  return &adopted_.back();
}

const std::string& SchemaDocument::BaseOf(const OrderedJson& part) const {
  const OrderedJson* at = &part;
  while (!bases_.contains(at)) at = origins_.at(at).parent;
  return bases_.at(at);
}

std::string SchemaDocument::PlaceOf(const OrderedJson& part) const {
  std::vector<const Origin*> way;
  for (auto at = origins_.find(&part); at != origins_.end();
       at = origins_.find(at->second.parent)) {
    if (at->second.adopted) {
      // Mostly it is made of copies of what it stands for.
      const OrderedJson* const same = SameWithin(*at->second.parent, part);
      return PlaceOf(same == nullptr ? *at->second.parent : *same);
    }
    way.push_back(&at->second);
  }
  std::string place = "#";
  for (auto step = way.rbegin(); step != way.rend(); ++step) {
    place += (*step)->parent->is_array() ? StrCat("/", (*step)->index)
                                         : StrCat("/", Escaped((*step)->key));
  }
  return place;
}

const OrderedJson* SchemaDocument::Find(const std::string& reference,
                                        const OrderedJson& from) const {
  const size_t hash = std::min(reference.find('#'), reference.size());
  const std::string base = Resolved(BaseOf(from), std::string_view(reference).substr(0, hash));
  const std::string fragment = PercentDecoded(std::string_view(reference).substr(hash));
  std::string_view rest = fragment;
  if (!rest.empty()) rest.remove_prefix(1);
  if (!rest.empty() && rest[0] != '/') {
    const auto anchor = by_anchor_.find({base, std::string(rest)});
    return anchor != by_anchor_.end() ? anchor->second : nullptr;
  }
  const auto resource = by_id_.find(base);
  if (resource == by_id_.end()) return nullptr;
  const OrderedJson* at = resource->second;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view step = rest.substr(0, rest.find('/'));
    rest.remove_prefix(step.size());
    if (at->is_object()) {
      const auto part = at->find(Unescaped(step));
      if (part == at->end()) return nullptr;
      at = &*part;
    } else {
      const bool digits = !step.empty() && step.size() < 7 &&
                          step.find_first_not_of("0123456789") == std::string_view::npos;
      const size_t index = digits ? std::stoul(std::string(step)) : SIZE_MAX;
      if (!at->is_array() || index >= at->size()) return nullptr;
      at = &(*at)[index];
    }
  }
  return at;
}

const OrderedJson* SchemaDocument::FindDynamic(const std::string& reference,
                                               const OrderedJson& from, bool recursive,
                                               bool* several) const {
  const OrderedJson* const target = Find(reference, from);
  if (target == nullptr || !target->is_object()) return target;
  std::string name;
  if (recursive) {
    if (target->value("$recursiveAnchor", OrderedJson()) != true) return target;
  } else {
    const size_t hash = reference.find('#');
    name = hash == std::string::npos ? ""
                                     : PercentDecoded(std::string_view(reference).substr(hash + 1));
    if (name.empty() || target->value("$dynamicAnchor", OrderedJson()) != name) return target;
  }
  const auto count = dynamic_anchors_.find(name);
  *several = count != dynamic_anchors_.end() && count->second > 1;
  return target;
}

}  // namespace sluice::text
