// A model that is loaded, compiled and run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "include/api/callback/callback.h"
#include "include/api/cell.h"
#include "include/api/cfg.h"
#include "include/api/context.h"
#include "include/api/dual_abi_helper.h"
#include "include/api/graph.h"
#include "include/api/status.h"
#include "include/api/types.h"

namespace mindspore {
class ModelImpl;
class Metrics;
class Node;
class Expr;
namespace dataset {
class Dataset;
}  // namespace dataset

// One request at a time; threads wait for each other. `ModelParallelRunner` runs requests beside each other.
class MS_API Model {
 public:
  Model();
  ~Model();
  Model(const Model &) = delete;
  void operator=(const Model &) = delete;

  // Loads and compiles a model; nullptr is the context of the CPU. The bytes of a model are copied. A key opens an
  // encrypted file; `cropto_lib_path` has no meaning, the Python package cryptography decrypts.
  Status Build(const void *model_data, size_t data_size, ModelType model_type,
               const std::shared_ptr<Context> &model_context = nullptr);
  Status Build(const std::string &model_path, ModelType model_type,
               const std::shared_ptr<Context> &model_context = nullptr);
  Status Build(const void *model_data, size_t data_size, ModelType model_type,
               const std::shared_ptr<Context> &model_context, const Key &dec_key, const std::string &dec_mode,
               const std::string &cropto_lib_path);
  Status Build(const std::string &model_path, ModelType model_type, const std::shared_ptr<Context> &model_context,
               const Key &dec_key, const std::string &dec_mode, const std::string &cropto_lib_path);
  Status Build(const void *, size_t, const void *, size_t, ModelType, const std::shared_ptr<Context> & = nullptr) {
    return Status(kLiteNotSupport, "Pinnace takes weights of a model's bytes from files: name its folder by mindir_path "
                                   "of [model_file]");
  }
  Status Build(GraphCell graph, const std::shared_ptr<Context> &model_context = nullptr,
               const std::shared_ptr<TrainCfg> &train_cfg = nullptr);

  // Changes the shapes of the inputs: dims[i] is the new one of inputs[i].
  Status Resize(const std::vector<MSTensor> &inputs, const std::vector<std::vector<int64_t>> &dims);
  // Exchanges weights, which the option `variable_weights_file` of [common_context] has named.
  Status UpdateWeights(const std::vector<MSTensor> &new_weights);
  Status UpdateWeights(const std::vector<std::vector<MSTensor>> &new_weights);

  // Computes the outputs. An empty vector gets new tensors. In one with a tensor for each output, a tensor with data
  // of the caller's (SetData) gets the results copied there; any other gets data of its own. With callbacks, the
  // operators are measured in an extra prediction, and then both are called for each.
  Status Predict(const std::vector<MSTensor> &inputs, std::vector<MSTensor> *outputs,
                 const MSKernelCallBack &before = nullptr, const MSKernelCallBack &after = nullptr);
  // Computes with the tensors of GetInputs and GetOutputs.
  Status Predict(const MSKernelCallBack &before = nullptr, const MSKernelCallBack &after = nullptr);

  // Options, from an .ini file or one by one, for the next Build.
  Status LoadConfig(const std::string &config_path);
  Status UpdateConfig(const std::string &section, const std::pair<std::string, std::string> &config);

  // The tensors that the model keeps: each call returns the same ones. Outputs have the data of the last prediction.
  // An unknown name gives MSTensor(nullptr) or no tensors. The node of an output is known by the output's name,
  // with or without an ending such as ":0".
  std::vector<MSTensor> GetInputs();
  MSTensor GetInputByTensorName(const std::string &tensor_name);
  std::vector<MSTensor> GetOutputs();
  std::vector<std::string> GetOutputTensorNames();
  MSTensor GetOutputByTensorName(const std::string &tensor_name);
  std::vector<MSTensor> GetOutputsByNodeName(const std::string &node_name);

  // Returns a fact about the model, such as "device" or "engine", "" if it has none of this name.
  std::string GetModelInfo(const std::string &key);
  // Frees the model, as the destructor does.
  Status Finalize();

  // Returns true if models of a kind can run on a kind of device of this machine.
  static bool CheckModelSupport(enum DeviceType device_type, ModelType model_type);

  // What follows has no meaning in Pinnace, which does not train and knows no OpenGL.
  Status Build(GraphCell, Node *, std::vector<Expr *>, const std::shared_ptr<Context> &,
               const std::shared_ptr<TrainCfg> &) {
    return Untrained("Build with an optimizer");
  }
  Status BuildTransferLearning(GraphCell, GraphCell, const std::shared_ptr<Context> &,
                               const std::shared_ptr<TrainCfg> & = nullptr) {
    return Untrained("BuildTransferLearning");
  }
  Status RunStep(const MSKernelCallBack & = nullptr, const MSKernelCallBack & = nullptr) {
    return Untrained("RunStep");
  }
  Status PredictWithPreprocess(const std::vector<std::vector<MSTensor>> &, std::vector<MSTensor> *,
                               const MSKernelCallBack & = nullptr, const MSKernelCallBack & = nullptr) {
    return NoPreprocess("PredictWithPreprocess");
  }
  Status Preprocess(const std::vector<std::vector<MSTensor>> &, std::vector<MSTensor> *) {
    return NoPreprocess("Preprocess");
  }
  bool HasPreprocess() { return false; }
  std::vector<MSTensor> GetGradients() const { return {}; }
  Status ApplyGradients(const std::vector<MSTensor> &) { return Untrained("ApplyGradients"); }
  std::vector<MSTensor> GetFeatureMaps() const { return {}; }
  std::vector<MSTensor> GetTrainableParams() const { return {}; }
  Status UpdateFeatureMaps(const std::vector<MSTensor> &) {
    return Status(kLiteNotSupport, "Pinnace changes weights by Model::UpdateWeights");
  }
  std::vector<MSTensor> GetOptimizerParams() const { return {}; }
  Status SetOptimizerParams(const std::vector<MSTensor> &) { return Untrained("SetOptimizerParams"); }
  Status SetupVirtualBatch(int, float = -1.0f, float = -1.0f) { return Untrained("SetupVirtualBatch"); }
  Status SetLearningRate(float) { return Untrained("SetLearningRate"); }
  float GetLearningRate() { return 0.0f; }
  Status InitMetrics(std::vector<Metrics *>) { return Untrained("InitMetrics"); }
  std::vector<Metrics *> GetMetrics() { return {}; }
  Status BindGLTexture2DMemory(const std::map<std::string, unsigned int> &, std::map<std::string, unsigned int> *) {
    return Status(kLiteNotSupport, "Pinnace has no OpenGL: set the data of tensors");
  }
  Status SetTrainMode(bool train) { return train ? Untrained("SetTrainMode") : kSuccess; }
  bool GetTrainMode() const { return false; }
  Status Train(int, std::shared_ptr<dataset::Dataset>, std::vector<TrainCallBack *>) { return Untrained("Train"); }
  Status Evaluate(std::shared_ptr<dataset::Dataset>, std::vector<TrainCallBack *>) { return Untrained("Evaluate"); }

 private:
  friend class ModelGroup;

  static Status Untrained(const char *method) {
    return Status(kLiteNotSupport, std::string("Model::") + method + " trains; Pinnace runs models, MindSpore trains");
  }
  static Status NoPreprocess(const char *method) {
    return Status(kLiteNotSupport, std::string("Model::") + method + ": models have no preprocessing in Pinnace, " +
                                       "give Predict the tensors");
  }

  std::shared_ptr<ModelImpl> impl_;
};
}  // namespace mindspore
