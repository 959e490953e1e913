// Runners that come and go: MODEL COUNT. What they leave in the process is printed as JSON, for one runner each.
// Memory is what malloc has given out, since the first tenth of them.
#include <dirent.h>
#include <malloc.h>

#include <thread>

#include "check.h"
#include "include/api/model_parallel_runner.h"

using namespace mindspore;

struct Left {
  double memory, files, threads, mappings;
};

static double Entries(const char *folder) {
  double count = 0;
  DIR *opened = opendir(folder);
  while (readdir(opened) != nullptr) ++count;
  closedir(opened);
  return count;
}

static Left Now() {
  struct mallinfo2 info = mallinfo2();
  std::ifstream maps("/proc/self/maps");
  double lines = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  return {double(info.uordblks + info.hblkhd), Entries("/proc/self/fd"), Entries("/proc/self/task"), lines};
}

static void OpenAndDelete(const std::string &path, const std::vector<char> &bytes, int turn) {
  auto context = std::make_shared<Context>();
  context->SetThreadNum(1);
  auto config = std::make_shared<RunnerConfig>();
  config->SetContext(context);
  config->SetWorkersNum(2);
  auto runner = new ModelParallelRunner();
  CHECK_OK(turn % 2 ? runner->Init(path, config) : runner->Init(bytes.data(), bytes.size(), config));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      auto inputs = runner->GetInputs();
      for (auto &input : inputs) input.SetData(std::calloc(1, input.DataSize()));  // the tensor frees it
      std::vector<MSTensor> outputs, wrong(3);
      CHECK_OK(runner->Predict(inputs, &outputs));
      outputs[0].MutableData();
      auto copy = outputs[0].Clone();
      CHECK(runner->Predict(inputs, &wrong).IsError());
      MSTensor::DestroyTensorPtr(copy);
    });
  }
  for (auto &thread : threads) thread.join();
  delete runner;
}

int main(int, const char **argv) {
  int count = std::atoi(argv[2]), first = count / 10;
  auto bytes = Read(argv[1]);
  for (int turn = 0; turn < first; ++turn) OpenAndDelete(argv[1], bytes, turn);
  Left before = Now();
  for (int turn = first; turn < count; ++turn) OpenAndDelete(argv[1], bytes, turn);
  Left after = Now();
  double times = count - first;
  std::printf("{\"memory\": %g, \"files\": %g, \"threads\": %g, \"mappings\": %g, \"failures\": %d}\n",
              (after.memory - before.memory) / times, (after.files - before.files) / times,
              (after.threads - before.threads) / times, (after.mappings - before.mappings) / times, failures);
  return failures != 0;
}
