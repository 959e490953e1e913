// The context: devices to run on, and their options. Set options before a model is built.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "include/api/dual_abi_helper.h"
#include "include/api/types.h"

namespace mindspore {
enum DelegateMode { kNoDelegate = 0, kCoreML = 1, kNNAPI = 2 };

enum DeviceType {
  kCPU = 0,
  kGPU,
  kKirinNPU,
  kAscend,
  kAscend910,
  kAscend310,
  kCustomDevice,
  kAllDevice,
  kInvalidDeviceType = 100,
};

class Allocator;
class AbstractDelegate;
class Delegate;

// Options by the names that Pinnace's Python classes have for them, by `ascend_context.KEY`, or, if Pinnace has no
// meaning for one, by the method that sets it: building a model then answers kLiteNotSupport.
struct OptionValues {
  using Value = std::variant<bool, int64_t, std::string, std::vector<int64_t>>;
  std::map<std::string, Value> values;

  template <class T>
  T Get(const std::string &name, T otherwise = {}) const {
    auto found = values.find(name);
    return found == values.end() ? otherwise : std::get<T>(found->second);
  }
};

class MS_API DeviceInfoContext : public std::enable_shared_from_this<DeviceInfoContext> {
 public:
  struct Data : OptionValues {
    std::shared_ptr<Allocator> allocator;
    std::map<int, std::vector<int>> shapes;
  };

  virtual ~DeviceInfoContext() = default;
  virtual enum DeviceType GetDeviceType() const = 0;

  // Returns this as the class of its kind of device, nullptr for another class.
  template <class T>
  std::shared_ptr<T> Cast() {
    static_assert(std::is_base_of<DeviceInfoContext, T>::value, "T is no description of a device");
    return GetDeviceType() == T().GetDeviceType() ? std::static_pointer_cast<T>(shared_from_this()) : nullptr;
  }

  // The engine of the CPU ("onnxruntime", "openvino"), or onnxruntime's provider of a device ("tensorrt").
  void SetProvider(const std::string &provider) { Set("provider", provider); }
  std::string GetProvider() const { return Get<std::string>("provider"); }
  void SetProviderDevice(const std::string &device) { Set("SetProviderDevice", device); }
  std::string GetProviderDevice() const { return Get<std::string>("SetProviderDevice"); }
  // Engines allocate their memory: an allocator here answers kLiteNotSupport when a model is built.
  void SetAllocator(const std::shared_ptr<Allocator> &allocator) {
    data_->allocator = allocator;
    Set("SetAllocator", allocator != nullptr);
  }
  std::shared_ptr<Allocator> GetAllocator() const { return data_->allocator; }

  const Data &data() const { return *data_; }

 protected:
  template <class T>
  void Set(const std::string &name, const T &value) {
    data_->values[name] = value;
  }
  template <class T>
  T Get(const std::string &name, T otherwise = {}) const {
    return data_->Get<T>(name, otherwise);
  }
  void SetNumber(const std::string &name, int64_t value) { Set(name, value); }
  int64_t GetNumber(const std::string &name) const { return Get<int64_t>(name); }

  std::shared_ptr<Data> data_ = std::make_shared<Data>();
};

class MS_API Context {
 public:
  struct Data : OptionValues {
    std::vector<std::shared_ptr<DeviceInfoContext>> devices;
    std::shared_ptr<AbstractDelegate> delegate;
    std::shared_ptr<Delegate> older_delegate;
  };

  // Threads that compute one request; 0 chooses by the available cores.
  void SetThreadNum(int32_t thread_num) { Set("thread_num", int64_t{thread_num}); }
  int32_t GetThreadNum() const { return static_cast<int32_t>(data_->Get<int64_t>("thread_num")); }
  void SetInterOpParallelNum(int32_t parallel_num) { Set("inter_op_parallel_num", int64_t{parallel_num}); }
  int32_t GetInterOpParallelNum() const { return static_cast<int32_t>(data_->Get<int64_t>("inter_op_parallel_num")); }
  // Cores that threads are bound to: 0 none, 1 the fastest first, 2 the slowest first; or these, in this order.
  void SetThreadAffinity(int mode) { Set("thread_affinity_mode", int64_t{mode}); }
  int GetThreadAffinityMode() const { return static_cast<int>(data_->Get<int64_t>("thread_affinity_mode")); }
  void SetThreadAffinity(const std::vector<int> &core_list) {
    Set("thread_affinity_core_list", std::vector<int64_t>(core_list.begin(), core_list.end()));
  }
  std::vector<int32_t> GetThreadAffinityCoreList() const {
    auto cores = data_->Get<std::vector<int64_t>>("thread_affinity_core_list");
    return {cores.begin(), cores.end()};
  }
  void SetEnableParallel(bool is_parallel) { Set("enable_parallel", is_parallel); }
  bool GetEnableParallel() const { return data_->Get<bool>("enable_parallel"); }
  // A file that tells which ranks run one model together.
  void SetGroupInfoFile(std::string group_info_file) { Set("group_info_file", std::move(group_info_file)); }
  std::string GetGroupInfoFile() const { return data_->Get<std::string>("group_info_file"); }

  void SetBuiltInDelegate(DelegateMode mode) { Set("SetBuiltInDelegate", int64_t{mode}); }
  DelegateMode GetBuiltInDelegate() const {
    return static_cast<DelegateMode>(data_->Get<int64_t>("SetBuiltInDelegate"));
  }
  void set_delegate(const std::shared_ptr<AbstractDelegate> &delegate) {
    data_->delegate = delegate;
    Set("set_delegate", delegate != nullptr);
  }
  std::shared_ptr<AbstractDelegate> get_delegate() const { return data_->delegate; }
  void SetDelegate(const std::shared_ptr<Delegate> &delegate) {
    data_->older_delegate = delegate;
    Set("SetDelegate", delegate != nullptr);
  }
  std::shared_ptr<Delegate> GetDelegate() const { return data_->older_delegate; }
  void SetMultiModalHW(bool float_mode) { Set("SetMultiModalHW", float_mode); }
  bool GetMultiModalHW() const { return data_->Get<bool>("SetMultiModalHW"); }

  // The devices to use, the preferred one first; the CPU is the fallback of the others. None means the CPU.
  std::vector<std::shared_ptr<DeviceInfoContext>> &MutableDeviceInfo() { return data_->devices; }

  const Data &data() const { return *data_; }

 private:
  template <class T>
  void Set(const std::string &name, T value) {
    data_->values[name] = std::move(value);
  }

  std::shared_ptr<Data> data_ = std::make_shared<Data>();
};

class MS_API AutoDeviceInfo : public DeviceInfoContext {
 public:
  enum DeviceType GetDeviceType() const override { return kAllDevice; };
};

class MS_API CPUDeviceInfo : public DeviceInfoContext {
 public:
  enum DeviceType GetDeviceType() const override { return kCPU; };
  void SetEnableFP16(bool is_fp16) { Set("enable_fp16", is_fp16); }
  bool GetEnableFP16() const { return Get<bool>("enable_fp16"); }
};

class MS_API KirinNPUDeviceInfo : public DeviceInfoContext {
 public:
  enum DeviceType GetDeviceType() const override { return kKirinNPU; };
  void SetEnableFP16(bool is_fp16) { Set("enable_fp16", is_fp16); }
  bool GetEnableFP16() const { return Get<bool>("enable_fp16"); }
  void SetFrequency(int frequency) { SetNumber("SetFrequency", frequency); }
  int GetFrequency() const { return static_cast<int>(GetNumber("SetFrequency")); }
};

class MS_API GPUDeviceInfo : public DeviceInfoContext {
 public:
  enum DeviceType GetDeviceType() const override { return kGPU; };
  void SetDeviceID(uint32_t device_id) { SetNumber("device_id", device_id); }
  uint32_t GetDeviceID() const { return static_cast<uint32_t>(GetNumber("device_id")); }
  // Rank of this process and number of ranks, from the launcher (MPI or the like); 0 and 1 without one.
  int GetRankID() const;
  int GetGroupSize() const;
  void SetPrecisionMode(const std::string &precision_mode) { Set("precision_mode", precision_mode); }
  std::string GetPrecisionMode() const { return Get<std::string>("precision_mode"); }
  void SetEnableFP16(bool is_fp16) { Set("enable_fp16", is_fp16); }
  bool GetEnableFP16() const { return Get<bool>("enable_fp16"); }
  void SetEnableGLTexture(bool is_enable_gl_texture) { Set("SetEnableGLTexture", is_enable_gl_texture); }
  bool GetEnableGLTexture() const { return Get<bool>("SetEnableGLTexture"); }
  void SetGLContext(void *gl_context) { SetNumber("SetGLContext", reinterpret_cast<intptr_t>(gl_context)); }
  void *GetGLContext() const { return reinterpret_cast<void *>(GetNumber("SetGLContext")); }
  void SetGLDisplay(void *gl_display) { SetNumber("SetGLDisplay", reinterpret_cast<intptr_t>(gl_display)); }
  void *GetGLDisplay() const { return reinterpret_cast<void *>(GetNumber("SetGLDisplay")); }
};

// Strings are those of the section [ascend_context] of a configuration file.
class MS_API AscendDeviceInfo : public DeviceInfoContext {
 public:
  enum DeviceType GetDeviceType() const override { return kAscend; };
  void SetDeviceID(uint32_t device_id) { SetNumber("device_id", device_id); }
  uint32_t GetDeviceID() const { return static_cast<uint32_t>(GetNumber("device_id")); }
  void SetRankID(uint32_t rank_id) { SetNumber("rank_id", rank_id); }
  uint32_t GetRankID() const { return static_cast<uint32_t>(GetNumber("rank_id")); }
  void SetInsertOpConfigPath(const std::string &path) { Set(kInsertOp, path); }
  std::string GetInsertOpConfigPath() const { return Get<std::string>(kInsertOp); }
  void SetInputFormat(const std::string &format) { Set(kInputFormat, format); }
  std::string GetInputFormat() const { return Get<std::string>(kInputFormat); }
  void SetInputShape(const std::string &shape) { Set(kInputShape, shape); }
  std::string GetInputShape() const { return Get<std::string>(kInputShape); }
  void SetInputShapeMap(const std::map<int, std::vector<int>> &shape) {
    data_->shapes = shape;
    Set("SetInputShapeMap", !shape.empty());
  }
  std::map<int, std::vector<int>> GetInputShapeMap() const { return data_->shapes; }
  void SetDynamicBatchSize(const std::vector<size_t> &sizes) {
    std::string text;
    for (size_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
    Set(kBatchSize, text);
  }
  std::string GetDynamicBatchSize() const { return Get<std::string>(kBatchSize); }
  void SetDynamicImageSize(const std::string &sizes) { Set(kImageSize, sizes); }
  std::string GetDynamicImageSize() const { return Get<std::string>(kImageSize); }
  // kNumberTypeFloat32, kNumberTypeFloat16 or kNumberTypeUInt8.
  void SetOutputType(enum DataType output_type) { SetNumber("output_type", static_cast<int64_t>(output_type)); }
  enum DataType GetOutputType() const { return static_cast<enum DataType>(GetNumber("output_type")); }
  void SetPrecisionMode(const std::string &precision_mode) { Set("precision_mode", precision_mode); }
  std::string GetPrecisionMode() const { return Get<std::string>("precision_mode"); }
  void SetOpSelectImplMode(const std::string &mode) { Set(kOpSelect, mode); }
  std::string GetOpSelectImplMode() const { return Get<std::string>(kOpSelect); }
  void SetFusionSwitchConfigPath(const std::string &path) { Set(kFusionSwitch, path); }
  std::string GetFusionSwitchConfigPath() const { return Get<std::string>(kFusionSwitch); }
  void SetBufferOptimizeMode(const std::string &mode) { Set(kBufferOptimize, mode); }
  std::string GetBufferOptimizeMode() const { return Get<std::string>(kBufferOptimize); }

 private:
  static constexpr const char *kInsertOp = "ascend_context.insert_op_config_file_path";
  static constexpr const char *kInputFormat = "ascend_context.input_format";
  static constexpr const char *kInputShape = "ascend_context.input_shape";
  static constexpr const char *kBatchSize = "ascend_context.dynamic_batch_size";
  static constexpr const char *kImageSize = "ascend_context.dynamic_image_size";
  static constexpr const char *kOpSelect = "ascend_context.op_select_impl_mode";
  static constexpr const char *kFusionSwitch = "ascend_context.fusion_switch_config_file_path";
  static constexpr const char *kBufferOptimize = "ascend_context.buffer_optimize";
};
using Ascend310DeviceInfo = AscendDeviceInfo;
using Ascend910DeviceInfo = AscendDeviceInfo;
}  // namespace mindspore
