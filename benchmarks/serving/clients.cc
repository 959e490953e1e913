// The C++ side of `python -m benchmarks cpp`: MODEL ELEMENTS CLIENTS SECONDS. Prints one line of JSON.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "include/api/model_parallel_runner.h"

using namespace mindspore;
using Clock = std::chrono::steady_clock;

static double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

static double Megabytes(const std::string &key) {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word == key) return file >> word, std::stod(word) / 1024;
  }
  return 0;
}

int main(int, char **argv) {
  std::string path = argv[1];
  int clients = std::atoi(argv[3]);
  double seconds = std::atof(argv[4]);
  auto context = std::make_shared<Context>();
  context->SetThreadNum(1);
  auto config = std::make_shared<RunnerConfig>();
  config->SetContext(context);
  config->SetWorkersNum(2);
  ModelParallelRunner runner;
  Status status = runner.Init(path, config);
  if (status.IsError()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;

  std::vector<float> values(std::atoi(argv[2]), 0.5f);
  std::atomic<bool> go{false}, stop{false};
  std::atomic<long> done{0}, failed{0};
  std::vector<std::thread> threads;
  std::vector<double> least(clients, 1e9);
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      auto inputs = runner.GetInputs();
      inputs[0].SetData(values.data(), false);
      std::vector<MSTensor> outputs;
      for (int warm = 0; warm < 10; ++warm) runner.Predict(inputs, &outputs);
      while (!go) std::this_thread::yield();
      while (!stop) {
        auto start = Clock::now();
        for (int i = 0; i < 10 && !stop; ++i) {
          failed += runner.Predict(inputs, &outputs).IsError();
          ++done;
        }
        if (!stop) least[client] = std::min(least[client], Seconds(start) / 10);
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  auto start = Clock::now();
  go = true;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  double rate = done / Seconds(start);
  stop = true;
  for (auto &thread : threads) thread.join();
  std::printf("{\"requests/s\": %.6g, \"least us\": %.6g, \"resident MB\": %.6g, \"private MB\": %.6g}\n", rate,
              *std::min_element(least.begin(), least.end()) * 1e6, Megabytes("Rss:"), Megabytes("Private_Dirty:"));
  return failed != 0;
}
