#include "include/api/model.h"

#include <algorithm>

#include "include/api/serialization.h"
#include "model_impl.h"

namespace mindspore {
namespace {
Ref KeyBytes(const Key &key) { return python::Bytes(key.key, key.len); }

MSTensor Named(const std::vector<MSTensor> &tensors, const std::string &name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto &tensor) { return tensor.Name() == name; });
  return found == tensors.end() ? MSTensor(nullptr) : *found;
}
}  // namespace

Model::Model() : impl_(std::make_shared<ModelImpl>()) {}
Model::~Model() = default;

namespace {
template <class Source>
Status BuildModel(ModelImpl *impl, const Source &source, ModelType type, const std::shared_ptr<Context> &context,
                  const Key &key, const std::string &mode) {
  return Try([&] {
    impl->CheckIsNew();
    impl->Use(Call("build", source(), static_cast<int64_t>(type), Described(context), impl->config_path, impl->config,
                   KeyBytes(key), mode));
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
  Status checked = Try([&] { Method(python::Attribute(python::Bridge(), "Settings"), "load", config_path); });
  if (checked.IsOk()) impl_->config_path = config_path;
  return checked;
}

Status Model::UpdateConfig(const std::string &section, const std::pair<std::string, std::string> &config) {
  if (impl_->built()) return Status(kLiteModelRebuild, "UpdateConfig has no effect on a model that is built");
  impl_->config[section][config.first] = config.second;
  return kSuccess;
}

std::vector<MSTensor> Model::GetInputs() {
  return Tried([&] { return impl_->inputs(); });
}
MSTensor Model::GetInputByTensorName(const std::string &tensor_name) { return Named(GetInputs(), tensor_name); }
std::vector<MSTensor> Model::GetOutputs() {
  return Tried([&] { return impl_->outputs(); });
}
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
  return Tried([&] { return Text(Method(impl_->model(), "get_model_info", key).get()); });
}

Status Model::Finalize() {
  impl_->Close();
  return kSuccess;
}

bool Model::CheckModelSupport(enum DeviceType device_type, ModelType model_type) {
  return Tried([&] {
    return Call("supports", static_cast<int64_t>(device_type), static_cast<int64_t>(model_type)).get() == Py_True;
  });
}
}  // namespace mindspore
