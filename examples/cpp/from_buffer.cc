// A model from memory, such as one that came over the network, whose weights are in files.
//
//     from_buffer GRAPH PLACE INPUT
//
// GRAPH is a file of which the program reads the bytes, PLACE the path of the model beside which its weights are, and
// INPUT a file with the bytes of its first input.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <vector>

#include "include/api/model_parallel_runner.h"

static std::vector<char> Read(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int argc, const char **argv) {
  if (argc < 4) {
    std::cerr << "usage: from_buffer GRAPH PLACE INPUT" << std::endl;
    return -1;
  }
  std::string place = argv[2];
  auto runner_config = std::make_shared<mindspore::RunnerConfig>();
  runner_config->SetConfigInfo("model_file", {{"mindir_path", place}});

  auto graph = Read(argv[1]);
  mindspore::ModelParallelRunner model_runner;
  auto build_ret = model_runner.Init(graph.data(), graph.size(), runner_config);
  if (build_ret != mindspore::kSuccess) {
    std::cerr << "Build model error " << build_ret << std::endl;
    return -1;
  }
  graph = {};  // the runner has what it needs

  auto inputs = model_runner.GetInputs();
  auto values = Read(argv[3]);
  if (values.size() != inputs[0].DataSize()) {
    std::cerr << "the first input has " << inputs[0].DataSize() << " bytes" << std::endl;
    return -1;
  }
  inputs[0].SetData(values.data(), false);
  std::vector<mindspore::MSTensor> outputs;
  auto predict_ret = model_runner.Predict(inputs, &outputs);
  if (predict_ret != mindspore::kSuccess) {
    std::cerr << "Predict error " << predict_ret << std::endl;
    return -1;
  }
  values = {};  // outputs do not need it

  auto results = static_cast<const float *>(outputs[0].Data().get());
  for (int64_t i = 0; i < std::min<int64_t>(outputs[0].ElementNum(), 50); ++i) std::cout << results[i] << " ";
  std::cout << std::endl;
  return 0;
}
