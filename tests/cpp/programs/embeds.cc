// A program that embeds Python itself, starts it before the library does, and ends it. Argument: a model that adds.
#include <Python.h>

#include <thread>

#include "check.h"

using namespace mindspore;

static float Add(Model *model) {
  auto inputs = model->GetInputs();
  for (auto &input : inputs) static_cast<float *>(input.MutableData())[0] = 2;
  std::vector<MSTensor> outputs;
  CHECK_OK(model->Predict(inputs, &outputs));
  return outputs.empty() ? 0 : Floats(outputs[0])[0];
}

int main(int, const char **argv) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  PyConfig_SetBytesString(&config, &config.executable, argv[2]);
  CHECK(!PyStatus_Exception(Py_InitializeFromConfig(&config)));
  PyConfig_Clear(&config);
  static Model left;  // outlives Python
  std::vector<MSTensor> results;
  {
    Model model;
    CHECK_OK(model.Build(argv[1], kMindIR));  // with Python's lock held
    CHECK(PyGILState_Check() && Add(&model) == 4);
    CHECK_OK(left.Build(argv[1], kMindIR));
    auto inputs = left.GetInputs();
    for (auto &input : inputs) input.MutableData();
    CHECK_OK(left.Predict(inputs, &results));
    CHECK(PyRun_SimpleString("import sys, pinnace; assert 'pinnace.cpp.bridge' in sys.modules") == 0);
    PyThreadState *saved = PyEval_SaveThread();
    std::thread([&] { CHECK(Add(&model) == 4); }).join();
    PyEval_RestoreThread(saved);
  }
  left.Finalize();
  CHECK(Py_FinalizeEx() == 0);
  std::vector<MSTensor> outputs;
  CHECK_STATUS(left.Build(argv[1], kMindIR), kMDPythonInterpreterFailure, "ended");
  CHECK(!results.empty() && Floats(results[0]) != nullptr);
  std::printf("%d failures\n", failures);
  return failures != 0;
}
