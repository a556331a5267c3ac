// Filters that are generators in Python: nothing happens, and nothing fails, before they are read,
// and they can be read once.

#include <map>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

Value MakeLazy(std::shared_ptr<Iterator> iterator) {
  return {Kind::kIterator, std::move(iterator)};
}

Arguments Rest(const Arguments& arguments, size_t skip) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(skip),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

class MapIterator final : public FilterIterator {
 public:
  MapIterator(Runtime& runtime, const Value& source, Arguments arguments)
      : FilterIterator(runtime, source), arguments_(std::move(arguments)) {}

  bool Next(Runtime& runtime, Value* item) override {
    if (!Truthy(source())) return false;
    if (!ready_) Prepare(runtime);
    Value next;
    if (!Pull(runtime, &next)) return false;
    *item = filter_ != nullptr ? filter_->call(runtime, next, rest_)
                               : getter_->Get(runtime, next, fallback_ ? &*fallback_ : nullptr);
    return true;
  }

 private:
  void Prepare(Runtime& runtime) {
    ready_ = true;
    const Value* attribute = arguments_.Named("attribute");
    if (arguments_.positional.empty() && attribute != nullptr) {
      for (const auto& [name, value] : arguments_.named) {
        if (name != "attribute" && name != "default")
          Fail("unexpected keyword argument '", name, "'");
        if (name == "default" && !value.IsNone()) fallback_ = value;
      }
      getter_.emplace(runtime, *attribute);
      return;
    }
    if (arguments_.positional.empty()) Fail("map requires a filter argument");
    const Value& name = arguments_.positional[0];
    if (name.IsString()) filter_ = FindFilter(name.text());
    if (filter_ == nullptr)
      Fail("there is no filter named ", Utf8Prefix(Repr(runtime, name), kQuotedBytesMax));
    rest_ = Rest(arguments_, 1);
  }

  const Arguments arguments_;
  bool ready_ = false;
  const FilterEntry* filter_ = nullptr;
  Arguments rest_;
  std::optional<AttributeGetter> getter_;
  std::optional<Value> fallback_;
};

class SelectIterator final : public FilterIterator {
 public:
  SelectIterator(Runtime& runtime, const Value& source, Arguments arguments, bool by_attribute,
                 bool wanted)
      : FilterIterator(runtime, source),
        arguments_(std::move(arguments)),
        by_attribute_(by_attribute),
        wanted_(wanted) {}

  bool Next(Runtime& runtime, Value* item) override {
    if (!Truthy(source())) return false;
    if (!ready_) Prepare(runtime);
    while (Pull(runtime, item)) {
      const Value tested = getter_ ? getter_->Get(runtime, *item) : *item;
      const bool holds = test_ != nullptr ? test_->call(runtime, tested, rest_) : Truthy(tested);
      if (holds == wanted_) return true;
    }
    return false;
  }

 private:
  void Prepare(Runtime& runtime) {
    ready_ = true;
    size_t used = 0;
    if (by_attribute_) {
      if (arguments_.positional.empty()) Fail("the name of an attribute is missing");
      getter_.emplace(runtime, arguments_.positional[used++]);
    }
    if (used == arguments_.positional.size()) return;
    const Value& name = arguments_.positional[used++];
    if (name.IsString()) test_ = FindTest(name.text());
    if (test_ == nullptr)
      Fail("there is no test named ", Utf8Prefix(Repr(runtime, name), kQuotedBytesMax));
    rest_ = Rest(arguments_, used);
  }

  const Arguments arguments_;
  const bool by_attribute_;
  const bool wanted_;
  bool ready_ = false;
  std::optional<AttributeGetter> getter_;
  const TestEntry* test_ = nullptr;
  Arguments rest_;
};

class UniqueIterator final : public FilterIterator {
 public:
  UniqueIterator(Runtime& runtime, const Value& source, bool case_sensitive, const Value& attribute)
      : FilterIterator(runtime, source),
        case_sensitive_(case_sensitive),
        getter_(runtime, attribute) {}

  bool Next(Runtime& runtime, Value* item) override {
    while (Pull(runtime, item)) {
      Value key = getter_.Get(runtime, *item);
      if (!case_sensitive_) key = IgnoreCase(runtime, key);
      CheckHashable(runtime, key);
      if (IsNew(runtime, key)) return true;
    }
    return false;
  }

 private:
  bool IsNew(Runtime& runtime, const Value& key) {
    std::vector<Value>& bucket = seen_[Hash(runtime, key)];
    for (const Value& other : bucket) {
      if (Equal(runtime, other, key)) return false;
    }
    Grow(sizeof(Value) * 3);
    bucket.push_back(key);
    return true;
  }

  const bool case_sensitive_;
  const AttributeGetter getter_;
  std::map<size_t, std::vector<Value>> seen_;
};

class ItemsIterator final : public FilterIterator {
 public:
  using FilterIterator::FilterIterator;
  bool Next(Runtime& runtime, Value* item) override {
    if (source().IsUndefined()) return false;
    if (!source().Is(Kind::kDict)) Fail("can only get item pairs from a mapping");
    const auto& entries = source().dict().entries;
    if (place_ >= entries.size()) return false;
    runtime.Step();
    *item = runtime.Tuple({entries[place_].first, entries[place_].second});
    ++place_;
    return true;
  }

 private:
  size_t place_ = 0;
};

class BatchIterator final : public FilterIterator {
 public:
  BatchIterator(Runtime& runtime, const Value& source, const Value& size, const Value& fill)
      : FilterIterator(runtime, source), size_(size), fill_(fill) {}

  bool Next(Runtime& runtime, Value* item) override {
    std::vector<Value> batch;
    // A first batch that is full at once is given out empty, as in Jinja.
    if (!started_ && size_.IsNumber() && size_.AsDouble() == 0.0) {
      started_ = true;
      if (!Fetch(runtime)) return false;
      *item = runtime.List({});
      return true;
    }
    started_ = true;
    while (held_ || Fetch(runtime)) {
      if (size_.IsNumber() && static_cast<double>(batch.size()) == size_.AsDouble() &&
          !batch.empty()) {
        break;
      }
      batch.push_back(std::move(*held_));
      held_.reset();
    }
    if (batch.empty()) return false;
    if (!fill_.IsNone() && !held_) Fill(runtime, &batch);
    *item = runtime.List(std::move(batch));
    return true;
  }

 private:
  bool Fetch(Runtime& runtime) {
    Value next;
    if (!Pull(runtime, &next)) return false;
    held_ = std::move(next);
    return true;
  }

  void Fill(Runtime& runtime, std::vector<Value>* batch) {
    const int64_t size = Index(size_);
    if (size <= static_cast<int64_t>(batch->size())) return;
    runtime.CheckCount(static_cast<size_t>(size));
    runtime.Step(static_cast<size_t>(size));
    batch->resize(static_cast<size_t>(size), fill_);
  }

  const Value size_;
  const Value fill_;
  bool started_ = false;
  std::optional<Value> held_;  // read, but not given out yet
};

class SliceIterator final : public FilterIterator {
 public:
  SliceIterator(Runtime& runtime, const Value& source, int64_t slices, const Value& fill)
      : FilterIterator(runtime, source), slices_(slices), fill_(fill) {}

  bool Next(Runtime& runtime, Value* item) override {
    runtime.Step();
    if (!items_) {
      items_ = Collect(runtime, source());
      Grow(items_->size() * sizeof(Value));
      if (slices_ == 0) Fail("slice cannot make 0 slices");
    }
    if (number_ >= slices_) return false;
    const int64_t size = static_cast<int64_t>(items_->size());
    const int64_t each = size / slices_;
    const int64_t longer = size % slices_;
    const int64_t start = number_ * each + std::min(number_, longer);
    const int64_t end = start + each + (number_ < longer ? 1 : 0);
    std::vector<Value> part(items_->begin() + start, items_->begin() + end);
    if (!fill_.IsNone() && number_ >= longer) part.push_back(fill_);
    ++number_;
    *item = runtime.List(std::move(part));
    return true;
  }

 private:
  const int64_t slices_;
  const Value fill_;
  std::optional<std::vector<Value>> items_;
  int64_t number_ = 0;
};

Value Map(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return MakeLazy(std::make_shared<MapIterator>(runtime, subject, arguments));
}

template <bool by_attribute, bool wanted>
Value Select(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return MakeLazy(
      std::make_shared<SelectIterator>(runtime, subject, arguments, by_attribute, wanted));
}

Value Unique(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"}, 0);
  return MakeLazy(std::make_shared<UniqueIterator>(runtime, subject, bound.Flag(0, false),
                                                   bound.Or(1, Value())));
}

Value Items(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("items", arguments, {}, 0);
  return MakeLazy(std::make_shared<ItemsIterator>(runtime, subject));
}

Value Batch(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  return MakeLazy(
      std::make_shared<BatchIterator>(runtime, subject, bound[0], bound.Or(1, Value())));
}

Value SliceFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  return MakeLazy(
      std::make_shared<SliceIterator>(runtime, subject, bound.Integer(0, 0), bound.Or(1, Value())));
}

constexpr FilterEntry kFilters[] = {
    {"batch", Batch},
    {"items", Items},
    {"map", Map},
    {"reject", Select<false, false>},
    {"rejectattr", Select<true, false>},
    {"select", Select<false, true>},
    {"selectattr", Select<true, true>},
    {"slice", SliceFilter},
    {"unique", Unique},
};

}  // namespace

std::span<const FilterEntry> LazyFilters() { return kFilters; }

}  // namespace sluice::text::jinja
