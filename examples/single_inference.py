# The parts for CPU of MindSpore's tutorial "Using Python Interface to Perform Cloud-side Inference", as they stand there
# but for the paths. Copyright Huawei Technologies Co., Ltd., Apache License 2.0.
# Run it from the folder above this one: pinnace exec examples/single_inference.py

import numpy as np
import mindspore_lite as mslite

# init context, and set target is cpu
context = mslite.Context()
context.target = ["cpu"]
context.cpu.thread_num = 1
context.cpu.thread_affinity_mode=2

# build model from file
MODEL_PATH = "src/pinnace/data/efficientnet_lite0.mindir"
IN_DATA_PATH = "examples/input.bin"
model = mslite.Model()
model.build_from_file(MODEL_PATH, mslite.ModelType.MINDIR, context)

# set model input
inputs = model.get_inputs()
in_data = np.fromfile(IN_DATA_PATH, dtype=np.float32)
inputs[0].set_data_from_numpy(in_data)

# execute inference
outputs = model.predict(inputs)

# get output
for output in outputs:
  name = output.name.rstrip()
  data_size = output.data_size
  element_num = output.element_num
  print("tensor's name is:%s data size is:%s tensor elements num is:%s" % (name, data_size, element_num))
  data = output.get_data_to_numpy()
  data = data.flatten()
  print("output data is:", end=" ")
  for i in range(50):
    print(data[i], end=" ")
  print("")
