// Requests of many threads over one compiled model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "include/api/context.h"
#include "include/api/status.h"
#include "include/api/types.h"

namespace mindspore {
class ModelImpl;

class MS_API RunnerConfig {
 public:
  // Requests that run at the same time; 0 chooses by the available cores.
  void SetWorkersNum(int32_t workers_num) { workers_num_ = workers_num; }
  int32_t GetWorkersNum() const { return workers_num_; }
  void SetContext(const std::shared_ptr<Context> &context) { context_ = context; }
  std::shared_ptr<Context> GetContext() const { return context_; }
  // Options by section, which take precedence over those of the .ini file at SetConfigPath.
  void SetConfigInfo(const std::string &section, const std::map<std::string, std::string> &config) {
    config_info_[section] = config;
  }
  std::map<std::string, std::map<std::string, std::string>> GetConfigInfo() const { return config_info_; }
  void SetConfigPath(const std::string &config_path) { config_path_ = config_path; }
  std::string GetConfigPath() const { return config_path_; }
  // Devices of the context's kind that workers run on, SetWorkersNum on each.
  void SetDeviceIds(const std::vector<uint32_t> &device_ids) { device_ids_ = device_ids; }
  std::vector<uint32_t> GetDeviceIds() const { return device_ids_; }

 private:
  int32_t workers_num_ = 0;
  std::shared_ptr<Context> context_;
  std::map<std::string, std::map<std::string, std::string>> config_info_;
  std::string config_path_;
  std::vector<uint32_t> device_ids_;
};

class MS_API ModelParallelRunner {
 public:
  ModelParallelRunner();
  // Waits for running predictions, fails the waiting ones, and frees the model.
  ~ModelParallelRunner();

  // Loads and compiles a model from a file, or from bytes, which are copied.
  Status Init(const std::string &model_path, const std::shared_ptr<RunnerConfig> &runner_config = nullptr);
  Status Init(const void *model_data, size_t data_size, const std::shared_ptr<RunnerConfig> &runner_config = nullptr);

  // Return new tensors without data on each call, so that every thread has its own; none before Init.
  std::vector<MSTensor> GetInputs();
  std::vector<MSTensor> GetOutputs();

  // As Model::Predict, from any number of threads: they wait for a worker in order of arrival.
  Status Predict(const std::vector<MSTensor> &inputs, std::vector<MSTensor> *outputs,
                 const MSKernelCallBack &before = nullptr, const MSKernelCallBack &after = nullptr);

 private:
  std::shared_ptr<ModelImpl> impl_;
};
}  // namespace mindspore
