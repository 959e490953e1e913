// Every class of the headers, used as programs use it. Arguments: the folder tests/data, and a folder to write into.
#include <atomic>
#include <thread>

#include "check.h"
#include "include/api/allocator.h"
#include "include/api/delegate.h"
#include "include/api/model_group.h"
#include "include/api/model_parallel_runner.h"
#include "include/api/serialization.h"

using namespace mindspore;

static std::string data, folder;

static std::shared_ptr<Context> Cpu() {
  auto context = std::make_shared<Context>();
  context->SetThreadNum(1);
  context->MutableDeviceInfo().push_back(std::make_shared<CPUDeviceInfo>());
  return context;
}

static void Statuses() {
  Status ok;
  CHECK_OK(ok);
  CHECK(ok && ok == kSuccess && ok == Status::OK() && ok.ToString() == "OK");
  Status bad(kLiteFileError, "no such file");
  CHECK(bad.IsError() && !bad && bad != ok && bad == kLiteFileError && bad.StatusCode() == kLiteFileError);
  CHECK(kLiteShapeError == 0xFFFFFE6Fu && kLiteOutputParamInvalid == 0xFFFFFD44u && kLiteAclInitFailed == 0xFFFFFFF3u);
  CHECK(int(bad) == int(kLiteFileError) && bad.ToString() == "file error: no such file");
  bad.SetStatusMsg("other");
  CHECK(bad.GetErrDescription() == "other");
  Status placed(kMDSyntaxError, 7, "file.cc", "extra");
  CHECK(placed.GetLineOfCode() == 7 && placed.GetFileName() == "file.cc");
  std::ostringstream text;
  text << bad;
  CHECK(text.str() == "file error: other");
}

static void Tensors() {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  auto tensor = MSTensor::CreateTensor("t", DataType::kNumberTypeFloat32, {2, 3}, values.data(), 24);
  CHECK(tensor != nullptr && tensor->Name() == "t" && tensor->ElementNum() == 6 && tensor->DataSize() == 24);
  CHECK(tensor->Data().get() != values.data() && Floats(*tensor)[5] == 6);
  CHECK(MSTensor::CreateTensor("t", DataType::kNumberTypeFloat32, {2, 3}, values.data(), 20) == nullptr);

  auto copy = tensor->Clone();
  MSTensor same = *tensor;
  static_cast<float *>(tensor->MutableData())[0] = 9;
  CHECK(Floats(*copy)[0] == 1 && Floats(same)[0] == 9 && same == *tensor && *copy != *tensor);
  MSTensor::DestroyTensorPtr(copy);
  MSTensor::DestroyTensorPtr(tensor);
  CHECK(Floats(same)[0] == 9);

  auto lent = MSTensor::CreateRefTensor("r", DataType::kNumberTypeFloat32, {6}, values.data(), 24, false);
  CHECK(lent->Data().get() == values.data() && lent->MutableData() == values.data());
  lent->SetShape({3, 2});
  lent->SetDataType(DataType::kNumberTypeInt32);
  lent->SetFormat(NCHW);
  lent->SetTensorName("renamed");
  lent->SetQuantParams({{8, 0.5, 3, 0, 0}});
  CHECK(lent->Shape() == (std::vector<int64_t>{3, 2}) && lent->DataType() == DataType::kNumberTypeInt32);
  CHECK(lent->format() == NCHW && lent->Name() == "renamed" && lent->QuantParams()[0].zero_point == 3);
  CHECK(FormatEnumToString(lent->format()) == "NCHW" && FormatEnumToString(static_cast<Format>(99)).empty());
  MSTensor::DestroyTensorPtr(lent);

  MSTensor owner("o", DataType::kNumberTypeInt8, {4}, nullptr, 0);
  owner.SetData(std::malloc(4));  // freed by the tensor
  owner.SetData(std::malloc(4));
  auto kept = MSTensor::CreateTensor("k", DataType::kNumberTypeFloat32, {6}, values.data(), 24);
  kept->SetData(kept->MutableData());  // its own memory stays
  CHECK(Floats(*kept)[5] == 6);
  kept->SetShape({6000});
  CHECK(kept->Clone() == nullptr);  // it has no more than 6
  MSTensor::DestroyTensorPtr(kept);
  MSTensor nothing, null(nullptr);
  CHECK(nothing != nullptr && null == nullptr && null.Name().empty() && null.MutableData() == nullptr);
  MSTensor free_size("f", DataType::kNumberTypeFloat32, {-1, 3}, nullptr, 0);
  CHECK(free_size.DataSize() == 0 && free_size.MutableData() == nullptr && free_size.Data() == nullptr);
  free_size.SetShape({2, 3});
  CHECK(static_cast<float *>(free_size.MutableData())[5] == 0);
  free_size.SetShape({200, 3});
  CHECK(static_cast<float *>(free_size.MutableData())[599] == 0);

  std::ofstream(folder + "/four.bin", std::ios::binary).write("abcd", 4);
  auto bytes = MSTensor::CreateTensorFromFile(folder + "/four.bin");
  CHECK(bytes != nullptr && bytes->Shape() == std::vector<int64_t>{4});
  auto number = MSTensor::CreateTensorFromFile(folder + "/four.bin", DataType::kNumberTypeFloat32, {1, 1});
  CHECK(number != nullptr && number->ElementNum() == 1);
  CHECK(MSTensor::CreateTensorFromFile(folder + "/none.bin") == nullptr);
  MSTensor::DestroyTensorPtr(bytes);
  MSTensor::DestroyTensorPtr(number);

  std::vector<std::string> words = {"pinnace", "", "sails"};
  auto text = MSTensor::StringsToTensor("text", words);
  CHECK(MSTensor::TensorToStrings(*text) == words && text->DataType() == DataType::kObjectTypeString);
  MSTensor::DestroyTensorPtr(text);

  auto allocator = Allocator::Create();
  MSTensor allocated("a", DataType::kNumberTypeInt64, {2}, nullptr, 0);
  allocated.SetAllocator(allocator);
  CHECK(allocated.MutableData() != nullptr && allocated.allocator() == allocator);

  Buffer buffer("abc", 3), clone = buffer.Clone();
  buffer.ResizeData(5);
  CHECK(buffer.DataSize() == 5 && clone.DataSize() == 3 && !buffer.SetData(nullptr, 1));
}

// tests/data/api/add.onnx adds x and y of 3 x 4 x 5.
static void Models() {
  Model model;
  CHECK(model.GetInputs().empty() && model.GetOutputs().empty() && model.GetModelInfo("device").empty());
  std::vector<MSTensor> outputs;
  CHECK_STATUS(model.Predict({}, &outputs), kLiteUninitializedObj, "not built");
  CHECK_STATUS(model.Build(folder + "/none.mindir", kMindIR, Cpu()), kLiteGraphFileError, "none.mindir");
  CHECK_STATUS(model.Build(data + "/api/add.onnx", kOM, Cpu()), kLiteNotSupport, "model type 2");
  CHECK_STATUS(model.Build("no model", 8, kMindIR), kLiteGraphFileError, "model buffer");
  CHECK_STATUS(model.Build(nullptr, 8, kMindIR), kLiteNullptr, "");
  CHECK_STATUS(model.Build("no model", 8, "weights", 7, kMindIR), kLiteNotSupport, "mindir_path");
  CHECK_OK(model.Build(data + "/api/add.onnx", kMindIR, Cpu()));
  CHECK_STATUS(model.Build(data + "/api/add.onnx", kMindIR), kLiteModelRebuild, "another one");
  CHECK_STATUS(model.UpdateConfig("common_context", {"prefer", "memory"}), kLiteModelRebuild, "");
  CHECK(model.GetModelInfo("device") == "cpu:0" && model.GetModelInfo("none").empty());
  Model contended;
  std::atomic<int> built{0}, refused{0};
  std::vector<std::thread> builders;
  for (int i = 0; i < 4; ++i) {
    builders.emplace_back([&] {
      Status status = contended.Build(data + "/api/add.onnx", kMindIR, Cpu());
      built += status == kSuccess;
      refused += status == kLiteModelRebuild;
    });
  }
  for (auto &builder : builders) builder.join();
  CHECK(built == 1 && refused == 3);

  auto inputs = model.GetInputs();
  CHECK(inputs.size() == 2 && inputs[0].Name() == "x" && inputs[1].Shape() == (std::vector<int64_t>{3, 4, 5}));
  CHECK(inputs[0].DataType() == DataType::kNumberTypeFloat32 && model.GetInputByTensorName("y") == inputs[1]);
  CHECK(model.GetInputByTensorName("none") == nullptr && model.GetOutputTensorNames() == std::vector<std::string>{"sum"});
  CHECK_STATUS(model.Predict(inputs, &outputs), kLiteInputTensorError, "'x' has no data");
  CHECK_STATUS(model.Predict(inputs, nullptr), kLiteNullptr, "");

  for (auto &input : inputs) static_cast<float *>(input.MutableData())[59] = 2;
  auto handed = model.GetOutputs();
  CHECK_OK(model.Predict(inputs, &handed));
  CHECK(Floats(handed[0])[59] == 4);
  CHECK(Floats(model.GetOutputByTensorName("sum"))[59] == 4 && model.GetOutputsByNodeName("sum").size() == 1);
  CHECK(model.GetOutputsByNodeName("none").empty());

  // Tensors of results stay what they are, whatever is predicted later.
  CHECK_OK(model.Predict(inputs, &outputs));
  MSTensor kept = outputs[0];
  static_cast<float *>(inputs[0].MutableData())[59] = 5;
  CHECK_OK(model.Predict(inputs, &outputs));
  CHECK(Floats(kept)[59] == 4 && Floats(outputs[0])[59] == 7);
  CHECK_OK(model.Predict());
  CHECK(Floats(model.GetOutputs()[0])[59] == 7);

  // Data is read where it lies, and freed as soon as Predict has returned.
  auto values = std::make_unique<std::vector<float>>(60, 1.5f);
  inputs[0].SetData(values->data(), false);
  std::vector<float> result(60);
  std::vector<MSTensor> own = model.GetOutputs();
  own[0].SetData(result.data(), false);
  CHECK_OK(model.Predict(inputs, &own));
  CHECK(result[59] == 3.5f && own[0].Data().get() == result.data());
  values->at(0) = 4;
  CHECK_OK(model.Predict(inputs, &own));
  CHECK(result[0] == 4);
  values.reset();
  inputs[0].SetData(result.data(), false);
  MSTensor sums = own[0];
  own.clear();
  CHECK_OK(model.Predict(inputs, &own));
  CHECK(Floats(own[0])[59] == 5.5f && result[59] == 3.5f);

  sums.SetShape({2});
  std::vector<MSTensor> small = {sums};
  CHECK_STATUS(model.Predict(inputs, &small), kLiteInputTensorError, "240 bytes");
  small.push_back(sums);
  CHECK_STATUS(model.Predict(inputs, &small), kLiteInputTensorError, "1 outputs, but Predict was given 2");
  outputs.clear();
  CHECK_STATUS(model.Predict({inputs[0]}, &outputs), kLiteInputTensorError, "2 inputs");
  CHECK_STATUS(model.Predict({inputs[0], MSTensor(nullptr)}, &outputs), kLiteNullptr, "");
  inputs[1].SetShape({60});
  CHECK_OK(model.Predict(inputs, &outputs));  // flat data
  inputs[1].SetDataType(DataType::kNumberTypeInt32);
  CHECK_STATUS(model.Predict(inputs, &outputs), kLiteInputTensorError, "'y'");

  CHECK_OK(model.Finalize());
  CHECK_STATUS(model.Predict(inputs, &outputs), kLiteUninitializedObj, "");
  CHECK(Floats(kept)[59] == 4);  // outlives the model
}

static void OtherBuilds() {
  auto bytes = std::make_unique<std::vector<char>>(Read(data + "/api/dense.mindir"));
  Model model;
  CHECK_OK(model.Build(bytes->data(), bytes->size(), kMindIR, Cpu()));
  bytes.reset();
  auto inputs = model.GetInputs();
  CHECK(inputs[0].Shape() == (std::vector<int64_t>{-1, 3}));
  std::vector<MSTensor> outputs;
  CHECK_STATUS(model.Predict(inputs, &outputs), kLiteInputTensorError, "free dimensions");
  CHECK_STATUS(model.Resize(inputs, {{2, 4}}), kLiteInputTensorError, "");
  CHECK_STATUS(model.Resize({}, {}), kLiteParamInvalid, "1 inputs");
  CHECK_OK(model.Resize(inputs, {{2, 3}}));
  CHECK(inputs[0].Shape() == (std::vector<int64_t>{2, 3}));
  inputs[0].MutableData();
  CHECK_OK(model.Predict(inputs, &outputs));
  CHECK(outputs[0].Shape() == (std::vector<int64_t>{2, 2}));
  outputs[0].SetShape({50, 2});
  CHECK(static_cast<float *>(outputs[0].MutableData())[99] == 0);
  inputs[0].SetShape({50, 3});
  CHECK_STATUS(model.Predict(inputs, &outputs), kLiteInputTensorError, "24 bytes");
  inputs[0].SetShape({2, 3});

  std::vector<std::string> seen;
  auto before = [&](auto &, auto &, const MSCallBackParam &op) { return seen.push_back("<" + op.node_type), true; };
  auto after = [&](auto &, auto &, const MSCallBackParam &op) {
    return seen.push_back(">" + op.node_type), op.execute_time >= 0;
  };
  CHECK_OK(model.Predict(inputs, &outputs, before, after));
  CHECK(seen.size() >= 2 && seen[0].substr(1) == seen[1].substr(1));
  auto stop = [](auto &, auto &, const MSCallBackParam &) { return false; };
  CHECK_STATUS(model.Predict(inputs, &outputs, stop), kLiteError, "callback");

  Graph graph;
  CHECK(graph == nullptr && graph.ModelType() == kUnknownType);
  Model empty, loaded, secret;
  CHECK_STATUS(empty.Build(GraphCell(graph)), kLiteNullptr, "empty");
  CHECK_OK(Serialization::Load(data + "/api/picture.ms", kMindIR, &graph));
  CHECK_OK(loaded.Build(GraphCell(graph), Cpu()));
  CHECK(loaded.GetInputs().size() == 1);
  CHECK_STATUS(empty.Build(GraphCell(graph), Cpu(), std::make_shared<TrainCfg>()), kLiteNotSupport, "trains");

  const std::string encrypted = data + "/encrypted/relu_AES-GCM.mindir";
  Key key("0123456789ABCDEF", 16);
  CHECK_OK(secret.Build(encrypted, kMindIR, Cpu(), key, kDecModeAesGcm, ""));

  Model text, configured;
  CHECK_STATUS(configured.LoadConfig(folder + "/none.ini"), kLiteInputParamInvalid, "none.ini");
  std::ofstream(folder + "/config.ini") << "[common_context]\nprefer=memory\n";
  CHECK_OK(configured.LoadConfig(folder + "/config.ini"));
  CHECK_OK(configured.UpdateConfig("common_context", {"prefer", "speed"}));
  CHECK_STATUS(configured.Build(data + "/api/add.onnx", kONNX, Cpu()), kLiteInputParamInvalid, "prefer");
  CHECK_OK(configured.UpdateConfig("common_context", {"prefer", "latency"}));
  CHECK_OK(configured.Build(data + "/api/add.onnx", kONNX, Cpu()));

  Model words;
  CHECK_OK(words.Build(folder + "/words.onnx", kONNX, Cpu()));
  auto given = MSTensor::StringsToTensor("w", {"b", "a\xc3\xa4"});
  std::vector<MSTensor> taken;
  CHECK_OK(words.Predict({*given}, &taken));
  CHECK(MSTensor::TensorToStrings(taken[0]) == (std::vector<std::string>{"bb", "a\xc3\xa4" "a\xc3\xa4"}));
  MSTensor::DestroyTensorPtr(given);
}

static void Weights() {
  std::ofstream(folder + "/names.txt") << "w\n";
  Model model;
  CHECK_OK(model.UpdateConfig("common_context", {"variable_weights_file", folder + "/names.txt"}));
  CHECK_OK(model.Build(folder + "/scale.onnx", kONNX, Cpu()));
  auto inputs = model.GetInputs();
  static_cast<float *>(inputs[0].MutableData())[0] = 3;
  std::vector<MSTensor> outputs;
  CHECK_OK(model.Predict(inputs, &outputs));
  CHECK(Floats(outputs[0])[0] == 6);
  std::vector<float> weight = {10, 10};
  MSTensor other("w", DataType::kNumberTypeFloat32, {2}, weight.data(), 8);
  CHECK_OK(model.UpdateWeights(std::vector<MSTensor>{other}));
  CHECK_OK(model.Predict(inputs, &outputs));
  CHECK(Floats(outputs[0])[0] == 30);
  other.SetTensorName("none");
  CHECK_STATUS(model.UpdateWeights(std::vector<std::vector<MSTensor>>{{other}}), kLiteParamInvalid, "none");
}

static void Contexts() {
  auto model = data + "/api/add.onnx";
  auto context = Cpu();
  context->SetInterOpParallelNum(1);
  context->SetThreadAffinity(1);
  context->SetThreadAffinity(std::vector<int>{0});
  context->SetEnableParallel(true);
  CHECK(context->GetThreadNum() == 1 && context->GetThreadAffinityMode() == 1 && context->GetEnableParallel());
  CHECK(context->GetThreadAffinityCoreList() == std::vector<int32_t>{0} && context->GetInterOpParallelNum() == 1);
  auto cpu = context->MutableDeviceInfo()[0]->Cast<CPUDeviceInfo>();
  CHECK(cpu != nullptr && cpu->Cast<GPUDeviceInfo>() == nullptr);
  cpu->SetProvider("onnxruntime");
  cpu->SetEnableFP16(true);
  CHECK(cpu->GetProvider() == "onnxruntime" && cpu->GetEnableFP16());
  CHECK_OK(Model().Build(model, kONNX, context));
  cpu->SetProvider("none");
  CHECK_STATUS(Model().Build(model, kONNX, context), kLiteParamInvalid, "provider");
  cpu->SetProvider("");
  context->SetThreadNum(-1);
  CHECK_STATUS(Model().Build(model, kONNX, context), kLiteParamInvalid, "thread_num");

  auto strange = Cpu();
  strange->SetBuiltInDelegate(kNNAPI);
  CHECK_STATUS(Model().Build(model, kONNX, strange), kLiteNotSupport, "Context::SetBuiltInDelegate");
  strange->SetBuiltInDelegate(kNoDelegate);
  strange->MutableDeviceInfo()[0]->SetAllocator(Allocator::Create());
  CHECK_STATUS(Model().Build(model, kONNX, strange), kLiteNotSupport, "CPUDeviceInfo::SetAllocator");
  strange->MutableDeviceInfo()[0] = std::make_shared<KirinNPUDeviceInfo>();
  CHECK_STATUS(Model().Build(model, kONNX, strange), kLiteNotSupport, "no CPU, GPU or Ascend");
  strange->MutableDeviceInfo()[0] = nullptr;
  CHECK_STATUS(Model().Build(model, kONNX, strange), kLiteNullptr, "");
  auto wrong_order = Cpu();
  wrong_order->MutableDeviceInfo().push_back(std::make_shared<GPUDeviceInfo>());
  CHECK_STATUS(Model().Build(model, kONNX, wrong_order), kLiteInputParamInvalid, "put the device first");

  CHECK_STATUS(Model().RunStep(), kLiteNotSupport, "trains");
  CHECK_STATUS(Model().Preprocess({}, nullptr), kLiteNotSupport, "preprocessing");
  CHECK(Model::CheckModelSupport(kCPU, kMindIR) && !Model::CheckModelSupport(kCPU, kOM));
  CHECK(!Model::CheckModelSupport(kKirinNPU, kMindIR));
}

// Two GPUs and an Ascend device are simulated: their memory is the host's.
static void Devices() {
  auto context = std::make_shared<Context>();
  auto gpu = std::make_shared<GPUDeviceInfo>();
  gpu->SetDeviceID(1);
  context->MutableDeviceInfo() = {gpu, std::make_shared<CPUDeviceInfo>()};
  CHECK(gpu->GetDeviceID() == 1 && gpu->GetRankID() == 0 && gpu->GetGroupSize() == 1);
  Model model;
  CHECK_OK(model.Build(data + "/api/add.onnx", kONNX, context));
  CHECK(model.GetModelInfo("device").rfind("gpu:1", 0) == 0);
  std::vector<float> values(60, 1), results(60);
  auto inputs = model.GetInputs();
  for (auto &input : inputs) input.SetDeviceData(values.data());
  auto outputs = model.GetOutputs();
  outputs[0].SetDeviceData(results.data());
  CHECK(inputs[0].IsDevice() && model.Predict(inputs, &outputs).IsOk() && results[59] == 2);
  gpu->SetDeviceID(9);
  CHECK_STATUS(Model().Build(data + "/api/add.onnx", kONNX, context), kMCDeviceError, "9");
  gpu->SetEnableGLTexture(true);
  CHECK_STATUS(Model().Build(data + "/api/add.onnx", kONNX, context), kLiteNotSupport, "GPUDeviceInfo::SetEnableGLTexture");

  auto ascend = std::make_shared<AscendDeviceInfo>();
  ascend->SetInputShape("x:[-1,3]");
  ascend->SetDynamicBatchSize({1, 2});
  ascend->SetPrecisionMode("preferred_fp32");
  CHECK(ascend->GetDynamicBatchSize() == "1,2");
  context->MutableDeviceInfo() = {ascend};
  Model limited;
  CHECK_OK(limited.Build(data + "/api/dense.onnx", kONNX, context));
  inputs = limited.GetInputs();
  inputs[0].SetShape({3, 3});
  inputs[0].MutableData();
  outputs.clear();
  CHECK_STATUS(limited.Predict(inputs, &outputs), kLiteInputTensorError, "[1],[2]");

  auto config = std::make_shared<RunnerConfig>();
  gpu->SetEnableGLTexture(false);
  gpu->SetDeviceID(0);
  context->MutableDeviceInfo() = {gpu};
  config->SetContext(context);
  config->SetDeviceIds({0, 1});
  config->SetWorkersNum(1);
  ModelParallelRunner runner;
  CHECK_OK(runner.Init(data + "/api/add.onnx", config));
  inputs = runner.GetInputs();
  for (auto &input : inputs) input.SetData(values.data(), false);
  outputs.clear();
  CHECK_OK(runner.Predict(inputs, &outputs));
  CHECK(Floats(outputs[0])[0] == 2);
}

static void Runners() {
  ModelParallelRunner runner;
  std::vector<MSTensor> outputs;
  CHECK(runner.GetInputs().empty() && runner.GetOutputs().empty());
  CHECK_STATUS(runner.Predict({}, &outputs), kLiteUninitializedObj, "not built");
  auto config = std::make_shared<RunnerConfig>();
  config->SetContext(Cpu());
  config->SetWorkersNum(-1);
  CHECK_STATUS(runner.Init(data + "/split/big_graph.mindir", config), kLiteParamInvalid, "workers_num");
  config->SetWorkersNum(1);
  auto graph = Read(data + "/split/big_graph.mindir");
  CHECK(runner.Init(graph.data(), graph.size(), config).IsError());  // its weights are not in it
  config->SetConfigInfo("model_File", {{"mindir_path", data + "/split/big_graph.mindir"}});
  CHECK(config->GetConfigInfo().size() == 1 && config->GetWorkersNum() == 1);
  CHECK_OK(runner.Init(graph.data(), graph.size(), config));
  CHECK_STATUS(runner.Init(data + "/api/add.onnx"), kLiteModelRebuild, "another");
  auto inputs = runner.GetInputs(), others = runner.GetInputs();
  CHECK(inputs[0] != others[0] && runner.GetOutputs()[0].Shape() == (std::vector<int64_t>{3, 8}));
  static_cast<float *>(inputs[0].MutableData())[0] = 1;
  CHECK_OK(runner.Predict(inputs, &outputs));
  CHECK(outputs[0].DataSize() == 96);
  CHECK_STATUS(runner.Predict(others, &outputs), kLiteInputTensorError, "no data");
  config->SetConfigPath(folder + "/none.ini");
  CHECK_STATUS(ModelParallelRunner().Init(data + "/api/add.onnx", config), kLiteParamInvalid, "config_path");

  ModelGroup group(ModelGroupFlag::kShareWeightAndWorkspace);
  CHECK_STATUS(group.CalMaxSizeOfWorkspace(kMindIR, Cpu()), kLiteUninitializedObj, "paths");
  CHECK_OK(group.AddModel({data + "/api/add.onnx", data + "/api/add.mindir"}));
  CHECK_STATUS(group.AddModel(std::vector<std::string>{"none.mindir"}), kLiteGraphFileError, "none.mindir");
  CHECK_STATUS(group.AddModel(std::vector<std::pair<const void *, size_t>>{}), kLiteNotSupport, "bytes");
}

int main(int, const char **argv) {
  data = argv[1], folder = argv[2];
  CHECK(!Version().empty());
  Statuses();
  Tensors();
  Models();
  OtherBuilds();
  Weights();
  Contexts();
  Devices();
  Runners();
  std::printf("%d failures\n", failures);
  return failures != 0;
}
