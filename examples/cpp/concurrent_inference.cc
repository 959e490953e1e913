// Many clients, one model: the code of MindSpore's tutorial "Using C++ Interface to Perform Concurrent Inference", as it
// stands there, in one program. Copyright Huawei Technologies Co., Ltd., Apache License 2.0.
//
//     concurrent_inference MODEL INPUT [CLIENTS]
//
// MODEL takes one picture, whose bytes are in the file INPUT. Each client predicts twice and prints the classes.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "include/api/context.h"
#include "include/api/model_parallel_runner.h"
#include "include/api/status.h"
#include "include/api/types.h"

namespace {
constexpr int kNumWorkers = 3;
constexpr int kNumTasks = 2;

// What a client has of the runner. The tutorial's code deletes it after an error; the other clients go on.
struct Client {
  mindspore::ModelParallelRunner *runner;
  mindspore::Status Predict(const std::vector<mindspore::MSTensor> &inputs, std::vector<mindspore::MSTensor> *outputs) {
    return runner->Predict(inputs, outputs);
  }
};

int RunTasks(mindspore::ModelParallelRunner *runner, int number, std::vector<char> *picture) {
  auto model_runner = new Client{runner};
  for (int task = 1; task <= kNumTasks; ++task) {
    auto inputs = runner->GetInputs();
    if (inputs.empty() || inputs[0].DataSize() != picture->size()) {
      delete model_runner;
      std::cerr << "the model does not take the picture" << std::endl;
      return -1;
    }
    inputs[0].SetData(picture->data(), false);  // the data stays where it is
    std::vector<mindspore::MSTensor> outputs;

// Model Predict
auto predict_ret = model_runner->Predict(inputs, &outputs);
if (predict_ret != mindspore::kSuccess) {
  delete model_runner;
  std::cerr << "Predict error " << predict_ret << std::endl;
  return -1;
}

    auto scores = static_cast<const float *>(outputs[0].Data().get());
    auto best = std::max_element(scores, scores + outputs[0].ElementNum());
    std::string line = "client " + std::to_string(number) + " task " + std::to_string(task) + " class " +
                       std::to_string(best - scores) + " score " + std::to_string(*best) + "\n";
    std::cout << line << std::flush;
  }
  delete model_runner;
  return 0;
}
}  // namespace

int main(int argc, const char **argv) {
  if (argc < 3) {
    std::cerr << "usage: concurrent_inference MODEL INPUT [CLIENTS]" << std::endl;
    return -1;
  }
  std::string model_path = argv[1];
  std::ifstream file(argv[2], std::ios::binary);
  std::vector<char> picture{std::istreambuf_iterator<char>(file), {}};
  int clients = argc > 3 ? std::stoi(argv[3]) : 5;

// Create and init context, add CPU device info
auto context = std::make_shared<mindspore::Context>();
if (context == nullptr) {
  std::cerr << "New context failed." << std::endl;
  return -1;
}
auto &device_list = context->MutableDeviceInfo();
auto device_info = std::make_shared<mindspore::CPUDeviceInfo>();
if (device_info == nullptr) {
  std::cerr << "New CPUDeviceInfo failed." << std::endl;
  return -1;
}
device_list.push_back(device_info);

// Create model
auto model_runner = new (std::nothrow) mindspore::ModelParallelRunner();
if (model_runner == nullptr) {
  std::cerr << "New Model failed." << std::endl;
  return -1;
}
auto runner_config = std::make_shared<mindspore::RunnerConfig>();
if (runner_config == nullptr) {
  std::cerr << "runner config is nullptr." << std::endl;
  return -1;
}
runner_config->SetContext(context);
runner_config->SetWorkersNum(kNumWorkers);

// Build model
auto build_ret = model_runner->Init(model_path, runner_config);
if (build_ret != mindspore::kSuccess) {
delete model_runner;
  std::cerr << "Build model error " << build_ret << std::endl;
  return -1;
}

  std::vector<std::thread> threads;
  std::vector<int> results(clients);
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] { results[client] = RunTasks(model_runner, client, &picture); });
  }
  for (auto &thread : threads) thread.join();

// Delete model runner.
delete model_runner;
  return *std::min_element(results.begin(), results.end());
}
