#include "include/api/model.h"

#include <algorithm>

#include "include/api/model_group.h"
#include "include/api/model_parallel_runner.h"
#include "include/api/serialization.h"
#include "tensor.h"

namespace mindspore {
using python::Apply;
using python::Call;
using python::Held;
using python::Number;
using python::Py;
using python::Ref;
using python::Text;
using python::Try;

namespace {
using Sections = std::map<std::string, std::map<std::string, std::string>>;


Ref Described(const std::shared_ptr<Context> &context) {
  if (context == nullptr) return Ref::Of(Py_None);
  std::vector<std::pair<int64_t, Ref>> devices;
  for (const auto &device : context->MutableDeviceInfo()) {
    if (device == nullptr) throw Status(kLiteNullptr, "a device of the context is nullptr");
    devices.emplace_back(device->GetDeviceType(), Py(device->data().values));
  }
  return Py(std::make_pair(Py(context->data().values), Py(devices)));
}

Ref Bytes(const void *data, size_t size) {
  if (data == nullptr || size == 0) throw Status(kLiteNullptr, "the model has no bytes");
  return python::Bytes(data, size);
}

Ref Described(const Key &key) { return python::Bytes(key.key, key.len); }

MSTensor Named(const std::vector<MSTensor> &tensors, const std::string &name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto &tensor) { return tensor.Name() == name; });
  return found == tensors.end() ? MSTensor(nullptr) : *found;
}

Status Unbuilt() { return Status(kLiteUninitializedObj, "the model is not built"); }
}  // namespace

// A model of Python, and the tensors that C++ has of it. Python's lock guards the members.
class ModelImpl {
 public:
  ~ModelImpl() { Close(); }

  void Use(const Ref &built) {
    model_ = Held(built);
    predict_ = Held(Ref::New(PyObject_GetAttrString(built.get(), "predict")));
    device_is_host_ = Number(Call("shares_memory", built).get()) != 0;
    inputs_ = Made("inputs");
    outputs_ = kinds_ = Made("outputs");
  }

  bool built() const { return static_cast<bool>(model_); }
  const Ref &model() const {
    if (!built()) throw Unbuilt();
    return model_.ref();
  }

  void Close() {
    if (!built()) return;
    Held model, predict;
    std::swap(model, model_);
    std::swap(predict, predict_);
    Try([&] { Call("close", model.ref()); });
  }

  // Returns new tensors for the inputs or outputs.
  std::vector<MSTensor> Made(const char *which) const {
    std::vector<MSTensor> tensors;
    Each(Call(which, model()), [&](PyObject *port) {
      std::vector<int64_t> shape;
      Each(Ref::Of(PyTuple_GetItem(port, 2)), [&](PyObject *size) { shape.push_back(Number(size)); });
      tensors.emplace_back(std::make_shared<MSTensor::Impl>(
          Text(PyTuple_GetItem(port, 0)), static_cast<DataType>(Number(PyTuple_GetItem(port, 1))), shape,
          static_cast<Format>(Number(PyTuple_GetItem(port, 3)))));
    });
    return tensors;
  }

  // Computes `outputs`, which become the model's own if `keeps`; see Model::Predict for what is in them.
  Status Predict(const std::vector<MSTensor> &inputs, std::vector<MSTensor> *outputs, bool keeps, bool in_place,
                 const MSKernelCallBack &before, const MSKernelCallBack &after) {
    if (outputs == nullptr) return Status(kLiteNullptr, "Predict was given nullptr for the outputs");
    std::vector<MSCallBackParam> steps;
    Status status = Try([&] {
      Ref arrays = Arrays(inputs);
      if (!outputs->empty() && outputs->size() != kinds_.size()) {
        throw Status(kLiteInputTensorError, "the model has " + std::to_string(kinds_.size()) +
                                                " outputs, but Predict was given " + std::to_string(outputs->size()) +
                                                ": pass no tensors, or those of GetOutputs");
      }
      Take(Computed(arrays), outputs, in_place);
      if (keeps) outputs_ = *outputs;
      if (before || after) steps = Steps(arrays);
    });
    for (const auto &step : steps) {
      if ((before && !before({}, {}, step)) || (after && !after({}, {}, step))) {
        return Status(kLiteError, "a callback ended the prediction at operator " + step.node_name);
      }
    }
    return status;
  }

  Status PredictInPlace(const MSKernelCallBack &before, const MSKernelCallBack &after) {
    std::vector<MSTensor> outputs = outputs_;
    return Predict(inputs_, &outputs, true, true, before, after);
  }

  void Resize(const std::vector<MSTensor> &inputs, const std::vector<std::vector<int64_t>> &dims) {
    Call("resize", model(), static_cast<int64_t>(inputs.size()), dims);
    std::vector<MSTensor> resized = Made("inputs");
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].SetShape(resized[i].Shape());
    outputs_ = kinds_ = Made("outputs");
  }

  std::vector<MSTensor> inputs() const { return inputs_; }
  std::vector<MSTensor> outputs() const { return outputs_; }

  std::string config_path;
  Sections config;

 private:
  Ref Arrays(const std::vector<MSTensor> &tensors) const {
    auto list = Ref::New(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
    Py_ssize_t place = 0;
    for (const auto &tensor : tensors) {
      if (tensor == nullptr) throw Status(kLiteNullptr, "input " + std::to_string(place) + " is a null tensor");
      Ref array = tensor.impl()->Array(device_is_host_);
      Py_INCREF(array.get());
      PyList_SET_ITEM(list.get(), place++, array.get());
    }
    return list;
  }

  // Returns the list of tensors that Model.predict returns.
  Ref Computed(const Ref &arrays) const {
    model();
    Ref predict = predict_.ref();  // another thread may close the model
    PyObject *given[] = {arrays.get()};
    return Ref::New(PyObject_Vectorcall(predict.get(), given, 1, nullptr));
  }

  void Take(const Ref &results, std::vector<MSTensor> *outputs, bool in_place) const {
    static PyObject *const data_of = PyUnicode_InternFromString("get_data_to_numpy");
    bool fresh = outputs->empty();
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const auto &kind = *kinds_[i].impl();
      if (fresh) outputs->emplace_back(nullptr);
      MSTensor &output = (*outputs)[i];
      if (output == nullptr || (output.impl()->computed && !in_place)) {
        output = MSTensor(std::make_shared<MSTensor::Impl>(kind.name, kind.type, kind.shape, kind.format));
      }
      if (output.DataType() != kind.type) {
        throw Status(kLiteInputTensorError, "output '" + kind.name + "' has another element type than its tensor");
      }
      PyObject *result = PyList_GetItem(results.get(), static_cast<Py_ssize_t>(i));
      if (result == nullptr) throw python::Raised();
      output.impl()->Take(Ref::New(PyObject_CallMethodNoArgs(result, data_of)), device_is_host_);
    }
  }

  std::vector<MSCallBackParam> Steps(const Ref &arrays) const {
    std::vector<MSCallBackParam> steps;
    Each(Call("steps", model(), arrays), [&](PyObject *step) {
      steps.push_back({Text(PyTuple_GetItem(step, 0)), Text(PyTuple_GetItem(step, 1)),
                       PyFloat_AsDouble(PyTuple_GetItem(step, 2))});
    });
    return steps;
  }

  Held model_, predict_;
  bool device_is_host_ = false;
  std::vector<MSTensor> inputs_, outputs_;
  std::vector<MSTensor> kinds_;  // the outputs without data
};

// ---- Model

Model::Model() : impl_(std::make_shared<ModelImpl>()) {}
Model::~Model() = default;

namespace {
template <class Source>
Status BuildModel(ModelImpl *impl, const Source &source, ModelType type, const std::shared_ptr<Context> &context,
                  const Key &key, const std::string &mode) {
  if (impl->built()) return Status(kLiteModelRebuild, "the model is built already: build another Model");
  return Try([&] {
    impl->Use(Call("build", source(), static_cast<int64_t>(type), Described(context), impl->config_path, impl->config,
                   Described(key), mode));
  });
}
}  // namespace

Status Model::Build(const void *model_data, size_t data_size, ModelType model_type,
                    const std::shared_ptr<Context> &model_context) {
  return Build(model_data, data_size, model_type, model_context, Key(), kDecModeAesGcm, "");
}

Status Model::Build(const std::string &model_path, ModelType model_type,
                    const std::shared_ptr<Context> &model_context) {
  return Build(model_path, model_type, model_context, Key(), kDecModeAesGcm, "");
}

Status Model::Build(const void *model_data, size_t data_size, ModelType model_type,
                    const std::shared_ptr<Context> &model_context, const Key &dec_key, const std::string &dec_mode,
                    const std::string &) {
  auto bytes = [&] { return Bytes(model_data, data_size); };
  return BuildModel(impl_.get(), bytes, model_type, model_context, dec_key, dec_mode);
}

Status Model::Build(const std::string &model_path, ModelType model_type,
                    const std::shared_ptr<Context> &model_context, const Key &dec_key, const std::string &dec_mode,
                    const std::string &) {
  auto path = [&] { return Py(model_path); };
  return BuildModel(impl_.get(), path, model_type, model_context, dec_key, dec_mode);
}

struct Graph::GraphData {
  enum ModelType type;
  std::string path;
  std::vector<char> bytes;
  Key key;
  std::string mode;
};

ModelType Graph::ModelType() const { return graph_data_ ? graph_data_->type : kUnknownType; }

Status Model::Build(GraphCell graph, const std::shared_ptr<Context> &model_context,
                    const std::shared_ptr<TrainCfg> &train_cfg) {
  if (train_cfg != nullptr) return Untrained("Build with a TrainCfg");
  auto loaded = graph.GetGraph();
  if (loaded == nullptr || *loaded == nullptr) return Status(kLiteNullptr, "the graph is empty: Serialization::Load it");
  const auto &data = *loaded->graph_data_;
  return data.bytes.empty()
             ? Build(data.path, data.type, model_context, data.key, data.mode, "")
             : Build(data.bytes.data(), data.bytes.size(), data.type, model_context, data.key, data.mode, "");
}

Status Serialization::Load(const void *model_data, size_t data_size, ModelType model_type, Graph *graph,
                           const Key &dec_key, const std::string &dec_mode) {
  if (model_data == nullptr || data_size == 0) return Status(kLiteNullptr, "the model has no bytes");
  auto first = static_cast<const char *>(model_data);
  Graph::GraphData data{model_type, "", std::vector<char>(first, first + data_size), dec_key, dec_mode};
  *graph = Graph(std::make_shared<Graph::GraphData>(data));
  return kSuccess;
}

Status Serialization::Load(const std::string &file, ModelType model_type, Graph *graph, const Key &dec_key,
                           const std::string &dec_mode) {
  Graph::GraphData data{model_type, file, {}, dec_key, dec_mode};
  *graph = Graph(std::make_shared<Graph::GraphData>(data));
  return kSuccess;
}

Status Serialization::Load(const std::vector<std::string> &files, ModelType model_type, std::vector<Graph> *graphs,
                           const Key &dec_key, const std::string &dec_mode) {
  graphs->resize(files.size());
  for (size_t i = 0; i < files.size(); ++i) Load(files[i], model_type, &(*graphs)[i], dec_key, dec_mode);
  return kSuccess;
}

Status Model::Resize(const std::vector<MSTensor> &inputs, const std::vector<std::vector<int64_t>> &dims) {
  return Try([&] { impl_->Resize(inputs, dims); });
}

Status Model::UpdateWeights(const std::vector<MSTensor> &new_weights) {
  return Try([&] {
    std::vector<std::pair<std::string, Ref>> weights;
    for (const auto &tensor : new_weights) {
      if (tensor == nullptr) throw Status(kLiteNullptr, "a weight is a null tensor");
      weights.emplace_back(tensor.Name(), tensor.impl()->Array(false));
    }
    Call("update", impl_->model(), weights);
  });
}

Status Model::UpdateWeights(const std::vector<std::vector<MSTensor>> &new_weights) {
  std::vector<MSTensor> all;
  for (const auto &group : new_weights) all.insert(all.end(), group.begin(), group.end());
  return UpdateWeights(all);
}

Status Model::Predict(const std::vector<MSTensor> &inputs, std::vector<MSTensor> *outputs,
                      const MSKernelCallBack &before, const MSKernelCallBack &after) {
  return impl_->Predict(inputs, outputs, true, false, before, after);
}

Status Model::Predict(const MSKernelCallBack &before, const MSKernelCallBack &after) {
  return impl_->PredictInPlace(before, after);
}

Status Model::LoadConfig(const std::string &config_path) {
  if (impl_->built()) return Status(kLiteModelRebuild, "LoadConfig has no effect on a model that is built");
  Status checked = Try([&] { Call("check_config", config_path); });
  if (checked.IsOk()) impl_->config_path = config_path;
  return checked;
}

Status Model::UpdateConfig(const std::string &section, const std::pair<std::string, std::string> &config) {
  if (impl_->built()) return Status(kLiteModelRebuild, "UpdateConfig has no effect on a model that is built");
  impl_->config[section][config.first] = config.second;
  return kSuccess;
}

std::vector<MSTensor> Model::GetInputs() { return impl_->inputs(); }
MSTensor Model::GetInputByTensorName(const std::string &tensor_name) { return Named(GetInputs(), tensor_name); }
std::vector<MSTensor> Model::GetOutputs() { return impl_->outputs(); }
MSTensor Model::GetOutputByTensorName(const std::string &tensor_name) { return Named(GetOutputs(), tensor_name); }

std::vector<std::string> Model::GetOutputTensorNames() {
  std::vector<std::string> names;
  for (const auto &tensor : GetOutputs()) names.push_back(tensor.Name());
  return names;
}

std::vector<MSTensor> Model::GetOutputsByNodeName(const std::string &node_name) {
  std::vector<MSTensor> found;
  for (const auto &tensor : GetOutputs()) {
    std::string name = tensor.Name();
    if (name == node_name || name.substr(0, name.rfind(':')) == node_name) found.push_back(tensor);
  }
  return found;
}

std::string Model::GetModelInfo(const std::string &key) {
  std::string fact;
  Try([&] { fact = Text(Call("fact", impl_->model(), key).get()); });
  return fact;
}

Status Model::Finalize() {
  impl_->Close();
  return kSuccess;
}

bool Model::CheckModelSupport(enum DeviceType device_type, ModelType model_type) {
  bool supported = false;
  Try([&] {
    Ref answer = Call("supports", static_cast<int64_t>(device_type), static_cast<int64_t>(model_type));
    supported = answer.get() == Py_True;
  });
  return supported;
}

// ---- ModelParallelRunner

ModelParallelRunner::ModelParallelRunner() : impl_(std::make_shared<ModelImpl>()) {}
ModelParallelRunner::~ModelParallelRunner() = default;

namespace {
template <class Source>
Status InitRunner(ModelImpl *impl, const Source &source, const std::shared_ptr<RunnerConfig> &given) {
  if (impl->built()) return Status(kLiteModelRebuild, "the runner is initialized already: use another one");
  RunnerConfig config = given == nullptr ? RunnerConfig() : *given;
  return Try([&] {
    std::vector<int64_t> ids;
    for (uint32_t id : config.GetDeviceIds()) ids.push_back(id);
    impl->Use(Call("run", source(), Described(config.GetContext()), static_cast<int64_t>(config.GetWorkersNum()), ids,
                   config.GetConfigInfo(), config.GetConfigPath()));
  });
}
}  // namespace

Status ModelParallelRunner::Init(const std::string &model_path, const std::shared_ptr<RunnerConfig> &runner_config) {
  return InitRunner(impl_.get(), [&] { return Py(model_path); }, runner_config);
}

Status ModelParallelRunner::Init(const void *model_data, size_t data_size,
                                 const std::shared_ptr<RunnerConfig> &runner_config) {
  return InitRunner(impl_.get(), [&] { return Bytes(model_data, data_size); }, runner_config);
}

std::vector<MSTensor> ModelParallelRunner::GetInputs() {
  std::vector<MSTensor> tensors;
  Try([&] { tensors = impl_->Made("inputs"); });
  return tensors;
}

std::vector<MSTensor> ModelParallelRunner::GetOutputs() {
  std::vector<MSTensor> tensors;
  Try([&] { tensors = impl_->Made("outputs"); });
  return tensors;
}

Status ModelParallelRunner::Predict(const std::vector<MSTensor> &inputs, std::vector<MSTensor> *outputs,
                                    const MSKernelCallBack &before, const MSKernelCallBack &after) {
  return impl_->Predict(inputs, outputs, false, false, before, after);
}

// ---- ModelGroup, and what belongs to no model

class ModelGroupImpl {
 public:
  explicit ModelGroupImpl(ModelGroupFlag flags) : flags_(flags) {}
  const Ref &group() {
    if (!group_) group_ = Held(Call("group", static_cast<int64_t>(flags_)));
    return group_.ref();
  }

 private:
  ModelGroupFlag flags_;
  Held group_;
};

ModelGroup::ModelGroup(ModelGroupFlag flags) : impl_(std::make_shared<ModelGroupImpl>(flags)) {}

Status ModelGroup::AddModel(const std::vector<std::string> &model_path_list) {
  return Try([&] { Call("add", impl_->group(), model_path_list); });
}

Status ModelGroup::AddModel(const std::vector<std::pair<const void *, size_t>> &) {
  return Status(kLiteNotSupport, "a ModelGroup takes paths of models: those from bytes cannot be told apart");
}

Status ModelGroup::CalMaxSizeOfWorkspace(ModelType model_type, const std::shared_ptr<Context> &ms_context) {
  return Try([&] { Call("measure", impl_->group(), static_cast<int64_t>(model_type), Described(ms_context)); });
}

namespace {
int Launched(const char *what) {
  int64_t number = 0;
  Try([&] { number = Number(Call(what).get()); });
  return static_cast<int>(number);
}
}  // namespace

int GPUDeviceInfo::GetRankID() const { return Launched("rank"); }
int GPUDeviceInfo::GetGroupSize() const { return Launched("group_size"); }

std::string Version() {
  std::string version;
  Try([&] { version = Text(Call("version").get()); });
  return version;
}
}  // namespace mindspore
