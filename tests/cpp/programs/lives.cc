// Lives of a process around the library. Arguments: which one, and a model that adds two inputs.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "check.h"
#include "include/api/model_parallel_runner.h"

using namespace mindspore;

static std::string path;
static Model at_exit;  // its destructor runs after main

static float Add(Model *model) {
  auto inputs = model->GetInputs();
  for (auto &input : inputs) static_cast<float *>(input.MutableData())[0] = 2;
  std::vector<MSTensor> outputs;
  Status status = model->Predict(inputs, &outputs);
  if (status.IsError()) std::printf("%s\n", status.ToString().c_str());
  return status.IsOk() ? Floats(outputs[0])[0] : 0;
}

static void Static() {
  CHECK_OK(at_exit.Build(path, kMindIR));
  CHECK(Add(&at_exit) == 4);
}

// Threads that come and go, the first of which starts Python.
static void Threads() {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        Model model;
        CHECK_OK(model.Build(path, kMindIR));
        for (int times = 0; times < 20; ++times) CHECK(Add(&model) == 4);
      });
    }
    for (auto &thread : threads) thread.join();
  }
}

// A child of a fork runs its parent's model if the engine can, as in Python, or is told, and can build one; the parent
// goes on.
static void Fork() {
  Model model;
  CHECK_OK(model.Build(path, kMindIR));
  CHECK(Add(&model) == 4);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::vector<MSTensor> outputs;
    Status status = model.Predict(model.GetInputs(), &outputs);
    CHECK(status.IsOk() || status.ToString().find("fork") != std::string::npos);
    Model other;
    CHECK_OK(other.Build(path, kMindIR));
    CHECK(Add(&other) == 4);
    std::exit(failures);
  }
  CHECK(Add(&model) == 4);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void Broken() {
  Model model;
  CHECK_STATUS(model.Build(path, kMindIR), kMDPythonInterpreterFailure, "PINNACE_PYTHON");
  CHECK(Version().empty() && model.GetInputs().empty() && !Model::CheckModelSupport(kCPU, kMindIR));
  CHECK_STATUS(ModelParallelRunner().Init(path), kMDPythonInterpreterFailure, "PINNACE_PYTHON");
}

int main(int, const char **argv) {
  path = argv[2];
  if (!std::strcmp(argv[1], "static")) Static();
  if (!std::strcmp(argv[1], "threads")) Threads();
  if (!std::strcmp(argv[1], "fork")) Fork();
  if (!std::strcmp(argv[1], "broken")) Broken();
  std::printf("%d failures\n", failures);
  return failures != 0;
}
