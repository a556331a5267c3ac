#include "files/pickled_tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

static_assert(std::endian::native == std::endian::little, "pickles are read in place");

constexpr size_t kPickleBytesMax = 8u << 20;
constexpr size_t kValuesMax = 1u << 20;
constexpr size_t kPickledTensorsMax = 1u << 16;
constexpr size_t kPickledDimsMax = 4;

// What a pickle may name: module and name, as it spells them.
constexpr std::string_view kOrderedDict = "collections\nOrderedDict";
constexpr std::string_view kRebuildTensor = "torch._utils\n_rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils\n_rebuild_parameter";

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr StorageType kStorages[] = {
    {"torch\nFloatStorage", DType::kF32},     {"torch\nHalfStorage", DType::kF16},
    {"torch\nBFloat16Storage", DType::kBF16}, {"torch\nLongStorage", DType::kI64},
    {"torch\nIntStorage", DType::kI32},       {"torch\nCharStorage", DType::kI8},
    {"torch\nByteStorage", DType::kU8},       {"torch\nBoolStorage", DType::kU8}};

const StorageType* FindStorage(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kStorages), std::end(kStorages),
                   [&](const StorageType& type) { return type.name == name; });
  return found == std::end(kStorages) ? nullptr : found;
}

// Of the pickle; those that it holds stand before or behind it in the reader's list, which owns
// them all.
struct Value {
  enum class Kind { kOther, kMark, kInt, kText, kTuple, kDictionary, kGlobal, kStorage, kTensor };
  Kind kind = Kind::kOther;
  int64_t number = 0;               // kInt; kTensor: the offset
  std::string_view text;            // kText, kGlobal; kStorage: its name
  DType dtype = DType::kF32;        // kStorage
  std::vector<const Value*> items;  // kTuple; kDictionary: keys and values in turn; kTensor: the
                                    // storage, then the tuples of shape and strides
};

class PickleReader {
 public:
  explicit PickleReader(std::span<const std::byte> pickle)
      : text_(reinterpret_cast<const char*>(pickle.data()), pickle.size()) {}

  // The value that is left at the end.
  Result<const Value*> Run();

 private:
  Status Step(uint8_t code);
  Status StepWithNumber(uint8_t code);
  Status PushKind(Value::Kind kind);
  Status PushInt(int64_t number);
  Status PushLong();
  Status PushText();
  Status PushGlobal();
  Status MakeTuple(std::vector<Value*> items);
  Status MakeTupleOf(size_t count);
  Status MakeTensor(const Value& arguments);
  Status FindPersistent();
  Status Call();
  Status SetItems(const std::vector<Value*>& items);
  Status Put(uint32_t number);
  Status Get(uint32_t number);

  Result<std::string_view> Take(size_t bytes);
  template <class T>
  Result<T> Number() {
    SLUICE_ASSIGN_OR_RETURN(const std::string_view bytes, Take(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  Result<std::string_view> Line();
  Result<Value*> Pop();
  // Of the last mark's, which is taken off with all that is behind it.
  Result<std::vector<Value*>> PopToMark();
  Result<Value*> Push(Value value);
  static Status Wrong(std::string_view what) {
    return BadModel(StrCat("the pickle of weights is damaged: ", what));
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::deque<Value> values_;
  std::vector<Value*> stack_;
  std::unordered_map<uint32_t, Value*> memo_;
};

Result<std::string_view> PickleReader::Take(size_t bytes) {
  if (bytes > text_.size() - at_) return Wrong("it ends in the midst of a value");
  const std::string_view taken = text_.substr(at_, bytes);
  at_ += bytes;
  return taken;
}

Result<std::string_view> PickleReader::Line() {
  const size_t end = text_.find('\n', at_);
  if (end == std::string_view::npos) return Wrong("it ends in the midst of a name");
  const std::string_view line = text_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

Result<Value*> PickleReader::Pop() {
  if (stack_.empty()) return Wrong("it takes a value where there is none");
  Value* const value = stack_.back();
  if (value->kind == Value::Kind::kMark) return Wrong("it takes a mark for a value");
  stack_.pop_back();
  return value;
}

Result<std::vector<Value*>> PickleReader::PopToMark() {
  const auto mark = std::find_if(stack_.rbegin(), stack_.rend(), [](const Value* value) {
    return value->kind == Value::Kind::kMark;
  });
  if (mark == stack_.rend()) return Wrong("it goes back to a mark that is not there");
  std::vector<Value*> taken(mark.base(), stack_.end());
  stack_.erase(mark.base() - 1, stack_.end());
  return taken;
}

Result<Value*> PickleReader::Push(Value value) {
  if (values_.size() >= kValuesMax)
    return BadModel(StrCat("the pickle of weights has more than ", kValuesMax, " values"));
  values_.push_back(std::move(value));
  stack_.push_back(&values_.back());
  return stack_.back();
}

Status PickleReader::PushGlobal() {
  const size_t begin = at_;
  SLUICE_ASSIGN_OR_RETURN(const std::string_view module, Line());
  SLUICE_ASSIGN_OR_RETURN(const std::string_view name, Line());
  const std::string_view both = text_.substr(begin, at_ - 1 - begin);
  if (both != kOrderedDict && both != kRebuildTensor && both != kRebuildParameter &&
      FindStorage(both) == nullptr)
    return BadModel(StrCat("the pickle of weights asks for ", Quote(StrCat(module, ".", name)),
                           ", which is no part of weights that are supported; write them as "
                           "model.safetensors"));
  Value value;
  value.kind = Value::Kind::kGlobal;
  value.text = both;
  return Push(std::move(value)).status();
}

// ("storage", type, name, device, numbers), as torch.save spells what lies beside the pickle.
Status PickleReader::FindPersistent() {
  SLUICE_ASSIGN_OR_RETURN(const Value* id, Pop());
  const auto is = [&](size_t i, Value::Kind kind) { return id->items[i]->kind == kind; };
  if (id->kind != Value::Kind::kTuple || id->items.size() < 3 || !is(1, Value::Kind::kGlobal) ||
      !is(2, Value::Kind::kText))
    return Wrong("it names no storage where it should");
  const StorageType* type = FindStorage(id->items[1]->text);
  if (type == nullptr) return Wrong("a storage has no type of numbers");
  Value value;
  value.kind = Value::Kind::kStorage;
  value.text = id->items[2]->text;
  value.dtype = type->dtype;
  return Push(std::move(value)).status();
}

// (storage, offset, shape, strides, ...)
Status PickleReader::MakeTensor(const Value& arguments) {
  using Kind = Value::Kind;
  const std::vector<const Value*>& given = arguments.items;
  if (given.size() < 4 || given[0]->kind != Kind::kStorage || given[1]->kind != Kind::kInt ||
      given[2]->kind != Kind::kTuple || given[3]->kind != Kind::kTuple)
    return Wrong(
        "a tensor is made of something else than a storage, an offset, a shape and "
        "strides");
  Value value;
  value.kind = Kind::kTensor;
  value.number = given[1]->number;
  value.items = {given[0], given[2], given[3]};
  return Push(std::move(value)).status();
}

Status PickleReader::Call() {
  SLUICE_ASSIGN_OR_RETURN(const Value* arguments, Pop());
  SLUICE_ASSIGN_OR_RETURN(const Value* callee, Pop());
  if (callee->kind != Value::Kind::kGlobal || arguments->kind != Value::Kind::kTuple)
    return Wrong("it calls what cannot be called");
  if (callee->text == kRebuildTensor) return MakeTensor(*arguments);
  if (callee->text == kRebuildParameter && !arguments->items.empty() &&
      arguments->items[0]->kind == Value::Kind::kTensor)
    return Push(Value(*arguments->items[0])).status();
  if (callee->text == kOrderedDict && arguments->items.empty()) {
    Value value;
    value.kind = Value::Kind::kDictionary;
    return Push(std::move(value)).status();
  }
  return Wrong(StrCat("it calls ", Quote(callee->text), " in an unknown way"));
}

Status PickleReader::SetItems(const std::vector<Value*>& items) {
  if (stack_.empty() || stack_.back()->kind != Value::Kind::kDictionary || items.size() % 2 != 0)
    return Wrong("it sets items of what is no dictionary");
  std::vector<const Value*>& all = stack_.back()->items;
  all.insert(all.end(), items.begin(), items.end());
  return OkStatus();
}

Status PickleReader::MakeTuple(std::vector<Value*> items) {
  Value value;
  value.kind = Value::Kind::kTuple;
  value.items.assign(items.begin(), items.end());
  return Push(std::move(value)).status();
}

Status PickleReader::MakeTupleOf(size_t count) {
  std::vector<Value*> items(count);
  for (size_t i = count; i-- > 0;) {
    SLUICE_ASSIGN_OR_RETURN(items[i], Pop());
  }
  return MakeTuple(std::move(items));
}

Status PickleReader::PushInt(int64_t number) {
  Value value;
  value.kind = Value::Kind::kInt;
  value.number = number;
  return Push(std::move(value)).status();
}

// LONG1: so many bytes of a number with a sign, the lowest first.
Status PickleReader::PushLong() {
  SLUICE_ASSIGN_OR_RETURN(const auto size, Number<uint8_t>());
  if (size > sizeof(int64_t)) return Wrong("a number has more than 64 bits");
  SLUICE_ASSIGN_OR_RETURN(const std::string_view bytes, Take(size));
  int64_t number = size > 0 && (bytes.back() & 0x80) != 0 ? -1 : 0;
  std::memcpy(&number, bytes.data(), bytes.size());
  return PushInt(number);
}

Status PickleReader::PushText() {
  SLUICE_ASSIGN_OR_RETURN(const auto size, Number<uint32_t>());
  Value value;
  value.kind = Value::Kind::kText;
  SLUICE_ASSIGN_OR_RETURN(value.text, Take(size));
  return Push(std::move(value)).status();
}

Status PickleReader::Put(uint32_t number) {
  if (stack_.empty()) return Wrong("it remembers a value where there is none");
  memo_[number] = stack_.back();
  return OkStatus();
}

Status PickleReader::Get(uint32_t number) {
  const auto found = memo_.find(number);
  if (found == memo_.end()) return Wrong("it asks for a value that it does not remember");
  stack_.push_back(found->second);
  return OkStatus();
}

Status PickleReader::PushKind(Value::Kind kind) {
  Value value;
  value.kind = kind;
  return Push(std::move(value)).status();
}

// The names are those of Python's pickletools.
Status PickleReader::Step(uint8_t code) {
  switch (code) {
    case 0x80:  // PROTO
      return Number<uint8_t>().status();
    case '(':  // MARK
      return PushKind(Value::Kind::kMark);
    case '}':  // EMPTY_DICT
      return PushKind(Value::Kind::kDictionary);
    case ')':  // EMPTY_TUPLE
      return PushKind(Value::Kind::kTuple);
    case ']':   // EMPTY_LIST
    case 'N':   // NONE
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return PushKind(Value::Kind::kOther);
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      return MakeTupleOf(code - 0x84u);
    case 'X':  // BINUNICODE
      return PushText();
    case 0x8a:  // LONG1
      return PushLong();
    case 'c':  // GLOBAL
      return PushGlobal();
    case 'Q':  // BINPERSID
      return FindPersistent();
    case 'R':  // REDUCE
      return Call();
    case 'a':  // APPEND
    case 'b':  // BUILD: what is set on an object beside its items
      return Pop().status();
    case 'e':  // APPENDS
      return PopToMark().status();
    default:
      return StepWithNumber(code);
  }
}

Status PickleReader::StepWithNumber(uint8_t code) {
  switch (code) {
    case 'J': {  // BININT
      SLUICE_ASSIGN_OR_RETURN(const auto number, Number<int32_t>());
      return PushInt(number);
    }
    case 'K': {  // BININT1
      SLUICE_ASSIGN_OR_RETURN(const auto number, Number<uint8_t>());
      return PushInt(number);
    }
    case 'M': {  // BININT2
      SLUICE_ASSIGN_OR_RETURN(const auto number, Number<uint16_t>());
      return PushInt(number);
    }
    case 'q': {  // BINPUT
      SLUICE_ASSIGN_OR_RETURN(const auto number, Number<uint8_t>());
      return Put(number);
    }
    case 'r': {  // LONG_BINPUT
      SLUICE_ASSIGN_OR_RETURN(const auto number, Number<uint32_t>());
      return Put(number);
    }
    case 'h': {  // BINGET
      SLUICE_ASSIGN_OR_RETURN(const auto number, Number<uint8_t>());
      return Get(number);
    }
    case 'j': {  // LONG_BINGET
      SLUICE_ASSIGN_OR_RETURN(const auto number, Number<uint32_t>());
      return Get(number);
    }
    case 't': {  // TUPLE
      SLUICE_ASSIGN_OR_RETURN(std::vector<Value*> items, PopToMark());
      return MakeTuple(std::move(items));
    }
    case 'u': {  // SETITEMS
      SLUICE_ASSIGN_OR_RETURN(const std::vector<Value*> items, PopToMark());
      return SetItems(items);
    }
    case 's': {  // SETITEM
      SLUICE_ASSIGN_OR_RETURN(Value* const item, Pop());
      SLUICE_ASSIGN_OR_RETURN(Value* const key, Pop());
      return SetItems({key, item});
    }
    default:
      return BadModel(StrCat("the pickle of weights has the instruction ", int{code},
                             ", which weights do not need; write them as model.safetensors"));
  }
}

Result<const Value*> PickleReader::Run() {
  constexpr uint8_t kStop = '.';
  for (;;) {
    SLUICE_ASSIGN_OR_RETURN(const auto code, Number<uint8_t>());
    if (code == kStop) break;
    SLUICE_RETURN_IF_ERROR(Step(code));
  }
  SLUICE_ASSIGN_OR_RETURN(const Value* const top, Pop());
  return top;
}

// The numbers of a tuple, each at least `least`.
Result<std::vector<int64_t>> NumbersOf(const Value& tuple, int64_t least) {
  if (tuple.items.size() > kPickledDimsMax)
    return BadModel(
        StrCat("it has ", tuple.items.size(), " dimensions; the limit is ", kPickledDimsMax));
  std::vector<int64_t> numbers;
  for (const Value* item : tuple.items) {
    if (item->kind != Value::Kind::kInt || item->number < least)
      return BadModel("it has a shape or strides that are none");
    numbers.push_back(item->number);
  }
  return numbers;
}

Result<PickledTensor> Described(std::string_view name, const Value& value) {
  PickledTensor tensor;
  tensor.name = name;
  tensor.storage = value.items[0]->text;
  tensor.dtype = value.items[0]->dtype;
  tensor.offset = value.number;
  SLUICE_ASSIGN_OR_RETURN(tensor.shape, NumbersOf(*value.items[1], 1));
  SLUICE_ASSIGN_OR_RETURN(tensor.strides, NumbersOf(*value.items[2], 0));
  if (tensor.offset < 0 || tensor.strides.size() != tensor.shape.size())
    return BadModel("its shape, strides and offset do not fit together");
  return tensor;
}

}  // namespace

Result<std::vector<PickledTensor>> ReadPickledTensors(std::span<const std::byte> pickle) {
  if (pickle.size() > kPickleBytesMax)
    return BadModel(StrCat("the pickle of weights has ", pickle.size(), " bytes; the limit is ",
                           kPickleBytesMax));
  PickleReader reader(pickle);
  SLUICE_ASSIGN_OR_RETURN(const Value* const top, reader.Run());
  if (top->kind != Value::Kind::kDictionary)
    return BadModel("the pickle of weights is no dictionary of tensors");
  std::vector<PickledTensor> tensors;
  for (size_t i = 0; i + 1 < top->items.size(); i += 2) {
    const Value &key = *top->items[i], &value = *top->items[i + 1];
    if (key.kind != Value::Kind::kText || value.kind != Value::Kind::kTensor) continue;
    auto tensor = Described(key.text, value);
    if (!tensor.ok()) return tensor.status().WithContext(StrCat("the tensor ", Quote(key.text)));
    if (tensors.size() == kPickledTensorsMax) {
      return BadModel(
          StrCat("the pickle of weights has more than ", kPickledTensorsMax, " tensors"));
    }
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

}  // namespace sluice::files
