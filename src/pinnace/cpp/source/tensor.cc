#include "tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace mindspore {
namespace {
constexpr size_t kLarge = 1 << 16;  // bytes whose copy takes longer than to give up Python's lock

size_t ItemSize(DataType type) {
  switch (type) {
    case DataType::kNumberTypeBool:
    case DataType::kNumberTypeInt8:
    case DataType::kNumberTypeUInt8:
    case DataType::kObjectTypeString:
      return 1;
    case DataType::kNumberTypeInt16:
    case DataType::kNumberTypeUInt16:
    case DataType::kNumberTypeFloat16:
    case DataType::kNumberTypeBFloat16:
      return 2;
    case DataType::kNumberTypeInt32:
    case DataType::kNumberTypeUInt32:
    case DataType::kNumberTypeFloat32:
      return 4;
    case DataType::kNumberTypeInt64:
    case DataType::kNumberTypeUInt64:
    case DataType::kNumberTypeFloat64:
      return 8;
    default:
      return 0;
  }
}

class HostAllocator : public Allocator {
 public:
  void *Malloc(size_t size) override { return std::malloc(size); }
  void Free(void *ptr) override { std::free(ptr); }
  int RefCount(void *) override { return 0; }
  int SetRefCount(void *, int) override { return 0; }
  int DecRefCount(void *, int) override { return 0; }
  int IncRefCount(void *, int) override { return 0; }
};

// Frees memory where it came from.
std::shared_ptr<void> Owned(void *memory, const std::shared_ptr<Allocator> &allocator) {
  if (allocator == nullptr) return std::shared_ptr<void>(memory, std::free);
  return std::shared_ptr<void>(memory, [allocator](void *freed) { allocator->Free(freed); });
}
}  // namespace

std::shared_ptr<Allocator> Allocator::Create() { return std::make_shared<HostAllocator>(); }

int64_t MSTensor::Impl::ElementNum() const {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return 0;
  }
  return count;
}

size_t MSTensor::Impl::DataSize() const {
  size_t size;
  if (type == DataType::kObjectTypeString) return capacity;
  return __builtin_mul_overflow(static_cast<size_t>(ElementNum()), ItemSize(type), &size) ? 0 : size;
}

void *MSTensor::Impl::Allocated() {
  size_t size = DataSize();
  bool enough = data != nullptr && (given || capacity >= size);
  if (enough || size == 0) return data.get();
  void *memory = allocator == nullptr ? std::malloc(size) : allocator->Malloc(size);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, size);
  data = Owned(memory, allocator);
  capacity = size;
  computed = false;
  return memory;
}

void MSTensor::Impl::Refer(void *memory, bool own) {
  if (memory == data.get() && memory != nullptr) return;  // the caller's, or its own, which it would free
  data = own && memory != nullptr ? Owned(memory, allocator) : std::shared_ptr<void>(memory, [](void *) {});
  given = memory != nullptr;
  computed = false;
  capacity = 0;
}

bool MSTensor::Impl::Copy(const void *from, size_t size) {
  given = computed = false;
  data.reset();
  capacity = type == DataType::kObjectTypeString ? size : 0;
  if (type == DataType::kObjectTypeString) data = Owned(std::malloc(size), nullptr);
  if (Allocated() == nullptr) return size == 0;
  std::memcpy(data.get(), from, size);
  return true;
}

python::Ref MSTensor::Impl::Array(bool device_is_host) {
  if (device_data != nullptr && !device_is_host) {
    throw Status(kLiteNotSupport, "tensor '" + name + "' has memory of a device, but only simulated devices share " +
                                      "theirs with C++: SetData takes memory of the host");
  }
  void *from = device_data != nullptr ? device_data : data.get();
  size_t size = DataSize();
  bool free = std::any_of(shape.begin(), shape.end(), [](int64_t dim) { return dim < 0; });
  if (free || (from == nullptr && size != 0)) {
    throw Status(kLiteInputTensorError, "tensor '" + name + "' has " +
                                            (free ? "free dimensions: Resize the model, or SetShape"
                                                  : "no data: SetData sets it, MutableData makes it zeros"));
  }
  if (device_data == nullptr && !given && capacity < size) {
    throw Status(kLiteInputTensorError, "tensor '" + name + "' has " + std::to_string(capacity) + " bytes, but its " +
                                            "shape has grown to " + std::to_string(size) + ": set the data again");
  }
  if (array_ && of_ == from && typed_ == type && shaped_ == shape) return array_.ref();
  static char nothing;
  auto memory = static_cast<char *>(from == nullptr ? &nothing : from);
  auto view = python::Ref::New(PyMemoryView_FromMemory(memory, static_cast<Py_ssize_t>(size), PyBUF_WRITE));
  array_ = python::Held(python::Call("array", view, static_cast<int64_t>(type), shape));
  of_ = from;
  typed_ = type;
  shaped_ = shape;
  return array_.ref();
}

void MSTensor::Impl::Take(const python::Ref &results, bool device_is_host) {
  if (type == DataType::kObjectTypeString) {
    python::Ref packed = python::Call("packed", results);
    shape = {static_cast<int64_t>(PyObject_Size(results.get()))};
    Copy(PyBytes_AS_STRING(packed.get()), static_cast<size_t>(PyBytes_GET_SIZE(packed.get())));
    return;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(results.get(), &view, PyBUF_ND) < 0) throw python::Raised();
  void *from = view.buf;
  size_t size = static_cast<size_t>(view.len);
  std::vector<int64_t> dims(view.shape, view.shape + view.ndim);
  PyBuffer_Release(&view);  // `results` keeps the memory
  if (!given && device_data == nullptr) {
    data = std::shared_ptr<void>(from, [held = std::make_shared<python::Held>(results)](void *) {});
    computed = true;
    capacity = size;
    array_ = python::Held(results);
    of_ = from;
    typed_ = type;
    shaped_ = shape = dims;
    return;
  }
  if (device_data != nullptr && !device_is_host) {
    throw Status(kLiteNotSupport, "output '" + name + "' has memory of a device: only simulated devices share theirs");
  }
  if (size > DataSize()) {
    throw Status(kLiteInputTensorError, "output '" + name + "' has " + std::to_string(size) +
                                            " bytes, its tensor is set to memory of " + std::to_string(DataSize()));
  }
  void *into = device_data != nullptr ? device_data : data.get();
  PyThreadState *state = size > kLarge ? PyEval_SaveThread() : nullptr;
  std::memcpy(into, from, size);
  if (state != nullptr) PyEval_RestoreThread(state);
  shape = dims;
}

MSTensor *MSTensor::CreateTensor(const std::string &name, enum DataType type, const std::vector<int64_t> &shape,
                                 const void *data, size_t data_len) noexcept {
  auto impl = std::make_shared<Impl>(name, type, shape);
  if (data_len != impl->DataSize() || (data == nullptr && data_len != 0)) return nullptr;
  return impl->Copy(data, data_len) ? new (std::nothrow) MSTensor(impl) : nullptr;
}

MSTensor *MSTensor::CreateRefTensor(const std::string &name, enum DataType type, const std::vector<int64_t> &shape,
                                    const void *data, size_t data_len, bool own_data) noexcept {
  auto impl = std::make_shared<Impl>(name, type, shape);
  if (data_len != impl->DataSize()) return nullptr;
  impl->Refer(const_cast<void *>(data), own_data);
  return new (std::nothrow) MSTensor(impl);
}

MSTensor MSTensor::CreateDeviceTensor(const std::string &name, enum DataType type, const std::vector<int64_t> &shape,
                                      void *data, size_t data_len) noexcept {
  auto impl = std::make_shared<Impl>(name, type, shape);
  if (data_len != impl->DataSize()) return MSTensor(nullptr);
  impl->device_data = data;
  return MSTensor(impl);
}

MSTensor *MSTensor::CreateTensorFromFile(const std::string &file, enum DataType type,
                                         const std::vector<int64_t> &shape) noexcept {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return nullptr;
  std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  size_t item = ItemSize(type);
  if (item == 0 || bytes.size() % item != 0) return nullptr;
  auto elements = static_cast<int64_t>(bytes.size() / item);
  return CreateTensor(file, type, shape.empty() ? std::vector<int64_t>{elements} : shape, bytes.data(), bytes.size());
}

// Text is kept as the number of strings, the offset of each and of the end, and their bytes.
MSTensor *MSTensor::StringsToTensor(const std::string &name, const std::vector<std::string> &str) {
  std::vector<int32_t> head = {static_cast<int32_t>(str.size())};
  auto offset = static_cast<int32_t>((str.size() + 2) * sizeof(int32_t));
  std::string bytes;
  for (const auto &text : str) {
    head.push_back(offset + static_cast<int32_t>(bytes.size()));
    bytes += text;
  }
  head.push_back(offset + static_cast<int32_t>(bytes.size()));
  std::string all(reinterpret_cast<const char *>(head.data()), head.size() * sizeof(int32_t));
  all += bytes;
  std::vector<int64_t> shape = {head[0]};
  auto impl = std::make_shared<Impl>(name, DataType::kObjectTypeString, shape);
  return impl->Copy(all.data(), all.size()) ? new (std::nothrow) MSTensor(impl) : nullptr;
}

std::vector<std::string> MSTensor::TensorToStrings(const MSTensor &tensor) {
  std::vector<std::string> texts;
  if (tensor == nullptr || tensor.DataType() != DataType::kObjectTypeString || !tensor.impl_->data) return texts;
  auto bytes = static_cast<const char *>(tensor.impl_->data.get());
  auto head = reinterpret_cast<const int32_t *>(bytes);
  for (int32_t i = 1; i <= head[0]; ++i) texts.emplace_back(bytes + head[i], bytes + head[i + 1]);
  return texts;
}

void MSTensor::DestroyTensorPtr(MSTensor *tensor) noexcept { delete tensor; }

MSTensor::MSTensor() : impl_(std::make_shared<Impl>()) {}
MSTensor::MSTensor(const std::shared_ptr<Impl> &impl) : impl_(impl) {}
MSTensor::MSTensor(std::nullptr_t) {}
MSTensor::MSTensor(const std::string &name, enum DataType type, const std::vector<int64_t> &shape, const void *data,
                   size_t data_len)
    : impl_(std::make_shared<Impl>(name, type, shape)) {
  if (data != nullptr && data_len == impl_->DataSize()) impl_->Copy(data, data_len);
}
MSTensor::~MSTensor() = default;

// A null tensor answers as an empty one does.
std::string MSTensor::Name() const { return impl_ ? impl_->name : ""; }
enum DataType MSTensor::DataType() const { return impl_ ? impl_->type : DataType::kTypeUnknown; }
const std::vector<int64_t> &MSTensor::Shape() const {
  static const std::vector<int64_t> none;
  return impl_ ? impl_->shape : none;
}
int64_t MSTensor::ElementNum() const { return impl_ ? impl_->ElementNum() : 0; }
std::shared_ptr<const void> MSTensor::Data() const { return impl_ ? impl_->data : nullptr; }
void *MSTensor::MutableData() { return impl_ ? impl_->Allocated() : nullptr; }
size_t MSTensor::DataSize() const { return impl_ ? impl_->DataSize() : 0; }
bool MSTensor::IsConst() const { return false; }
bool MSTensor::IsDevice() const { return impl_ && impl_->device_data != nullptr; }

MSTensor *MSTensor::Clone() const {
  if (impl_ == nullptr) return nullptr;
  auto impl = std::make_shared<Impl>(impl_->name, impl_->type, impl_->shape, impl_->format);
  impl->quant_params = impl_->quant_params;
  bool grown = !impl_->given && impl_->capacity < DataSize();  // by SetShape, without more data
  if (impl_->data != nullptr && (grown || !impl->Copy(impl_->data.get(), DataSize()))) return nullptr;
  return new (std::nothrow) MSTensor(impl);
}

void MSTensor::SetShape(const std::vector<int64_t> &shape) {
  if (impl_) impl_->shape = shape;
}
void MSTensor::SetDataType(enum DataType data_type) {
  if (impl_) impl_->type = data_type;
}
void MSTensor::SetTensorName(const std::string &name) {
  if (impl_) impl_->name = name;
}
void MSTensor::SetAllocator(std::shared_ptr<Allocator> allocator) {
  if (impl_) impl_->allocator = std::move(allocator);
}
std::shared_ptr<Allocator> MSTensor::allocator() const { return impl_ ? impl_->allocator : nullptr; }
void MSTensor::SetFormat(mindspore::Format format) {
  if (impl_) impl_->format = format;
}
mindspore::Format MSTensor::format() const { return impl_ ? impl_->format : DEFAULT_FORMAT; }
void MSTensor::SetData(void *data, bool own_data) {
  if (impl_) impl_->Refer(data, own_data);
}
void MSTensor::SetDeviceData(void *data) {
  if (impl_) impl_->device_data = data;
}
void *MSTensor::GetDeviceData() { return impl_ ? impl_->device_data : nullptr; }
std::vector<QuantParam> MSTensor::QuantParams() const {
  return impl_ ? impl_->quant_params : std::vector<QuantParam>();
}
void MSTensor::SetQuantParams(std::vector<QuantParam> quant_params) {
  if (impl_) impl_->quant_params = std::move(quant_params);
}
}  // namespace mindspore
