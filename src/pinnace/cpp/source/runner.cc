#include "include/api/model_group.h"
#include "include/api/model_parallel_runner.h"
#include "model_impl.h"

namespace mindspore {
ModelParallelRunner::ModelParallelRunner() : impl_(std::make_shared<ModelImpl>()) {}
ModelParallelRunner::~ModelParallelRunner() = default;

namespace {
template <class Source>
Status InitRunner(ModelImpl *impl, const Source &source, const std::shared_ptr<RunnerConfig> &given) {
  RunnerConfig config = given == nullptr ? RunnerConfig() : *given;
  return Try([&] {
    impl->CheckIsNew();
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
  return Tried([&] { return impl_->Made("get_inputs"); });
}

std::vector<MSTensor> ModelParallelRunner::GetOutputs() {
  return Tried([&] { return impl_->Made("get_outputs"); });
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
  return Try([&] { Method(impl_->group(), "add_model", model_path_list); });
}

Status ModelGroup::AddModel(const std::vector<std::pair<const void *, size_t>> &) {
  return Status(kLiteNotSupport, "a ModelGroup takes paths of models: those from bytes cannot be told apart");
}

Status ModelGroup::CalMaxSizeOfWorkspace(ModelType model_type, const std::shared_ptr<Context> &ms_context) {
  return Try([&] { Call("measure", impl_->group(), static_cast<int64_t>(model_type), Described(ms_context)); });
}

namespace {
int OfGpu(const char *attribute) {
  return static_cast<int>(Tried([&] { return Number(python::Attribute(Call("GPU"), attribute).get()); }));
}
}  // namespace

int GPUDeviceInfo::GetRankID() const { return OfGpu("rank_id"); }
int GPUDeviceInfo::GetGroupSize() const { return OfGpu("group_size"); }

std::string Version() {
  return Tried([] { return Text(python::Attribute(python::Bridge(), "__version__").get()); });
}
}  // namespace mindspore
