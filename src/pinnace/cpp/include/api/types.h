// Tensors, and the types that calls share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "include/api/data_type.h"
#include "include/api/dual_abi_helper.h"
#include "include/api/format.h"
#include "include/api/visible.h"

namespace mindspore {
// Kinds of model files. Pinnace reads the kind from the content; kAIR and kOM are for Ascend's own tools.
enum ModelType : uint32_t {
  kMindIR = 0,
  kAIR = 1,
  kOM = 2,
  kONNX = 3,
  kMindIR_Lite = 4,
  kDataFlow = 5,
  kUnknownType = 0xFFFFFFFF
};

enum QuantizationType : uint32_t { kNoQuant = 0, kWeightQuant = 1, kFullQuant = 2, kUnknownQuantType = 0xFFFFFFFF };

enum OptimizationLevel : uint32_t { kO0 = 0, kO2 = 2, kO3 = 3, kAuto = 4, kOptimizationType = 0xFFFFFFFF };

struct QuantParam {
  int bit_num;
  double scale;
  int32_t zero_point;
  double min;
  double max;
};

class Allocator;

// A named array with a shape, an element type and a layout. Copies share one array; `Clone` makes another.
class MS_API MSTensor {
 public:
  class Impl;

  // Each returns a new tensor, which DestroyTensorPtr deletes, or nullptr if `data_len` is not the size that type
  // and shape have, or a file cannot be read. CreateTensor copies the data, CreateRefTensor refers to it.
  static MSTensor *CreateTensor(const std::string &name, DataType type, const std::vector<int64_t> &shape,
                                const void *data, size_t data_len) noexcept;
  static MSTensor *CreateRefTensor(const std::string &name, DataType type, const std::vector<int64_t> &shape,
                                   const void *data, size_t data_len, bool own_data = true) noexcept;
  static MSTensor CreateDeviceTensor(const std::string &name, DataType type, const std::vector<int64_t> &shape,
                                     void *data, size_t data_len) noexcept;
  // The shape {} stands for one dimension with all elements of the file.
  static MSTensor *CreateTensorFromFile(const std::string &file, DataType type = DataType::kNumberTypeUInt8,
                                        const std::vector<int64_t> &shape = {}) noexcept;
  static MSTensor *StringsToTensor(const std::string &name, const std::vector<std::string> &str);
  static std::vector<std::string> TensorToStrings(const MSTensor &tensor);
  static void DestroyTensorPtr(MSTensor *tensor) noexcept;

  MSTensor();
  explicit MSTensor(const std::shared_ptr<Impl> &impl);
  MSTensor(const std::string &name, DataType type, const std::vector<int64_t> &shape, const void *data,
           size_t data_len);
  explicit MSTensor(std::nullptr_t);
  ~MSTensor();

  std::string Name() const;
  enum DataType DataType() const;
  // A free dimension is -1; then ElementNum and DataSize are 0.
  const std::vector<int64_t> &Shape() const;
  int64_t ElementNum() const;
  // Returns the data, which lives as long as the pointer, or nullptr if there is none.
  std::shared_ptr<const void> Data() const;
  // Returns the data, zeros if there was none; nullptr if a dimension is free.
  void *MutableData();
  size_t DataSize() const;
  bool IsConst() const;
  bool IsDevice() const;
  MSTensor *Clone() const;

  bool operator==(std::nullptr_t) const { return impl_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return impl_ != nullptr; }
  bool operator==(const MSTensor &tensor) const { return impl_ == tensor.impl_; }
  bool operator!=(const MSTensor &tensor) const { return impl_ != tensor.impl_; }

  void SetShape(const std::vector<int64_t> &shape);
  void SetDataType(enum DataType data_type);
  void SetTensorName(const std::string &name);
  // The allocator of the memory that MutableData returns, and that SetData is given to own.
  void SetAllocator(std::shared_ptr<Allocator> allocator);
  std::shared_ptr<Allocator> allocator() const;
  void SetFormat(mindspore::Format format);
  mindspore::Format format() const;

  // Uses `data` where it lies, DataSize() bytes. With `own_data` the tensor frees it: by the allocator, or by free().
  // Otherwise the caller may free it once Predict has returned. On an output, results are copied there.
  void SetData(void *data, bool own_data = true);

  // Memory of the device that the model runs on: the host's if the device is simulated. Real ones answer
  // kLiteNotSupport in Predict.
  void SetDeviceData(void *data);
  void *GetDeviceData();

  std::vector<QuantParam> QuantParams() const;
  void SetQuantParams(std::vector<QuantParam> quant_params);

  std::shared_ptr<Impl> impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// Bytes that grow. Copies share them; `Clone` copies.
class MS_API Buffer {
 public:
  Buffer() : bytes_(std::make_shared<std::vector<char>>()) {}
  Buffer(const void *data, size_t data_len) : Buffer() { SetData(data, data_len); }

  const void *Data() const { return bytes_->data(); }
  void *MutableData() { return bytes_->data(); }
  size_t DataSize() const { return bytes_->size(); }
  bool ResizeData(size_t data_len) {
    bytes_->resize(data_len);
    return true;
  }
  bool SetData(const void *data, size_t data_len) {
    if (data == nullptr && data_len != 0) return false;
    auto first = static_cast<const char *>(data);
    bytes_->assign(first, first + data_len);
    return true;
  }
  Buffer Clone() const { return Buffer(Data(), DataSize()); }

 private:
  std::shared_ptr<std::vector<char>> bytes_;
};

// The key of an encrypted model: 16, 24 or 32 bytes.
struct MS_API Key {
  const size_t max_key_len = 32;
  size_t len = 0;
  unsigned char key[32] = {0};
  Key() = default;
  Key(const Key &other) : Key(reinterpret_cast<const char *>(other.key), other.len) {}
  explicit Key(const char *dec_key, size_t key_len) {
    if (dec_key == nullptr || key_len == 0 || key_len > max_key_len) return;
    for (; len < key_len; ++len) key[len] = static_cast<unsigned char>(dec_key[len]);
  }
};

constexpr char kDecModeAesGcm[] = "AES-GCM";

// One operator of a prediction: its name in the model file, its type, and its milliseconds.
struct MSCallBackParam {
  std::string node_name;
  std::string node_type;
  double execute_time;
};

// Called for each operator; false ends the prediction. Pinnace tells no tensors: both vectors are empty.
using MSKernelCallBack =
    std::function<bool(const std::vector<MSTensor> &inputs, const std::vector<MSTensor> &outputs,
                       const MSCallBackParam &opInfo)>;

// Returns the version of Pinnace.
MS_API std::string Version();
}  // namespace mindspore
